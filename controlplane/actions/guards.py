"""Guards: whether an action on a query is allowed now. Pure functions of a view of the query.

The agent checks again in the driver with facts that only it has (restart factories, another query). These guards
answer at once and allow one open action per query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.driver_model import Outage
from controlplane.health.checkpoint_drivers import going_on
from controlplane.health.checkpoint_verdict import CHANGED, shows_end
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import Action, Agent, CheckpointSummary, QueryView
from controlplane.supervision_model import CheckpointWriter
from listeners.protocol import wire
from listeners.protocol.wire import rfc3339

ALLOWED = {"none": (), "stop": ("stop",), "all": ("stop", "start", "restart")}


@dataclass(frozen=True)
class ActionRefusal:
    """Why an action is refused: `code` for programs, `reason` as a sentence for people."""

    code: str
    reason: str


def check(
    view: QueryView,
    action: str,
    open_action: Action | None,
    others: Sequence[CheckpointWriter] = (),
    vanished: bool = False,
    outage: Outage | None = None,
    lost: bool = False,
) -> ActionRefusal | None:
    """The first reason against the action, or None. `others`: runs of further live drivers on its checkpoint.

    `outage`: why Spark does not answer in the driver. `lost`: the driver has been silent for too long.
    `vanished`: the driver is alive and no longer lists the query, so it is not running although no end was reported.
    """
    return (
        _retired(view)
        or _other_action_open(open_action)
        or no_driver(view, outage)
        or two_drivers(view, others)
        or _forbidden(view.agent, action)
        or _wrong_state(view, action, vanished, lost)
    )


def check_change(
    view: QueryView,
    open_action: Action | None,
    others: Sequence[CheckpointWriter] = (),
    active: bool = False,
    lost: bool = False,
) -> ActionRefusal | None:
    """The first reason against a change of the checkpoint by the server. `active`: the newest run has no known end."""
    return (
        _retired(view)
        or _other_action_open(open_action)
        or (two_drivers(view, others) if others else None)
        or (_may_write(lost) if active else None)
    )


def _may_write(lost: bool) -> ActionRefusal:
    if not lost:
        return ActionRefusal("still_running", "the query is running; stop it first")
    reason = (
        "The driver sends no heartbeat and may still write to the checkpoint. Make sure that it has ended, then use "
        "the command line."
    )
    return ActionRefusal("driver_lost", reason)


def _retired(view: QueryView) -> ActionRefusal | None:
    if view.retired_at is None:
        return None
    return ActionRefusal("retired", f"the query was retired at {rfc3339(view.retired_at)}")


def _other_action_open(action: Action | None) -> ActionRefusal | None:
    if action is None:
        return None
    reason = (
        f"{action.actor}'s {action.action}, requested at {rfc3339(action.requested_at)}, "
        f"is {action.state.value}; wait for its outcome"
    )
    return ActionRefusal("action_in_progress", reason)


def no_driver(view: QueryView, outage: Outage | None) -> ActionRefusal | None:
    """Why no action can reach Spark: the driver is unknown, has ended, or Spark does not answer in it."""
    agent = view.agent
    if agent is None and view.start_failed_at is not None:
        return ActionRefusal(
            "no_driver",
            "The query has never run. Start the application; only its program can start the query.",
        )
    if agent is None:
        return ActionRefusal(
            "no_driver", "No agent has reported this query. Run its application with the agent attached."
        )
    if agent.ended_at is None:
        return ActionRefusal("driver_unreachable", _unreachable(outage)) if outage is not None else None
    how = agent.end_reason or "exit"
    reason = (
        f"The driver has ended ({how}, {rfc3339(agent.ended_at)}). Start the application; "
        "a query cannot be started without its driver."
    )
    return ActionRefusal("no_driver", reason)


def _unreachable(outage: Outage) -> str:
    since = rfc3339(outage.since)
    if outage.cause == wire.JVM_EXITED:
        return (
            f"The driver's JVM ended at {since}, only its Python process still runs. "
            "End that process and start the application."
        )
    if outage.cause == wire.SERVER_AWAY:
        return (
            f"There has been no connection to the Spark Connect server since {since}. Start it again or restore the "
            "network. If the session ended with the server, start the query in a new one."
        )
    return (
        f"Spark has not answered since {since}, so the driver cannot carry out an action. "
        "Check the load and the memory of its host, or restart the application."
    )


def living_rivals(view: QueryView, now: float) -> list[CheckpointWriter]:
    """Runs of further drivers that may write to the query's checkpoint now. A silent one may have been replaced."""
    rivals = [rival for rival in view.writers[1:] if rival.was_seen(now, DEFAULTS.unresponsive_seconds)]
    return rivals + going_on(view, now)


