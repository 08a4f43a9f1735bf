"""Notification message of an alert group: status, common labels, alerts, links, title and body.

Pure values; each receiver formats them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from alerts.notify.reasons import Reason
from alerts.state import Alert, AlertState

_MAX_BODY_ALERTS = 20


@dataclass(frozen=True)
class Message:
    """A message to one receiver. `alerts`: firing first, then oldest first.

    `external_url`: the dashboard's URL, for links. `sent_at`: Unix seconds.
    """

    receiver: str
    group_key: str
    group_labels: Mapping[str, str]
    alerts: tuple[Alert, ...]
    external_url: str
    reason: Reason
    sent_at: float
    generator_urls: Mapping[str, str]

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

    @property
    def title(self) -> str:
        """`[FIRING:2] LagGrowing (shop orders)`, as in Alertmanager's default template."""
        count = f":{len(self.firing)}" if self.firing else ""
        named = " ".join(self.group_labels.values())
        rest = [value for name, value in self.common_labels.items() if name not in self.group_labels]
        return f"[{self.status.upper()}{count}] {named}" + (f" ({' '.join(rest)})" if rest else "")

    @property
    def body(self) -> str:
        """One line per alert, as plain text."""
        lines = [_line(alert) for alert in self.alerts[:_MAX_BODY_ALERTS]]
        left = len(self.alerts) - len(lines)
        return "\n".join([*lines, f"and {left} more"] if left else lines)


def _in_common(tables: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Entries that all mappings share, sorted by name."""
    first, *others = tables
    return {
        name: text for name, text in sorted(first.items()) if all(other.get(name) == text for other in others)
    }


def _line(alert: Alert) -> str:
    what = alert.annotations.get("summary") or alert.labels.get("alertname", "")
    return f"{'resolved: ' if alert.state is AlertState.RESOLVED else ''}{what}"


def firing_first(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    """Sort alerts: firing first, then by age and fingerprint, so that equal states give equal messages."""
    return tuple(
        sorted(alerts, key=lambda a: (a.state is not AlertState.FIRING, a.fired_at or 0.0, a.fingerprint))
    )
