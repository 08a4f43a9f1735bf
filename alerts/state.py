"""State machine of a rule's alerts: inactive → pending → firing → resolved, as in Prometheus.

`step` takes the previous alerts, the result of the expression and `now`; it returns the new alerts and the
transitions. Pure: the server stores the states (they survive a restart) and delivers transitions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from alerts.errors import DuplicateAlertError
from alerts.matching.labels import Labels, fingerprint
from alerts.rules.model import Rule
from alerts.templates.expansion import expand
from alerts.templates.samples import Query

#: How long a resolved alert is kept, so that a failed notification of its end can be retried.
RESOLVED_RETENTION_SECONDS = 900.0
#: After a longer outage of the server, pending alerts start over (Prometheus: for-outage-tolerance).
OUTAGE_TOLERANCE_SECONDS = 3600.0
#: Minimum wait after an outage before a pending alert fires (Prometheus: for-grace-period).
FOR_GRACE_PERIOD_SECONDS = 600.0
ALERT_NAME = "alertname"


class AlertState(StrEnum):
    """State of an alert; an absent alert is inactive."""

    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True)
class Alert:
    """An alert of a rule. Times are Unix seconds; None: not yet.

    `labels` identify it and include `alertname` and the rule's labels. `gone_since`: since then the condition
    no longer holds and only `keep_firing_for` keeps the alert firing. `generator_url`: link to the origin of an alert
    that another program posted.
    """

    rule: str
    labels: Labels
    annotations: Mapping[str, str]
    value: float
    state: AlertState
    active_at: float
    fired_at: float | None = None
    resolved_at: float | None = None
    gone_since: float | None = None
    generator_url: str = ""

    @property
    def fingerprint(self) -> str:
        """Alertmanager's fingerprint of the labels."""
        return fingerprint(self.labels)


@dataclass(frozen=True)
class Transition:
    """A state change. `before` None: the alert was inactive; `after` None: it is inactive again and never fired."""

    alert: Alert
    before: AlertState | None
    after: AlertState | None
    at: float
    reason: str


class LabelledValue(Protocol):
    """An element of the expression's result."""

    @property
    def labels(self) -> Labels: ...
    @property
    def value(self) -> float: ...


@dataclass(frozen=True)
class TemplateContext:
    """What templates know besides the alert: external labels and URL of the server, labels of the rule group.

    `query` evaluates an expression for them at the time of the evaluation; None: it gives no samples.
    """

    external_labels: Labels = field(default_factory=dict)
    external_url: str = ""
    group_labels: Labels = field(default_factory=dict)
    query: Query | None = None


Alerts = Mapping[str, Alert]


def step(
    active: Alerts,
    vector: Iterable[LabelledValue],
    rule: Rule,
    now: float,
    context: TemplateContext | None = None,
) -> tuple[dict[str, Alert], tuple[Transition, ...]]:
    """Apply the expression's result at `now`: the alerts by fingerprint, and the transitions.

    Ignores NaN. Raises DuplicateAlertError where two elements get the same labels; the states then stay
    unchanged and nothing may be sent.
    """
    current = _alerts_of(vector, rule, now, context or TemplateContext())
    after: dict[str, Alert] = {}
    transitions: list[Transition] = []
    for key in {**active, **current}:
        before, seen = active.get(key), current.get(key)
        alert, transition = _present(before, seen, rule, now) if seen else _absent(active[key], rule, now)
        if alert is not None:
            after[key] = alert
        if transition is not None:
            transitions.append(transition)
    return after, tuple(transitions)


def _alerts_of(
    vector: Iterable[LabelledValue], rule: Rule, now: float, context: TemplateContext
) -> dict[str, Alert]:
    """A pending alert for each element of the result, by fingerprint."""
    current: dict[str, Alert] = {}
    for sample in vector:
        if math.isnan(sample.value):
            continue
        alert = _new(sample, rule, now, context)
        key = alert.fingerprint
        if key in current:
            named = ", ".join(f'{name}="{value}"' for name, value in sorted(alert.labels.items()))
            raise DuplicateAlertError(f"two alerts have the same labels: {{{named[:500]}}}")
        current[key] = alert
    return current


def _new(sample: LabelledValue, rule: Rule, now: float, context: TemplateContext) -> Alert:
    def filled(text: str) -> str:
        around = context.external_labels, context.external_url, context.query
        return expand(text, sample.labels, sample.value, now, *around)

    own = {name: value for name, value in sample.labels.items() if name != "__name__"}
    given = {name: filled(text) for name, text in {**context.group_labels, **rule.labels}.items()}
    labels = {**own, **given, ALERT_NAME: rule.name}
    return Alert(
        rule=rule.name,
        labels={name: value for name, value in labels.items() if value},
        annotations={name: filled(text) for name, text in rule.annotations.items()},
        value=sample.value,
        state=AlertState.PENDING,
        active_at=now,
    )


