"""What is said about a group of alerts: status, labels in common, the alerts, links, title and body.

Pure values; each receiver puts them in its own form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from alerts.notify.reasons import Reason
from alerts.state import Alert, AlertState

_MAX_BODY_ALERTS = 20


@dataclass(frozen=True)
class Message:
    """One message to one receiver. `alerts` are in a fixed order: firing first, oldest first.

    `external_url`: our address, for links. `sent_at`: Unix seconds.
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
        return tuple(alert for alert in self.alerts if alert.state is AlertState.FIRING)

    @property
    def status(self) -> str:
        return "firing" if self.firing else "resolved"

    @property
    def common_labels(self) -> dict[str, str]:
        return _in_common(alert.labels for alert in self.alerts)

    @property
    def common_annotations(self) -> dict[str, str]:
        return _in_common(alert.annotations for alert in self.alerts)

    @property
    def title(self) -> str:
        """`[FIRING:2] LagGrowing (shop orders)`: as Alertmanager's own templates begin."""
        count = f":{len(self.firing)}" if self.firing else ""
        named = " ".join(self.group_labels.values())
        rest = [value for name, value in self.common_labels.items() if name not in self.group_labels]
        return f"[{self.status.upper()}{count}] {named}" + (f" ({' '.join(rest)})" if rest else "")

    @property
    def body(self) -> str:
        """One line an alert, as plain text."""
        lines = [_line(alert) for alert in self.alerts[:_MAX_BODY_ALERTS]]
        left = len(self.alerts) - len(lines)
        return "\n".join([*lines, f"and {left} more"] if left else lines)


def _in_common(tables: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """What all tables agree on, sorted by name."""
    first, *others = tables
    return {
        name: text for name, text in sorted(first.items()) if all(other.get(name) == text for other in others)
    }


def _line(alert: Alert) -> str:
    what = alert.annotations.get("summary") or alert.labels.get("alertname", "")
    return f"{'resolved: ' if alert.state is AlertState.RESOLVED else ''}{what}"


def firing_first(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    """Firing first; then by age and fingerprint, so that two messages of one state are alike."""
    return tuple(
        sorted(alerts, key=lambda a: (a.state is not AlertState.FIRING, a.fired_at or 0.0, a.fingerprint))
    )
