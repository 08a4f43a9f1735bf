"""Queries that do not run, or cannot be heard, and the verdict on each."""

from __future__ import annotations

from controlplane.model import ActionState, QueryStatus, RunEnd, RunFacts
from tests.unit.controlplane.situations import (
    NOW,
    STATE_LOST,
    Case,
    action,
    agent,
    batches,
    ended,
    run,
    status,
    view,
)

DRAINING = RunFacts(trigger="available_now")

CASES = [
    # Put away, ended, or on the way back.
    Case("a retired query", view(retired_at=NOW - 60), QueryStatus.RETIRED, "put it away at"),
    Case(
        "a retired query that was started again", view(retired_at=NOW - 7000), QueryStatus.RUNNING, "batch 11"
    ),
    Case(
        "stopped by somebody",
        view(run=ended(RunEnd.STOPPED)),
        QueryStatus.STOPPED,
        "stopped 1 min 40 s ago after batch 42",
    ),
    Case(
        "stopped, and its driver went away since",
        view(
            run=ended(RunEnd.STOPPED, 500),
            progress=batches([0] * 3, last_at=NOW - 510),
            agent=agent(last_seen_at=NOW - 300),
            status=None,
            polled_at=None,
        ),
        QueryStatus.STOPPED,
        "its agent is silent for 5 min",
    ),
    Case(
        "failed with a condition",
        view(run=ended(RunEnd.FAILED, failure_text=STATE_LOST)),
        QueryStatus.FAILED,
        "failed 1 min 40 s ago after batch 42: CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS; Restore",
    ),
    Case("failed without a word", view(run=ended(RunEnd.FAILED)), QueryStatus.FAILED, "gave no exception"),
    Case("failed, end not yet said", view(run=ended(None, failure_text="boom")), QueryStatus.FAILED, "boom"),
    Case(
        "an availableNow run that is done", view(run=ended(RunEnd.FINISHED)), QueryStatus.FINISHED, "read all"
    ),
    Case(
        "an availableNow run that ended without saying how",
        view(run=ended(None), facts=DRAINING),
        QueryStatus.FINISHED,
        "after batch 42",
    ),
    Case(
        "a run whose driver was lost",
        view(run=ended(RunEnd.LOST)),
        QueryStatus.LOST,
        "went away without a word",
    ),
    Case(
        "a driver that exited around the query",
        view(agent=agent(ended_at=NOW - 20, end_reason="exit")),
        QueryStatus.STOPPED,
        "stopped 20 s ago",
    ),
    Case(
        "a driver that died of an exception",
        view(agent=agent(ended_at=NOW - 20, end_reason="exception")),
        QueryStatus.FAILED,
        "failed 20 s ago",
    ),
    Case(
        "a restart under way after the stop",
        view(run=ended(RunEnd.STOPPED, 2), action=action()),
        QueryStatus.RESTARTING,
        "ada asked for a restart 4 s ago; the action is delivered",
    ),
    Case(
        "a start of a failed query under way",
        view(run=ended(RunEnd.FAILED), action=action("start", ActionState.REQUESTED)),
        QueryStatus.RESTARTING,
        "requested",
    ),
    Case("a restart asked for while it runs", view(action=action()), QueryStatus.RUNNING, "batch 11"),
    Case(
        "a stop under way after the end",
        view(run=ended(RunEnd.STOPPED, 2), action=action("stop")),
        QueryStatus.STOPPED,
        "stopped 2 s ago",
    ),
    Case(
        "a restart that is over",
        view(run=ended(RunEnd.STOPPED), action=action(state=ActionState.FAILED)),
        QueryStatus.STOPPED,
        "stopped",
    ),
    Case(
        "a start that failed after the end",
        view(run=ended(RunEnd.STOPPED), start_failed_at=NOW - 30, start_failure=STATE_LOST),
        QueryStatus.FAILED,
        "its start failed 30 s ago: CANNOT_LOAD_STATE_STORE",
    ),
    Case(
        "a start that failed before the run that ended",
        view(run=ended(RunEnd.STOPPED), start_failed_at=NOW - 5000),
        QueryStatus.STOPPED,
        "stopped",
    ),
    Case(
        "a query that never started",
        view(run=None, progress=(), status=None, start_failed_at=NOW - 9, start_failure="boom"),
        QueryStatus.FAILED,
        "boom",
    ),
    Case(
        "a second start refused while it runs",
        view(start_failed_at=NOW - 9),
        QueryStatus.RUNNING,
        "batch 11 took 1 s",
    ),
    # Out of hearing.
    Case(
        "an agent that is silent",
        view(
            agent=agent(last_seen_at=NOW - 90),
            progress=batches([0] * 12, last_at=NOW - 95),
            status=status(at=NOW - 92),
            polled_at=NOW - 92,
        ),
        QueryStatus.LOST,
        "nothing was heard from its agent for 1 min 30 s",
    ),
    Case(
        "an agent that was heard just in time",
        view(agent=agent(last_seen_at=NOW - 59), status=None, polled_at=None),
        QueryStatus.RUNNING,
        "batch 11",
    ),
    Case(
        "a query whose driver no longer lists it",
        view(
            run=run(started_at=NOW - 600),
            progress=batches([0] * 12, last_at=NOW - 40),
            status=status(at=NOW - 33),
            polled_at=NOW - 3,
        ),
        QueryStatus.LOST,
        "vanished: its driver no longer lists it; last seen 33 s ago",
    ),
    Case(
        "a query that one poll missed",
        view(progress=batches([0] * 12, last_at=NOW - 14), status=status(at=NOW - 13), polled_at=NOW - 3),
        QueryStatus.RUNNING,
        "batch 11",
    ),
    Case(
        "a query that polls never saw",
        view(run=run(started_at=NOW - 40), progress=(), status=None),
        QueryStatus.LOST,
        "vanished",
    ),
    Case(
        "a query that polls do not see although it reports",
        view(status=None),
        QueryStatus.RUNNING,
        "batch 11",
    ),
]