def two_drivers(view: QueryView, others: Sequence[CheckpointWriter]) -> ActionRefusal | None:
    """Refuses while further drivers live: the id alone does not name the one to command, as a copied checkpoint keeps it."""
    agent, lease = view.agent, view.supervised.lease
    other = next(iter(others), None)
    if agent is None or (other is None and agent.app == view.app):
        return None
    first = f"{agent.app}/{agent.agent[:8]}"
    second = f"{other.app}/{other.agent[:8]}" if other is not None else view.app
    holder = f"{lease.app}/{lease.agent[:8]}" if lease is not None else ""
    held = f" {holder} has held it since {rfc3339(lease.taken_at)} (lease {lease.number})." if lease else ""
    reason = (
        f"Two drivers report this query ({first}, {second}). "
        f"Stop one of them: they share a checkpoint, or it was copied.{held}"
    )
    return ActionRefusal("two_drivers", reason)


def _forbidden(agent: Agent | None, action: str) -> ActionRefusal | None:
    mode = agent.actions if agent else "all"
    if action in ALLOWED.get(mode, ()):
        return None
    return ActionRefusal("forbidden_by_driver", f"the driver forbids {action} (CONTROLPLANE_ACTIONS={mode})")


def _wrong_state(view: QueryView, action: str, vanished: bool, lost: bool) -> ActionRefusal | None:
    run = view.run
    runs = run is not None and run.ended_at is None and not vanished
    if action == "stop" and not runs:
        when = f" since {rfc3339(run.ended_at)}" if run and run.ended_at is not None else ""
        return ActionRefusal("not_running", f"the query is not running{when}")
    if action == "start" and runs and lost:
        return ActionRefusal(
            "driver_lost",
            "The driver sends no heartbeat. If it has died, start the application; "
            "a query cannot be started without its driver.",
        )
    if action == "start" and run is not None and runs:
        return ActionRefusal("already_running", f"the query is running (run {run.run_id})")
    return None


#: How long an inventory counts as current. For an ended query it must be longer than
#: `transitions.INVENTORY_WAIT_SECONDS`, so that a start that waited for the inventory finds it fresh.
FRESH_SECONDS = 60.0
FRESH_AFTER_END_SECONDS = 20.0
#: After a query has ended, people may repair its checkpoint and start it right away.
EDIT_GRACE_SECONDS = 3.0
BROKEN = "checkpoint_broken"


def is_fresh(seen: CheckpointSummary | None, view: QueryView, now: float) -> bool:
    """Whether the inventory shows what a start would read: it is recent, and no run has begun or ended since."""
    run = view.run
    if seen is None or (run is not None and seen.taken_at < run.started_at):
        return False
    ended = run is not None and run.ended_at is not None
    if ended and not shows_end(seen, run):
        return False
    return now - seen.taken_at <= (FRESH_AFTER_END_SECONDS if ended else FRESH_SECONDS)


def may_have_changed(view: QueryView, now: float) -> bool:
    """Whether the checkpoint may have been edited since the newest inventory, which makes another one worthwhile."""
    seen, ended = view.checkpoint, view.run is not None and view.run.ended_at is not None
    if seen is None or not ended:
        return False
    return seen.verdict == "broken" or now - seen.taken_at > EDIT_GRACE_SECONDS


def predicted_failure(seen: CheckpointSummary | None) -> ActionRefusal | None:
    """Why a start will fail according to the doctor; None if the checkpoint is not broken."""
    if seen is None or seen.verdict != "broken":
        return None
    what = seen.predicted_failure or seen.summary
    damage = "" if what.startswith(CHANGED) else "the checkpoint is broken, "
    return ActionRefusal(BROKEN, f"{damage}a start will fail: {what}")
