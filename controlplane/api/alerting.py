"""Response bodies of alerts, silences, rules, notifications and replays, and silences from requests. Pure.

Called by the routes of alerts, silences and rules. Invalid input is a BadRequest that names the field.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from alerts.acknowledgements import Acknowledgement
from alerts.errors import AlertsError
from alerts.matching.labels import Matcher, matches, parse_matchers
from alerts.replay import Episode, Pace, RuleReplay
from alerts.routing import matchers_text
from alerts.rules import pack
from alerts.rules.model import Rule, RuleGroup
from alerts.silences import Silence, SilenceState
from alerts.state import Alert, AlertState
from alerts.yaml.tree import DocumentError
from controlplane.alerting.delivery import DeliveryFailure, DeliveryProblem, ReceiverStatus
from controlplane.alerting.trial import TrialResult
from controlplane.alerting.views import AlertView, GroupView, RuleView
from controlplane.api.alerting_bodies import (
    AcknowledgedBody,
    AlertBody,
    AlertCountsBody,
    AlertsBody,
    DeliveryProblemBody,
    EpisodeBody,
    InhibitorBody,
    IntegrationBody,
    MatcherBody,
    NoteBody,
    NotifiedBody,
    ProblemBody,
    ReceiverBody,
    ReceiversBody,
    ReplayBody,
    RuleBody,
    RuleGroupBody,
    SilenceBody,
    SilenceRequest,
    TrialBody,
    TrialResultBody,
)
from controlplane.api.render import finite, stamp
from controlplane.errors import BadRequest
from controlplane.records import NotificationLogEntry
from listeners.protocol.errors import WireError
from listeners.protocol.wire import rfc3339, seconds_of

SEVERITIES = ("critical", "warning", "info")
STATES = (AlertState.FIRING, AlertState.PENDING, AlertState.RESOLVED)
MAX_MATCHERS = 100
#: Mistakes of a rule file that a response lists.
MAX_MISTAKES = 100


# -- alerts ----------------------------------------------------------------------------------------


def alert_body(view: AlertView) -> AlertBody:
    alert, labels = view.alert, view.alert.labels
    severity = labels.get("severity", "")
    return AlertBody(
        fingerprint=alert.fingerprint,
        name=name_of(alert),
        state=alert.state.value,
        severity=severity if severity in SEVERITIES else "",
        labels=dict(labels),
        annotations=dict(alert.annotations),
        value=finite(alert.value),
        app=labels.get("app"),
        query=labels.get("query"),
        query_id=labels.get("query_id"),
        group=view.group,
        rule=alert.rule,
        active_at=rfc3339(alert.active_at),
        fired_at=stamp(alert.fired_at),
        resolved_at=stamp(alert.resolved_at),
        reason=view.reason,
        silenced_by=list(view.silenced_by),
        inhibited_by=[InhibitorBody(fingerprint=a.fingerprint, name=name_of(a)) for a in view.inhibited_by],
        acknowledged=acknowledged_body(view.acknowledgement),
        receivers=list(view.receivers),
        deliverable=view.deliverable,
        notified=_notified(view.notified),
    )


def name_of(alert: Alert) -> str:
    return alert.labels.get("alertname", alert.rule)


def acknowledged_body(item: Acknowledgement | None) -> AcknowledgedBody | None:
    """Who acknowledged an alert; None if nobody did."""
    return AcknowledgedBody(by=item.by, at=rfc3339(item.at), comment=item.comment) if item else None


def _notified(note: NotificationLogEntry | None) -> NotifiedBody | None:
    return NotifiedBody(at=rfc3339(note.at), receiver=note.receiver, reason=note.reason) if note else None


def in_order(views: Iterable[AlertView]) -> list[AlertView]:
    """Alerts by state (firing, pending, resolved), then severity, then newest first."""
    return sorted(views, key=_place)


def _place(view: AlertView) -> tuple[int, int, float, str]:
    alert, severity = view.alert, view.alert.labels.get("severity", "")
    worst = SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)
    since = alert.resolved_at or alert.fired_at or alert.active_at
    return STATES.index(alert.state), worst, -since, alert.fingerprint


def counts(views: Iterable[AlertView]) -> AlertCountsBody:
    views = list(views)
    firing = [view for view in views if view.alert.state is AlertState.FIRING]
    return AlertCountsBody(
        firing=len(firing),
        pending=sum(view.alert.state is AlertState.PENDING for view in views),
        silenced=sum(bool(view.silenced_by) for view in firing),
        inhibited=sum(bool(view.inhibited_by) for view in firing),
        acknowledged=sum(view.acknowledgement is not None for view in firing),
    )


def alerts_body(views: Sequence[AlertView], states: Collection[AlertState], now: float) -> AlertsBody:
    """The alerts in these states; all if none is given."""
    shown = [view for view in views if not states or view.alert.state in states]
    return AlertsBody(
        as_of=rfc3339(now), counts=counts(views), alerts=[alert_body(view) for view in in_order(shown)]
    )


def is_about(alert: Alert, query_id: str, app: str | None) -> bool:
    """Whether an alert concerns a query: it has the query's label, or no query label and the query's app."""
    named = alert.labels.get("query_id")
    return named == query_id if named else app is not None and alert.labels.get("app") == app


def receivers_body(found: Iterable[ReceiverStatus], problem: DeliveryProblem | None) -> ReceiversBody:
    wrong = DeliveryProblemBody(summary=problem.summary, remedy=problem.remedy) if problem else None
    return ReceiversBody(problem=wrong, receivers=[_receiver(receiver) for receiver in found])


def _receiver(found: ReceiverStatus) -> ReceiverBody:
    integrations = [_integration(item.name, item.failure) for item in found.integrations]
    return ReceiverBody(name=found.name, routed=found.routed, integrations=integrations)


def _integration(name: str, failure: DeliveryFailure | None) -> IntegrationBody:
    since, error = (failure.since, failure.error) if failure else (None, None)
    return IntegrationBody(name=name, failing_since=stamp(since), error=error)


def trial_body(receiver: str, results: Iterable[TrialResult]) -> TrialBody:
    bodies = [
        TrialResultBody(name=item.name, delivered=item.error is None, error=item.error) for item in results
    ]
    return TrialBody(receiver=receiver, integrations=bodies)


def note_body(note: NotificationLogEntry) -> NoteBody:
    return NoteBody(
        at=rfc3339(note.at),
        receiver=note.receiver,
        group_key=note.group_key,
        outcome=note.outcome.value,
        reason=note.reason,
        alerts=len(note.fingerprints),
        fingerprints=list(note.fingerprints),
    )


# -- silences --------------------------------------------------------------------------------------


def silence_body(
    silence: Silence, firing: Iterable[Alert], now: float, alertmanager: str | None = None
) -> SilenceBody:
    state = silence.state(now)
    over = state is SilenceState.EXPIRED
    return SilenceBody(
        id=silence.id,
        matchers=[MatcherBody(name=m.name, operator=m.operator, value=m.value) for m in silence.matchers],
        text=matchers_text(silence.matchers),
        starts_at=rfc3339(silence.starts_at),
        ends_at=rfc3339(silence.ends_at),
        created_by=silence.created_by,
        comment=silence.comment,
        state=state.value,
        updated_at=rfc3339(silence.updated_at),
        alerts=0 if over else sum(silence.covers(alert.labels) for alert in firing),
        alertmanager=alertmanager,
    )


def silence_of(request: SilenceRequest, created_by: str, now: float) -> Silence:
    """The requested silence; BadRequest names what to change."""
    texts = [request.matchers] if isinstance(request.matchers, str) else request.matchers
    asked = seconds("starts_at", request.starts_at)
    starts_at = now if asked is None else max(now, asked)
    return Silence(
        id="",
        matchers=matchers_of("matchers", texts),
        starts_at=starts_at,
        ends_at=_end(request, starts_at),
        created_by=created_by,
        comment=request.comment,
        updated_at=now,
    )


def _end(request: SilenceRequest, starts_at: float) -> float:
    ends_at = seconds("ends_at", request.ends_at)
    if (ends_at is None) == (request.duration_seconds is None):
        raise BadRequest("the end is missing: send either ends_at or duration_seconds")
    if ends_at is not None:
        return ends_at
    return seconds("duration_seconds", starts_at + (request.duration_seconds or 0.0)) or 0.0


def matchers_of(what: str, texts: Iterable[str]) -> tuple[Matcher, ...]:
    """All matchers of these texts; BadRequest begins with `what`."""
    try:
        found = tuple(matcher for text in texts for matcher in parse_matchers(text))
    except AlertsError as error:
        raise BadRequest(f"{what}: {error}") from None
    if len(found) > MAX_MATCHERS:
        raise BadRequest(f"{what}: at most {MAX_MATCHERS} matchers, not {len(found)}")
    return found


def seconds(what: str, value: str | float | None) -> float | None:
    """A time in a body, RFC 3339 or Unix seconds; BadRequest begins with `what`."""
    if value is None:
        return None
    try:
        return seconds_of(value)
    except WireError as error:
        raise BadRequest(f"{what}: {error}") from None


def covered(views: Iterable[AlertView], matchers: Sequence[Matcher]) -> list[AlertView]:
    return [view for view in views if matches(matchers, view.alert.labels)]


# -- rules -----------------------------------------------------------------------------------------


def group_body(view: GroupView) -> RuleGroupBody:
    group = view.group
    return RuleGroupBody(
        name=group.name,
        key=group.key,
        file=group.source,
        interval_seconds=view.interval,
        evaluated_at=stamp(view.evaluated_at),
        evaluation_seconds=finite(view.seconds),
        missed=view.missed,
        rules=[_rule_body(rule) for rule in view.rules],
    )


def _rule_body(view: RuleView) -> RuleBody:
    rule, states = view.rule, [alert.state for alert in view.alerts]
    firing, pending = states.count(AlertState.FIRING), states.count(AlertState.PENDING)
    return RuleBody(
        name=rule.name,
        kind=rule.kind.value,
        meaning=_meaning(rule),
        expr=rule.expr,
        for_seconds=rule.for_,
        keep_firing_for_seconds=rule.keep_firing_for,
        labels=dict(rule.labels),
        annotations=dict(rule.annotations),
        line=rule.line,
        state="firing" if firing else "pending" if pending else "inactive",
        firing=firing,
        pending=pending,
        health=_health(view),
        error=view.error,
        evaluated_at=stamp(view.evaluated_at),
        evaluation_seconds=finite(view.seconds),
    )


def _meaning(rule: Rule) -> str:
    """Of a rule that links to a shipped runbook of its name."""
    link = rule.annotations.get("runbook_url", "").removesuffix(".md")
    return pack.meaning(rule.name) if link.endswith((f"/{rule.name}", f"={rule.name}")) else ""


def _health(view: RuleView) -> str:
    if view.error is not None:
        return "err"
    return "unknown" if view.evaluated_at is None else "ok"


def rules_or_mistakes(groups: Sequence[RuleGroup], mistakes: Sequence[DocumentError]) -> Sequence[RuleGroup]:
    """The rule groups of a text; BadRequest with all mistakes."""
    if not mistakes:
        return groups
    listed = [{"line": m.line, "column": m.column, "message": m.message} for m in mistakes[:MAX_MISTAKES]]
    text = "; ".join(str(mistake) for mistake in mistakes[:3])
    raise BadRequest(f"rules: {text}", code="bad_rules", detail={"mistakes": listed})


# -- replay ----------------------------------------------------------------------------------------


def replay_body(found: RuleReplay, start: float, end: float) -> ReplayBody:
    return ReplayBody(
        episodes=[_episode(item) for item in found.episodes],
        evaluations=found.evaluations,
        errors=[
            ProblemBody(rule=p.rule, error=p.message, first_at=rfc3339(p.first_at), count=p.count)
            for p in found.problems
        ],
        start=rfc3339(start),
        until=rfc3339(found.until),
        notes=_notes(found, end),
    )


def _episode(item: Episode) -> EpisodeBody:
    named: dict[str, Any] = {"name": item.name, "group": item.group, "labels": dict(item.labels)}
    return EpisodeBody(
        **named,
        pending_at=rfc3339(item.pending_at),
        fired_at=rfc3339(item.fired_at),
        resolved_at=stamp(item.resolved_at),
        value=finite(item.value),
    )


def _notes(found: RuleReplay, end: float) -> list[str]:
    notes = [_coarser(pace) for pace in found.paces if pace.is_coarser]
    if found.until < end:
        notes.append(f"the replay reached its time limit at {rfc3339(found.until)}; choose a shorter range")
    if found.left_out:
        notes.append(f"{found.left_out} further alerts are not listed")
    return notes


def _coarser(pace: Pace) -> str:
    return (
        f"the group {pace.group} was evaluated every {pace.step:g} s, not every {pace.interval:g} s: "
        "the stretch is long"
    )
