"""State machine of an action: pure steps that take the action and `now` and return the next action.

requested → delivered → running → succeeded | failed | unverified, or refused, or expired. A step that does not
apply returns the action unchanged, so a repeated or late message is harmless. Each stage has its own deadline: the
delivery to the agent, the agent's work, and the verification.
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
from controlplane.health.failures import headline
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import Action, ActionState, Failure, QueryView
from listeners.protocol.wire import Command, CommandResult

MIN_STAGE_SECONDS = 120.0  # seconds
MAX_STAGE_SECONDS = 3600.0  # the wire format's limit for a command's timeout
ANSWER_GRACE_SECONDS = 30.0  # the agent's own timeout expires first, then its result is on the way
START_ACTIONS = ("start", "restart")
#: Actions on the checkpoint, which the server carries out itself, and how long one may take.
CHECKPOINT_ACTIONS = ("rewind", "repair", "undo")
CHANGE_SECONDS = 1800.0
#: How long a start waits for an inventory of its checkpoint; the evidence of a waiting action holds the end.
INVENTORY_WAIT_SECONDS = 12.0
WAITING_UNTIL = "waiting_for_inventory_until"
#: The exception's class before its message; it is dropped where an error condition is known.
_HEAD = re.compile(r"^(?:\w+\.)+[\w$]+: ")


@dataclass(frozen=True)
class NewAction:
    """A requested action on a query. `via` is the token's name, `actor` the person; `overrides` hold its parameters."""

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
    """The end of an action: its state, a sentence for people and evidence for programs."""

    state: ActionState
    reason: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


def stage_timeout(view: QueryView | None) -> float:
    """Seconds a stage may take: max(2 min, 2 × trigger interval, 3 × p95 batch duration), at most an hour."""
    if view is None:
        return MIN_STAGE_SECONDS
    trigger = view.facts.trigger_interval or 0.0
    return min(MAX_STAGE_SECONDS, max(MIN_STAGE_SECONDS, 2 * trigger, 3 * p95_batch_seconds(view)))


def request(view: QueryView, wanted: NewAction, action_id: str, now: float) -> Action:
    """A new action on this query, addressed to the agent that reported its newest run, or carried out here."""
    here = wanted.action in CHECKPOINT_ACTIONS
    last = view.progress[-1] if view.progress else None
    known = (last.batch_id if last else None, view.run.last_batch_id if view.run else None)
    return Action(
        id=action_id,
        query_id=view.query_id,
        app=view.app,
        name=view.name,
        action=wanted.action,
        actor=wanted.actor,
        state=ActionState.RUNNING if here else ActionState.REQUESTED,
        requested_at=now,
        deadline_at=now + (CHANGE_SECONDS if here else stage_timeout(view)),
        request_reason=wanted.reason,
        reason="reading the checkpoint" if here else _silence(view, now),
        drain=wanted.drain,
        overrides=dict(wanted.overrides),
        agent=view.agent.agent if view.agent and not here else None,
        idempotency_key=wanted.idempotency_key,
        previous_run_id=view.run.run_id if view.run else None,
        previous_batch_id=max((b for b in known if b is not None), default=None),
    )


def _silence(view: QueryView, now: float) -> str:
    """The reason of a requested action whose agent is silent; the agent may come back, so the action stays open."""
    silent = now - view.agent.last_contact_at if view.agent else 0.0
    return (
        f"waiting for the agent, last seen {silent:.0f} s ago"
        if silent > DEFAULTS.unresponsive_seconds
        else ""
    )


def refuse(
    action: Action, refusal: ActionRefusal, now: float, evidence: Mapping[str, Any] = MappingProxyType({})
) -> Action:
    """End the action as refused; `evidence` is added to its own."""
    kept = {name: value for name, value in action.evidence.items() if name != WAITING_UNTIL}
    merged = {**kept, **evidence, "code": refusal.code}
    return _end(action, ActionOutcome(ActionState.REFUSED, refusal.reason, merged), now)


def hold(action: Action, now: float) -> Action:
    """Keep the action from its agent until its checkpoint has been checked."""
    evidence = {**action.evidence, WAITING_UNTIL: now + INVENTORY_WAIT_SECONDS}
    return replace(action, reason="checking the checkpoint first", evidence=evidence)


def is_held(action: Action) -> bool:
    """Whether the action waits for a checkpoint check."""
    return action.state == ActionState.REQUESTED and WAITING_UNTIL in action.evidence


def release(action: Action, evidence: Mapping[str, Any], now: float) -> Action:
    """Let the action go to its agent with `evidence` about its checkpoint; its delivery deadline starts anew."""
    kept = {name: value for name, value in action.evidence.items() if name != WAITING_UNTIL}
    deadline = action.deadline_at + (now - action.requested_at)
    reason = "" if is_held(action) else action.reason
    return replace(action, reason=reason, evidence={**kept, **evidence}, deadline_at=deadline)


