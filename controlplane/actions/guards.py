"""May this action be done now? Pure: a view of the query in, None or the reason why not out.

The agent checks again in the driver, with what only it knows (factories, wrong query); these guards
spare people the wait and keep two hands off one query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.model import Action, Agent, CheckpointSummary, QueryView, Run
from listeners.protocol.wire import rfc3339

ALLOWED = {"none": (), "stop": ("stop",), "all": ("stop", "start", "restart")}


@dataclass(frozen=True)
class ActionRefusal:
    """Why not: `code` for programs, `reason` a sentence for people."""

    code: str
    reason: str


def check(
    view: QueryView,
    action: str,
    under_way: Action | None,
    others: Sequence[Agent] = (),
    vanished: bool = False,
) -> ActionRefusal | None:
    """The first reason against it, or None. `others`: living agents besides its own that run this query.

    `vanished`: its driver lives and no longer lists it, so it does not run, though nobody told of its end.
    """
    return (
        _retired(view)
        or _under_way(under_way)
        or _no_driver(view)
        or _two_drivers(view, others)
        or _forbidden(view.agent, action)
        or _wrong_state(view, action, vanished)
    )


def _retired(view: QueryView) -> ActionRefusal | None:
    if view.retired_at is None:
        return None
    return ActionRefusal("retired", f"the query was retired at {rfc3339(view.retired_at)}")


def _under_way(action: Action | None) -> ActionRefusal | None:
    if action is None:
        return None
    reason = (
        f"{action.actor}'s {action.action} of {rfc3339(action.requested_at)} is still {action.state.value}"
    )
    return ActionRefusal("action_in_progress", reason)


def _no_driver(view: QueryView) -> ActionRefusal | None:
    agent = view.agent
    if agent is None and view.start_failed_at is not None:
        return ActionRefusal(
            "no_driver", "it has never run, so only its program can start it: start the application"
        )
    if agent is None:
        return ActionRefusal(
            "no_driver", "no agent has reported this query, so there is nobody to carry it out"
        )
    if agent.ended_at is None:
        return None
    how = agent.end_reason or "exit"
    return ActionRefusal(
        "no_driver", f"its driver ended ({how}) at {rfc3339(agent.ended_at)}: start the application"
    )


def _two_drivers(view: QueryView, others: Sequence[Agent]) -> ActionRefusal | None:
    """A checkpoint that was copied keeps its query's id: then the id alone does not say whom to ask."""
    agent = view.agent
    other = next(iter(others), None)
    if agent is None or (other is None and agent.app == view.app):
        return None
    second = other.app if other is not None else view.app
    reason = (
        f"two drivers use this query id: {agent.app} ({agent.agent[:8]}) and {second}"
        f"{f' ({other.agent[:8]})' if other is not None else ''}; was the checkpoint copied? "
        "Stop one of them, or give it a checkpoint of its own"
    )
    return ActionRefusal("two_drivers", reason)


def _forbidden(agent: Agent | None, action: str) -> ActionRefusal | None:
    mode = agent.actions if agent else "all"
    if action in ALLOWED.get(mode, ()):
        return None
    return ActionRefusal("forbidden_by_driver", f"its driver forbids {action} (CONTROLPLANE_ACTIONS={mode})")


def _wrong_state(view: QueryView, action: str, vanished: bool) -> ActionRefusal | None:
    run = view.run
    runs = run is not None and run.ended_at is None and not vanished
    if action == "stop" and not runs:
        when = f" since {rfc3339(run.ended_at)}" if run and run.ended_at is not None else ""
        return ActionRefusal("not_running", f"the query is not running{when}")
    if action == "start" and run is not None and runs:
        return ActionRefusal("already_running", f"the query is running (run {run.run_id})")
    return None


#: For so many seconds an inventory tells of now; of a query that has ended, as long as a start that has waited for it
#: (`actions.INVENTORY_WAIT_SECONDS`) must find it fresh.
FRESH_SECONDS = 60.0
FRESH_AFTER_END_SECONDS = 20.0
#: Once a query has ended people work on its checkpoint, and start it as soon as they are done.
EDIT_GRACE_SECONDS = 3.0
BROKEN = "checkpoint_broken"


def is_fresh(seen: CheckpointSummary | None, view: QueryView, now: float) -> bool:
    """Whether this inventory tells what a start would find: it is of now, and no run has begun or ended since."""
    run = view.run
    if seen is None or (run is not None and seen.taken_at < run.started_at):
        return False
    ended = run is not None and run.ended_at is not None
    if ended and not _is_of_the_end(seen, run):
        return False
    return now - seen.taken_at <= (FRESH_AFTER_END_SECONDS if ended else FRESH_SECONDS)


def may_have_changed(view: QueryView, now: float) -> bool:
    """Whether somebody may have worked on the checkpoint since the newest inventory: another look costs a moment."""
    seen, ended = view.checkpoint, view.run is not None and view.run.ended_at is not None
    if seen is None or not ended:
        return False
    return seen.verdict == "broken" or now - seen.taken_at > EDIT_GRACE_SECONDS


def _is_of_the_end(seen: CheckpointSummary, run: Run | None) -> bool:
    """Taken after the run ended; its agent's clock may differ by a moment from the one that told the end."""
    if run is None or run.ended_at is None:
        return False
    return seen.taken_at >= run.ended_at or (seen.run_id == run.run_id and seen.why in ("failed", "stopped"))


def predicted_failure(seen: CheckpointSummary | None) -> ActionRefusal | None:
    """Why a start will fail, as the doctor sees it; None where it sees nothing that it will fail by."""
    if seen is None or seen.verdict != "broken":
        return None
    what = seen.foretold or seen.summary
    return ActionRefusal(BROKEN, f"its checkpoint is broken, a start will fail: {what}")
