"""The life of an action as pure steps: each takes the action and `now`, and gives the next one.

requested → delivered → running → succeeded | failed | unverified, or refused, or expired. A step
that does not apply gives the action back unchanged, so that a repeated or late message is harmless.
Each stage has its own deadline: the way to the agent, the agent's work, and the proof.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

from controlplane.actions.guards import ActionRefusal
from controlplane.health import failures
from controlplane.health.context import p95_batch_seconds
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import Action, ActionState, Failure, QueryView
from listeners.protocol.wire import Command, CommandResult

MIN_STAGE_SECONDS = 120.0  # seconds
MAX_STAGE_SECONDS = 3600.0  # what the wire format lets a command ask for
ANSWER_GRACE_SECONDS = 30.0  # the agent's own time limit runs out first, then its answer travels
START_ACTIONS = ("start", "restart")
#: So long a start waits for the look at its checkpoint; until when stands in the evidence of one that waits.
INVENTORY_WAIT_SECONDS = 12.0
WAITING_UNTIL = "waiting_for_inventory_until"
#: The exception's class before its message: a condition says more.
_HEAD = re.compile(r"^(?:\w+\.)+[\w$]+: ")


@dataclass(frozen=True)
class NewAction:
    """What a person or a program wants of a query. `via` is the token's name, `actor` the person."""

    action: str
    actor: str
    via: str
    drain: bool = False
    overrides: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    idempotency_key: str | None = None
    force: bool = False


@dataclass(frozen=True)
class ActionOutcome:
    """How an action ended, in a sentence and in figures."""

    state: ActionState
    reason: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


def stage_timeout(view: QueryView | None) -> float:
    """Seconds one stage may take: max(2 min, 2 × trigger, 3 × usual batch (p95)), at most an hour."""
    if view is None:
        return MIN_STAGE_SECONDS
    trigger = view.facts.trigger_interval or 0.0
    return min(MAX_STAGE_SECONDS, max(MIN_STAGE_SECONDS, 2 * trigger, 3 * p95_batch_seconds(view)))


def request(view: QueryView, ask: NewAction, action_id: str, now: float) -> Action:
    """A new action on this query, for the agent that reported its newest run."""
    last = view.progress[-1] if view.progress else None
    known = (last.batch_id if last else None, view.run.last_batch_id if view.run else None)
    return Action(
        id=action_id,
        query_id=view.query_id,
        app=view.app,
        name=view.name,
        action=ask.action,
        actor=ask.actor,
        state=ActionState.REQUESTED,
        requested_at=now,
        deadline_at=now + stage_timeout(view),
        request_reason=ask.reason,
        reason=_silence(view, now),
        drain=ask.drain,
        overrides=dict(ask.overrides),
        agent=view.agent.agent if view.agent else None,
        idempotency_key=ask.idempotency_key,
        previous_run_id=view.run.run_id if view.run else None,
        previous_batch_id=max((b for b in known if b is not None), default=None),
    )


def _silence(view: QueryView, now: float) -> str:
    """Why this may take a while: an agent that has not been heard may come back, so we ask all the same."""
    silent = now - view.agent.last_seen_at if view.agent else 0.0
    return (
        f"waiting for its agent, last heard {silent:.0f} s ago" if silent > DEFAULTS.unheard_seconds else ""
    )


def refuse(
    action: Action, refusal: ActionRefusal, now: float, evidence: Mapping[str, Any] = MappingProxyType({})
) -> Action:
    held = {name: value for name, value in action.evidence.items() if name != WAITING_UNTIL}
    told = {**held, **evidence, "code": refusal.code}
    return _end(action, ActionOutcome(ActionState.REFUSED, refusal.reason, told), now)


def hold(action: Action, now: float) -> Action:
    """It waits, not handed out, until its checkpoint has been looked at."""
    evidence = {**action.evidence, WAITING_UNTIL: now + INVENTORY_WAIT_SECONDS}
    return replace(action, reason="looking at its checkpoint first", evidence=evidence)


def is_held(action: Action) -> bool:
    return action.state == ActionState.REQUESTED and WAITING_UNTIL in action.evidence


def release(action: Action, evidence: Mapping[str, Any], now: float) -> Action:
    """It goes to its agent, with what is known of its checkpoint; the way there has its whole time from now on."""
    held = {name: value for name, value in action.evidence.items() if name != WAITING_UNTIL}
    deadline = action.deadline_at + (now - action.requested_at)
    reason = "" if is_held(action) else action.reason
    return replace(action, reason=reason, evidence={**held, **evidence}, deadline_at=deadline)