def deliver(action: Action, view: QueryView | None, now: float) -> Action:
    """Mark the action as delivered to the agent's poll. A second delivery changes nothing, nor its deadline.

    Refused where another driver has started the query since the request: a second one must not write beside it.
    """
    if action.state != ActionState.REQUESTED:
        return action
    if view is not None and view.agent is not None and view.agent.agent != action.agent:
        return refuse(
            action, ActionRefusal("driver_changed", "another driver has started the query since"), now
        )
    deadline = now + stage_timeout(view) + ANSWER_GRACE_SECONDS
    return replace(action, state=ActionState.DELIVERED, reason="", delivered_at=now, deadline_at=deadline)


def apply_result(action: Action, result: CommandResult, view: QueryView | None, now: float) -> Action:
    """Apply the agent's result of the command. A result that is repeated or comes after the end changes nothing."""
    if action.state.final or is_started(action):
        return action
    evidence = {**action.evidence, **result.evidence, **({"code": result.code} if result.code else {})}
    if result.state == "running":
        deadline = now + stage_timeout(view) + ANSWER_GRACE_SECONDS
        return replace(
            action, state=ActionState.RUNNING, reason=result.reason, evidence=evidence, deadline_at=deadline
        )
    if result.state == "refused":
        return _end(action, ActionOutcome(ActionState.REFUSED, _reason(result, "refused"), evidence), now)
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
    """Whether the agent has started a new run, which is still to be verified."""
    return bool(action.evidence.get("started"))


def _reason(result: CommandResult, verb: str) -> str:
    return result.reason or f"the driver {verb} it ({result.code or 'no reason given'})"


def driver_failure(result: CommandResult, evidence: Mapping[str, Any]) -> ActionOutcome:
    """The failure that the agent reported, with Spark's exception explained if the result has one."""
    text = evidence.get("exception")
    if not isinstance(text, str) or not text:
        return ActionOutcome(ActionState.FAILED, _reason(result, "could not do"), evidence)
    error_class = evidence.get("errorClass")
    failure = failures.explain(text, error_class if isinstance(error_class, str) else None)
    return ActionOutcome(
        ActionState.FAILED,
        f"{_reason(result, 'could not do')}: {failure_sentence(failure)}",
        {**evidence, "failure": asdict(failure)},
    )


def failure_sentence(failure: Failure) -> str:
    """Condition, cause and advice in one line, each only once; a change of the query comes first."""
    if failure.change is not None:
        return f"{headline(failure)}. {failure.advice}"
    cause = failure.root_cause or failure.message
    if failure.condition:
        cause = _HEAD.sub("", cause).removeprefix(f"[{failure.condition}]").strip()
    parts = [failure.condition, cause if cause != failure.condition else None]
    return f"{': '.join(part for part in parts if part).rstrip('.')}. {failure.advice}".strip()


def note(action: Action, reason: str, evidence: Mapping[str, Any]) -> Action:
    """State the present step of an action that the server carries out."""
    if action.state.final:
        return action
    return replace(action, reason=reason, evidence={**action.evidence, **evidence})


def finish(action: Action, outcome: ActionOutcome, now: float) -> Action:
    """End the action with the outcome of its verification."""
    if action.state.final:
        return action
    return _end(action, replace(outcome, evidence={**action.evidence, **outcome.evidence}), now)


def overdue_outcome(action: Action, now: float) -> ActionOutcome | None:
    """The outcome of an action whose deadline has passed; None before the deadline."""
    if action.state.final or now < action.deadline_at:
        return None
    if action.state == ActionState.REQUESTED:
        waited = action.deadline_at - action.requested_at
        return ActionOutcome(
            ActionState.EXPIRED, f"the agent did not fetch it within {waited:.0f} s; nothing was done"
        )
    if action.action in CHECKPOINT_ACTIONS:
        return unfinished_change(action)
    if is_started(action):
        reason = (
            "the new run started, but until the deadline it neither committed a batch nor reported that "
            "there is no new data"
        )
        return ActionOutcome(ActionState.UNVERIFIED, reason)
    return ActionOutcome(ActionState.UNVERIFIED, "the agent fetched the command and did not report a result")


def unfinished_change(action: Action) -> ActionOutcome:
    """The outcome of a change of a checkpoint whose server has stopped or does not come to an end."""
    backup = action.evidence.get("backup") or action.evidence.get("restored_from")
    if backup is None:
        return ActionOutcome(ActionState.FAILED, "the server stopped before it was done; nothing was changed")
    reason = (
        "the server stopped before it knew the outcome: nothing was changed, or the change is complete, or Spark "
        "refuses every start until it is undone. The checkpoint's page shows which"
    )
    return ActionOutcome(ActionState.UNVERIFIED, reason, {"code": "interrupted", "backup": backup})


def _end(action: Action, outcome: ActionOutcome, now: float) -> Action:
    return replace(
        action,
        state=outcome.state,
        reason=outcome.reason,
        evidence=dict(outcome.evidence),
        finished_at=now,
    )


def command_of(action: Action, view: QueryView | None) -> Command:
    """The command that the agent receives for the action."""
    return Command(
        id=action.id,
        action=action.action,
        query_id=action.query_id,
        drain=action.drain,
        timeout_seconds=stage_timeout(view),
        overrides=action.overrides,
    )
