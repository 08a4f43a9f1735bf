"""Steps of a bulk action: what it would do to each query, what to request next, and when it ends. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from controlplane.actions import guards
from controlplane.actions.guards import ActionRefusal
from controlplane.actions.transitions import START_ACTIONS
from controlplane.bulk_model import BulkAction, BulkState
from controlplane.health import terminal_status
from controlplane.health.checkpoint_verdict import current
from controlplane.health.context import context_at
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import Action, ActionState, QueryStatus, QueryView
from controlplane.supervision_model import DesiredState


@dataclass(frozen=True)
class BulkStep:
    """`requested`: the queries to act on now. `bulk`: the bulk action afterwards."""

    bulk: BulkAction
    requested: tuple[str, ...] = ()


def refusal(
    view: QueryView, action: str, now: float, status: QueryStatus | None = None
) -> ActionRefusal | None:
    """Why the action would be refused now or not be carried out, as far as the server knows; None if it would be.

    `status`: that of its verdict.
    """
    context = context_at(view, now, DEFAULTS)
    vanished = terminal_status.disappeared(context) is not None
    found = guards.check(view, action, view.action, (), vanished, context.outage)
    if found is None and status is QueryStatus.LOST and not vanished:
        return ActionRefusal(
            "driver_silent", "the driver sends no heartbeats, so it cannot carry out an action"
        )
    if found is not None or action not in START_ACTIONS:
        return found
    if view.facts.restart == "needs_factory":
        why = view.facts.restart_reason or "the writer of the query cannot be reused"
        return ActionRefusal("needs_factory", f"it needs a factory: {why}")
    return guards.predicted_failure(current(view))


def skip_reason(bulk: BulkAction, view: QueryView | None) -> str | None:
    """Why a query that waits is left out: it is unknown, or a person has wanted something else since."""
    if view is None:
        return "the query is no longer known"
    desired = view.supervised.desired
    starts = bulk.action in START_ACTIONS
    if (
        desired is None
        or desired.at <= bulk.requested_at
        or (desired.state is DesiredState.RUNNING) is starts
    ):
        return None
    return f"{desired.actor} set the desired state to {desired.state} since"


def step(bulk: BulkAction, actions: Mapping[str, Action], skipped: Mapping[str, str], now: float) -> BulkStep:
    """The next step of a running bulk action. `skipped`: why queries without an action are left out, by id."""
    failed = [actions[id] for id in bulk.query_ids if id in actions and _has_failed(actions[id])]
    waiting = [id for id in bulk.query_ids if id not in actions and id not in skipped]
    open_count = sum(not action.state.final for action in actions.values())
    if failed and bulk.halt_on_failure and waiting:
        left = f"{len(waiting)} {'query was' if len(waiting) == 1 else 'queries were'} not acted on"
        return BulkStep(_ended(bulk, BulkState.HALTED, now, f"{_sentence(failed[0])}; {left}"))
    if waiting:
        return BulkStep(bulk, tuple(waiting[: max(0, bulk.max_parallel - open_count)]))
    if open_count:
        return BulkStep(bulk)
    if failed:
        others = f"; {len(failed)} of {len(actions)} failed" if len(failed) > 1 else ""
        return BulkStep(_ended(bulk, BulkState.FAILED, now, _sentence(failed[0]) + others))
    why = f"{len(skipped)} left out: {next(iter(skipped.values()))}" if skipped else ""
    return BulkStep(_ended(bulk, BulkState.SUCCEEDED, now, why))


def _has_failed(action: Action) -> bool:
    return action.state.final and action.state is not ActionState.SUCCEEDED


def _sentence(action: Action) -> str:
    name = f"{action.app}/{action.name or action.query_id[:8]}"
    return f"{action.action} of {name} {action.state.value}: {action.reason}"


def _ended(bulk: BulkAction, state: BulkState, now: float, why: str) -> BulkAction:
    return replace(bulk, state=state, ended_at=now, why=why)
