"""Acknowledgements: a person works on a firing alert, so its notification is not repeated.

Unlike a silence, an acknowledgement ends with the alert's current firing. New alerts of the group and the end of
the alert are still notified. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from alerts.state import Alert, AlertState


@dataclass(frozen=True)
class Acknowledgement:
    """Acknowledges one firing of an alert, identified by `fired_at`. Times are Unix seconds."""

    fingerprint: str
    fired_at: float
    by: str
    at: float
    comment: str = ""

    def covers(self, alert: Alert) -> bool:
        """Whether the alert is still in the acknowledged firing."""
        same = alert.fired_at == self.fired_at and alert.state is AlertState.FIRING
        return same and alert.fingerprint == self.fingerprint  # last: it is the most expensive


def acknowledge(alert: Alert, by: str, at: float, comment: str = "") -> Acknowledgement:
    """Acknowledge a firing alert. Raises ValueError where the alert does not fire."""
    if alert.state is not AlertState.FIRING or alert.fired_at is None:
        raise ValueError(f"the alert is {alert.state}; only a firing alert can be acknowledged")
    return Acknowledgement(alert.fingerprint, alert.fired_at, by, at, comment)


def find(alert: Alert, acknowledgements: Iterable[Acknowledgement]) -> Acknowledgement | None:
    """The newest acknowledgement of the alert's current firing, if any."""
    found = [candidate for candidate in acknowledgements if candidate.covers(alert)]
    return max(found, key=lambda candidate: candidate.at, default=None)