def _present(
    before: Alert | None, seen: Alert, rule: Rule, now: float
) -> tuple[Alert | None, Transition | None]:
    """The alert of a rule whose condition holds."""
    if before is None or before.state is AlertState.RESOLVED:
        alert, was = seen, None
    else:
        alert = replace(before, annotations=seen.annotations, value=seen.value, gone_since=None)
        was = before.state
    if alert.state is AlertState.PENDING and now - alert.active_at >= rule.for_:
        alert = replace(alert, state=AlertState.FIRING, fired_at=now)
    if alert.state is was:
        return alert, None
    return alert, Transition(alert, was, alert.state, now, _why_active(alert, rule))


def _why_active(alert: Alert, rule: Rule) -> str:
    if alert.state is AlertState.PENDING:
        return f"the condition holds; it fires after {rule.for_:g} s"
    return f"the condition has held for {alert_age(alert):g} s" if rule.for_ else "the condition holds"


def alert_age(alert: Alert) -> float:
    """Seconds between the condition's first occurrence and firing."""
    return round((alert.fired_at or alert.active_at) - alert.active_at, 3)


def _absent(before: Alert, rule: Rule, now: float) -> tuple[Alert | None, Transition | None]:
    """The alert of a rule whose condition does not hold."""
    if before.state is AlertState.PENDING:
        return None, Transition(before, before.state, None, now, "the condition ended before the alert fired")
    if before.state is AlertState.RESOLVED:
        return (before if now - (before.resolved_at or now) <= RESOLVED_RETENTION_SECONDS else None), None
    gone_since = now if before.gone_since is None else before.gone_since
    if rule.keep_firing_for and now - gone_since < rule.keep_firing_for:
        return replace(before, gone_since=gone_since), None
    return _resolved(before, now, "the condition no longer holds")


def _resolved(before: Alert, now: float, reason: str) -> tuple[Alert, Transition]:
    alert = replace(before, state=AlertState.RESOLVED, resolved_at=now, gone_since=None)
    return alert, Transition(alert, before.state, alert.state, now, reason)


def clear(active: Alerts, now: float, reason: str) -> tuple[dict[str, Alert], tuple[Transition, ...]]:
    """End all alerts of a rule that was removed or exceeds its group's limit."""
    after: dict[str, Alert] = {}
    transitions = []
    for key, alert in active.items():
        if alert.state is AlertState.FIRING:
            after[key], transition = _resolved(alert, now, reason)
            transitions.append(transition)
        elif alert.state is AlertState.PENDING:
            transitions.append(Transition(alert, alert.state, None, now, reason))
        else:
            after[key] = alert
    return after, tuple(transitions)


def resume(stored: Alerts, rule: Rule, evaluated_at: float, now: float) -> dict[str, Alert]:
    """Restore a rule's alerts after an outage from `evaluated_at` (its last evaluation) to `now`.

    The condition is unknown in between, so the outage does not count towards `for`, and an alert that was
    nearly due waits at least FOR_GRACE_PERIOD_SECONDS (or all of a shorter `for`). After an outage longer than
    OUTAGE_TOLERANCE_SECONDS pending alerts are dropped; firing ones stay until the next evaluation.
    """
    away = now - evaluated_at
    kept = {}
    for key, alert in stored.items():
        if alert.state is not AlertState.PENDING:
            kept[key] = alert
        elif away <= OUTAGE_TOLERANCE_SECONDS:
            kept[key] = replace(alert, active_at=_resumed(alert, rule, evaluated_at, now))
    return kept


def _resumed(alert: Alert, rule: Rule, evaluated_at: float, now: float) -> float:
    left = rule.for_ - (evaluated_at - alert.active_at)
    grace = min(FOR_GRACE_PERIOD_SECONDS, rule.for_)
    if left <= 0:
        return alert.active_at
    return now - rule.for_ + max(left, grace) if left < grace else alert.active_at + (now - evaluated_at)


def ends_at(alert: Alert, now: float, interval: float, resend: float = 60.0) -> float:
    """`endsAt` for clients: while firing, four intervals (or resends) after `now`, as Prometheus sends it."""
    if alert.resolved_at is not None:
        return alert.resolved_at
    return now + 4 * max(interval, resend)
