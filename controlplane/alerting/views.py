"""Read models of alerting: alerts with their silences and inhibitions, rules with their last results.

Frozen values made by `alert_queries` and `evaluation`; the API renders them. Times are Unix seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from alerts.acknowledgements import Acknowledgement
from alerts.rules.model import Rule, RuleGroup
from alerts.state import Alert
from controlplane.records import NotificationLogEntry


@dataclass(frozen=True)
class FiringAlert:
    """The name and severity of a firing alert that is neither silenced nor inhibited.

    `of_driver`: it names an application whose driver is down, not a query.
    """

    name: str
    severity: str
    of_driver: bool = False


@dataclass(frozen=True)
class AlertView:
    """An alert with its context. `group`: name of its rule group.

    `reason`: why it is in its state. `inhibited_by`: the alerts that inhibit it. `notified`: the newest
    notification of it. `deliverable`: whether one of its receivers has a webhook.
    """

    alert: Alert
    group: str
    reason: str
    silenced_by: tuple[str, ...] = ()
    inhibited_by: tuple[Alert, ...] = ()
    acknowledgement: Acknowledgement | None = None
    receivers: tuple[str, ...] = ()
    deliverable: bool = True
    notified: NotificationLogEntry | None = None

    @property
    def muted(self) -> bool:
        """Whether it is silenced or inhibited."""
        return bool(self.silenced_by or self.inhibited_by)


@dataclass(frozen=True)
class RuleView:
    """A rule with its alerts. `error` of its last evaluation, if any; `seconds`: its duration."""

    rule: Rule
    alerts: tuple[Alert, ...] = ()
    error: str | None = None
    evaluated_at: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class GroupView:
    """A rule group. `missed`: evaluations skipped since the server's start."""

    group: RuleGroup
    interval: float
    evaluated_at: float | None = None
    seconds: float | None = None
    missed: int = 0
    rules: tuple[RuleView, ...] = ()
