"""Render policies, desired states and the ledger as the bodies of the API. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from alerts.durations import format_duration
from alerts.time_intervals import TimePeriod
from controlplane.api.render import stamp
from controlplane.api.supervision.bodies import (
    DesiredBody,
    ExplainBody,
    HoldBody,
    LedgerEntryBody,
    LedgerFigures,
    MatchBody,
    NextDecisionBody,
    PoliciesBody,
    PolicyBody,
    PolicyVersionBody,
)
from controlplane.metrics.samples import query_labels
from controlplane.model import QueryStatus, QueryView
from controlplane.store.supervision.policies import PolicyDocument
from controlplane.supervision.decision import RestartDecision, TroubledQuery
from controlplane.supervision.policies import Policy, PolicySet
from controlplane.supervision_model import Assessment, DecisionKind, Desired, LedgerEntry, RestartHold
from listeners.protocol.wire import rfc3339

JUDGED = frozenset({DecisionKind.RESTART.value, DecisionKind.PAGE.value})


def policies_body(
    document: PolicyDocument, parsed: PolicySet, history: Sequence[PolicyDocument], counts: Mapping[str, int]
) -> PoliciesBody:
    """The document in force. `counts`: queries by the policy that holds for them."""
    return PoliciesBody(
        **_version(document).model_dump(),
        text=document.text,
        policies=[policy_body(policy, counts.get(policy.name, 0)) for policy in parsed.policies],
        conditions={name: found.value for name, found in parsed.conditions.items()},
        history=[_version(version) for version in history],
    )


def _version(document: PolicyDocument) -> PolicyVersionBody:
    return PolicyVersionBody(
        version=document.version,
        applied_at=stamp(document.at or None),
        applied_by=document.actor,
        reason=document.reason,
    )


def policy_body(policy: Policy, queries: int) -> PolicyBody:
    """A policy with its defaults, in the fields of the file."""
    rule = policy.restart
    delay, budget = rule.delay, rule.budget
    restart = {
        "on": [str(trigger) for trigger in rule.triggers],
        "backoff": {
            "initial": format_duration(delay.initial),
            "factor": delay.factor,
            "max": format_duration(delay.longest),
            "jitter": delay.jitter,
        },
        "budget": {
            "restarts": budget.restarts,
            "per": format_duration(budget.seconds),
            "reset_after_healthy": format_duration(budget.reset_seconds),
        },
        "drain": rule.drain,
        "max_parallel": {"app": rule.parallel.app, "fleet": rule.parallel.fleet},
        "windows": [_period(period) for period in rule.windows.periods],
        "checkpoint": rule.checkpoint,
        "in_driver": rule.in_driver,
        "rollback": rule.rollback,
    }
    matchers = [str(matcher) for matcher in policy.matchers]
    return PolicyBody(
        name=policy.name, match=matchers, mode=policy.mode.value, restart=restart, queries=queries
    )


def _period(period: TimePeriod) -> dict[str, Any]:
    values = {field.name: getattr(period, field.name) for field in fields(period)}
    return {name: value for name, value in values.items() if value}


def desired_body(desired: Desired | None) -> DesiredBody:
    """The desired state; running where nobody set one."""
    if desired is None:
        return DesiredBody(state="running", actor=None, at=None, reason="")
    return DesiredBody(
        state=desired.state.value, actor=desired.actor, at=rfc3339(desired.at), reason=desired.reason
    )


def hold_body(hold: RestartHold) -> HoldBody:
    """Why a policy has given up."""
    return HoldBody(policy=hold.policy, code=hold.code, why=hold.why, since=rfc3339(hold.since))


def explain_body(
    view: QueryView,
    status: QueryStatus,
    policies: PolicySet,
    found: tuple[TroubledQuery, RestartDecision] | None,
) -> ExplainBody:
    """Which policy holds, and what it decides (`found`)."""
    compared = list(policies.explain(query_labels(view)))
    holding = next((match for match in compared if match.matches), None)
    hold = view.supervised.hold
    query, decision = found or (None, None)
    return ExplainBody(
        query_id=view.query_id,
        desired=desired_body(view.supervised.desired),
        policy=policy_body(holding.policy, 1) if holding else None,
        why=holding.why if holding else "No policy matches, so nothing is decided about the query.",
        compared=[MatchBody(policy=m.policy.name, matches=m.matches, why=m.why) for m in compared],
        hold=hold_body(hold) if hold else None,
        status=status.value,
        retry=query.retry.value if query and query.failure else None,
        restarts=len(query.restarts) if query else 0,
        next=_next(decision) if decision else None,
    )


def _next(decision: RestartDecision) -> NextDecisionBody:
    kind, due_at = decision.kind.value, stamp(decision.due_at)
    return NextDecisionBody(decision=kind, code=decision.code, why=decision.why, due_at=due_at)


def entry_body(entry: LedgerEntry) -> LedgerEntryBody:
    """An entry of the ledger."""
    values = {name: getattr(entry, name) for name in LedgerEntryBody.model_fields}
    return LedgerEntryBody(
        **values
        | {
            "at": rfc3339(entry.at),
            "inputs": dict(entry.inputs),
            "outcome_at": stamp(entry.outcome_at),
            "decision": entry.decision.value,
            "outcome": entry.outcome.value if entry.outcome else None,
            "assessment": entry.assessment.value if entry.assessment else None,
        }
    )


def figures(counts: Iterable[tuple[str, str, str | None, int]]) -> dict[str, LedgerFigures]:
    """The worth of restarts and pages by mode. `counts`: see `controlplane.store.supervision.ledger.counts`."""
    names = [*(assessment.value for assessment in Assessment), "open"]
    found = {mode: dict.fromkeys(names, 0) for mode in ("act", "observe")}
    for mode, decision, assessment, count in counts:
        if decision in JUDGED and mode in found:
            found[mode][assessment or "open"] += count
    return {mode: LedgerFigures(**values) for mode, values in found.items()}
