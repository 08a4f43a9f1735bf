"""Acknowledgements: somebody has seen that an alert fires and works on it, so it is not repeated.

Unlike a silence it ends by itself, with that very firing; new alerts of the group and the end of the alert are
still told. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from alerts.state import Alert, AlertState


@dataclass(frozen=True)
class Acknowledgement:
    """Who works on which firing of which alert. `fired_at` names the firing; times are Unix seconds."""

    fingerprint: str
    fired_at: float
    by: str
    at: float
    comment: str = ""

    def covers(self, alert: Alert) -> bool:
        same = alert.fired_at == self.fired_at and alert.state is AlertState.FIRING
        return same and alert.fingerprint == self.fingerprint  # last: it costs most


def acknowledge(alert: Alert, by: str, at: float, comment: str = "") -> Acknowledgement:
    """ValueError where the alert does not fire: there is nothing to acknowledge."""
    if alert.state is not AlertState.FIRING or alert.fired_at is None:
        raise ValueError(f"the alert is {alert.state}; only one that fires can be acknowledged")
    return Acknowledgement(alert.fingerprint, alert.fired_at, by, at, comment)


def find(alert: Alert, all_of_them: Iterable[Acknowledgement]) -> Acknowledgement | None:
    """The newest acknowledgement of an alert as it fires now."""
    found = [one for one in all_of_them if one.covers(alert)]
    return max(found, key=lambda one: one.at, default=None)