def deliver(action: Action, view: QueryView | None, now: float) -> Action:
    """Handed to the agent's poll. Handing it out once more changes nothing, its deadline neither."""
    if action.state != ActionState.REQUESTED:
        return action
    deadline = now + stage_timeout(view) + ANSWER_GRACE_SECONDS
    return replace(action, state=ActionState.DELIVERED, reason="", delivered_at=now, deadline_at=deadline)


def apply_result(action: Action, result: CommandResult, view: QueryView | None, now: float) -> Action:
    """What the agent said became of its command. After the end, and repeated, it changes nothing."""
    if action.state.final or is_started(action):
        return action
    evidence = {**action.evidence, **result.evidence, **({"code": result.code} if result.code else {})}
    if result.state == "running":
        deadline = now + stage_timeout(view) + ANSWER_GRACE_SECONDS
        return replace(
            action, state=ActionState.RUNNING, reason=result.reason, evidence=evidence, deadline_at=deadline
        )
    if result.state == "refused":
        return _end(action, ActionOutcome(ActionState.REFUSED, _said(result, "refused"), evidence), now)
    if result.state == "failed":
        return _end(action, driver_failure(result, evidence), now)
    if action.action in START_ACTIONS:
        return _started(action, result, evidence, now + stage_timeout(view))
    reason = result.reason or "the query is no longer active"
    return _end(action, ActionOutcome(ActionState.SUCCEEDED, reason, evidence), now)


def _started(action: Action, result: CommandResult, evidence: dict[str, Any], deadline: float) -> Action:
    run_id = str(evidence.get("run_id") or "").lower()
    reason = result.reason or "started; waiting for a batch newer than the last one"
    return replace(
        action,
        state=ActionState.RUNNING,
        reason=reason,
        evidence={**evidence, "run_id": run_id or None, "started": True},
        deadline_at=deadline,
    )


def is_started(action: Action) -> bool:
    """The agent has started a new run; what is missing is the proof that it works."""
    return bool(action.evidence.get("started"))


def _said(result: CommandResult, word: str) -> str:
    return result.reason or f"the driver {word} it ({result.code or 'no reason given'})"


def driver_failure(result: CommandResult, evidence: Mapping[str, Any]) -> ActionOutcome:
    """The agent's failure, with Spark's exception explained where it sent one."""
    text = evidence.get("exception")
    if not isinstance(text, str) or not text:
        return ActionOutcome(ActionState.FAILED, _said(result, "could not do"), evidence)
    error_class = evidence.get("errorClass")
    failure = failures.explain(text, error_class if isinstance(error_class, str) else None)
    return ActionOutcome(
        ActionState.FAILED,
        f"{_said(result, 'could not do')}: {failure_sentence(failure)}",
        {**evidence, "failure": asdict(failure)},
    )


def failure_sentence(failure: Failure) -> str:
    """Condition, cause and advice in one line, each of them once."""
    cause = failure.root_cause or failure.message
    if failure.condition:
        cause = _HEAD.sub("", cause).removeprefix(f"[{failure.condition}]").strip()
    said = [failure.condition, cause if cause != failure.condition else None]
    return f"{': '.join(part for part in said if part).rstrip('.')}. {failure.advice}".strip()


def finish(action: Action, outcome: ActionOutcome, now: float) -> Action:
    """End the action as its verification says."""
    if action.state.final:
        return action
    return _end(action, replace(outcome, evidence={**action.evidence, **outcome.evidence}), now)


def overdue_outcome(action: Action, now: float) -> ActionOutcome | None:
    """What a deadline that has passed makes of this action; None while there is time."""
    if action.state.final or now < action.deadline_at:
        return None
    if action.state == ActionState.REQUESTED:
        waited = action.deadline_at - action.requested_at
        return ActionOutcome(
            ActionState.EXPIRED, f"its agent did not fetch it within {waited:.0f} s; nothing was done"
        )
    if is_started(action):
        reason = "the new run started, but by the deadline it had neither committed a batch nor found no data"
        return ActionOutcome(ActionState.UNVERIFIED, reason)
    return ActionOutcome(
        ActionState.UNVERIFIED, "the agent took the command and did not say what became of it"
    )


def _end(action: Action, outcome: ActionOutcome, now: float) -> Action:
    return replace(
        action,
        state=outcome.state,
        reason=outcome.reason,
        evidence=dict(outcome.evidence),
        finished_at=now,
    )


def command_of(action: Action, view: QueryView | None) -> Command:
    """The action as the agent gets it."""
    return Command(
        id=action.id,
        action=action.action,
        query_id=action.query_id,
        drain=action.drain,
        timeout_seconds=stage_timeout(view),
        overrides=action.overrides,
    )
