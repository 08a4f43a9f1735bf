"""Notification message of an alert group: status, common labels, alerts and links.

Pure values; each receiver formats them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from alerts.notify.reasons import Reason
from alerts.state import Alert, AlertState


@dataclass(frozen=True)
class AlertContext:
    """Where an alert leads to in the dashboard, and facts that explain it, by name (`Probable cause`)."""

    query: str = ""
    silence: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    incident: str = ""


@dataclass(frozen=True)
class Message:
    """A message to one receiver. `alerts`: firing first, then oldest first.

    `external_url`: the dashboard's URL, for links. `sent_at`: Unix seconds. `generator_urls` and `contexts`: by
    fingerprint.
    """

    receiver: str
    group_key: str
    group_labels: Mapping[str, str]
    alerts: tuple[Alert, ...]
    external_url: str
    reason: Reason
    sent_at: float
    generator_urls: Mapping[str, str]
    contexts: Mapping[str, AlertContext] = field(default_factory=dict)

    @property
    def firing(self) -> tuple[Alert, ...]:
        """The firing alerts."""
        return tuple(alert for alert in self.alerts if alert.state is AlertState.FIRING)

    @property
    def status(self) -> str:
        """`firing` while any alert fires, else `resolved`."""
        return "firing" if self.firing else "resolved"

    @property
    def common_labels(self) -> dict[str, str]:
        """Labels that all alerts share."""
        return _in_common(alert.labels for alert in self.alerts)

    @property
    def common_annotations(self) -> dict[str, str]:
        """Annotations that all alerts share."""
        return _in_common(alert.annotations for alert in self.alerts)


def _in_common(tables: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Entries that all mappings share, sorted by name."""
    first, *others = tables
    return {
        name: text for name, text in sorted(first.items()) if all(other.get(name) == text for other in others)
    }


def firing_first(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    """Sort alerts: firing first, then by age and fingerprint, so that equal states give equal messages."""
    return tuple(
        sorted(alerts, key=lambda a: (a.state is not AlertState.FIRING, a.fired_at or 0.0, a.fingerprint))
    )
