"""What the alerting room shows of itself: alerts with who mutes them, rules with how they fare, notes.

Frozen values, made by `controlplane.alerting.alert_queries`; the API renders them. Times are Unix seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from alerts.acknowledgements import Acknowledgement
from alerts.rules.model import Rule, RuleGroup
from alerts.state import Alert
from controlplane.records import NotificationLogEntry


@dataclass(frozen=True)
class AlertView:
    """One alert as people see it. `group`: the name of its group of rules.

    `reason`: why it is in its state. `inhibited_by`: the alerts that explain it. `notified`: the newest
    message that told of it.
    """

    alert: Alert
    group: str
    reason: str
    silenced_by: tuple[str, ...] = ()
    inhibited_by: tuple[Alert, ...] = ()
    acknowledgement: Acknowledgement | None = None
    receivers: tuple[str, ...] = ()
    notified: NotificationLogEntry | None = None

    @property
    def muted(self) -> bool:
        return bool(self.silenced_by or self.inhibited_by)


@dataclass(frozen=True)
class RuleView:
    """One rule with its alerts. `error`: why its last evaluation failed; `seconds`: how long it took."""

    rule: Rule
    alerts: tuple[Alert, ...] = ()
    error: str | None = None
    evaluated_at: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class GroupView:
    """One group of rules. `missed`: evaluations left out since the server's start."""

    group: RuleGroup
    interval: float
    evaluated_at: float | None = None
    seconds: float | None = None
    missed: int = 0
    rules: tuple[RuleView, ...] = ()
