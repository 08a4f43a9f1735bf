"""Cases of queries that do not run or whose driver is silent, each with its verdict."""

from __future__ import annotations

from controlplane.driver_model import FailedDriver, HostLoad, Outage
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
    # Retired, ended, or being restarted.
    Case("a retired query", view(retired_at=NOW - 60), QueryStatus.RETIRED, "Retired at"),
    Case(
        "a retired query that was started again", view(retired_at=NOW - 7000), QueryStatus.RUNNING, "batch 11"
    ),
    Case(
        "stopped on request",
        view(run=ended(RunEnd.STOPPED)),
        QueryStatus.STOPPED,
        "Stopped 1 min 40 s ago after batch 42.",
    ),
    Case(
        "stopped, and its driver has been silent since",
        view(
            run=ended(RunEnd.STOPPED, 500),
            progress=batches([0] * 3, last_at=NOW - 510),
            agent=agent(last_seen_at=NOW - 300),
            status=None,
            polls=(),
        ),
        QueryStatus.STOPPED,
        "No heartbeat from the driver for 5 min.",
    ),
    Case(
        "failed with a condition",
        view(run=ended(RunEnd.FAILED, failure_text=STATE_LOST)),
        QueryStatus.FAILED,
        "Failed 1 min 40 s ago after batch 42: CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS. Restore",
    ),
    Case(
        "failed without an exception",
        view(run=ended(RunEnd.FAILED)),
        QueryStatus.FAILED,
        "the driver reported no exception.",
    ),
    Case(
        "failed, its end not reported yet",
        view(run=ended(None, failure_text="boom")),
        QueryStatus.FAILED,
        "boom",
    ),
    Case(
        "an availableNow run that is done",
        view(run=ended(RunEnd.FINISHED)),
        QueryStatus.FINISHED,
        "processed all",
    ),
    Case(
        "an availableNow run whose kind of end is unknown",
        view(run=ended(None), facts=DRAINING),
        QueryStatus.FINISHED,
        "Finished: processed all available data in batch 42.",
    ),
    Case(
        "a run whose driver was lost",
        view(run=ended(RunEnd.LOST)),
        QueryStatus.LOST,
        "Lost: the run ended 1 min 40 s ago after batch 42 without a report from its driver.",
    ),
    Case(
        "a driver that exited around the query",
        view(agent=agent(ended_at=NOW - 20, end_reason="exit")),
        QueryStatus.STOPPED,
        "Stopped 20 s ago.",
    ),
    Case(
        "a driver that died of an exception",
        view(agent=agent(ended_at=NOW - 20, end_reason="exception")),
        QueryStatus.FAILED,
        "Failed 20 s ago: the driver ended with an exception. Start the application; a query cannot be",
    ),
    Case(
        "a query whose driver ended with an exception that is named",
        view(
            agent=agent(ended_at=NOW - 20, end_reason="exception"),
            run=ended(RunEnd.FAILED, 20, failure_text="KeyError: 5"),
            ended_by="app_ended",
        ),
        QueryStatus.FAILED,
        "Failed 20 s ago after batch 42: the driver ended with an exception (KeyError: 5). Start the application",
    ),
    Case(
        "a query whose driver lost its JVM",
        view(
            agent=agent(ended_at=NOW - 20, end_reason="jvm_exited"),
            run=ended(RunEnd.FAILED, 20, failure_text="The driver's JVM has ended."),
            ended_by="app_ended",
        ),
        QueryStatus.FAILED,
        "after batch 42: the driver's JVM ended, and its program with it. Start the application; a query cannot",
    ),
    Case(
        "a query that failed by itself before its driver ended",
        view(
            agent=agent(ended_at=NOW - 20, end_reason="exception"),
            run=ended(RunEnd.FAILED, 21, failure_text=STATE_LOST),
            ended_by="terminated",
        ),
        QueryStatus.FAILED,
        "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS",
    ),
    Case(
        "a driver that SIGTERM ended",
        view(
            agent=agent(ended_at=NOW - 20, end_reason="sigterm"),
            run=ended(RunEnd.STOPPED, 20),
            ended_by="app_ended",
        ),
        QueryStatus.STOPPED,
        "Stopped 20 s ago after batch 42: the driver was ended by SIGTERM.",
    ),
    Case(
        "a driver that SIGTERM ended, and whose successor failed before it started a query",
        view(
            agent=agent(ended_at=NOW - 60, end_reason="sigterm"),
            run=ended(RunEnd.STOPPED, 60),
            ended_by="app_ended",
            next_driver=FailedDriver(NOW - 20, "ValueError: bad config"),
        ),
        QueryStatus.FAILED,
        "Failed 20 s ago: the application was started again, and its driver failed before it started a query "
        "(ValueError: bad config). Start the application; a query cannot be started without its driver.",
    ),
    # The agent ended, and the query did not.
    Case(
        "a query of a Spark Connect client that SIGTERM ended",
        view(agent=agent(ended_at=NOW - 20, end_reason="sigterm"), outlives_agent=True),
        QueryStatus.UNREACHABLE,
        "Unreachable: its Spark Connect client ended (SIGTERM) 20 s ago. The query may still run in the server.",
    ),
    Case(
        "a query of a Spark Connect client that is done",
        view(agent=agent(ended_at=NOW - 20, end_reason="exit"), outlives_agent=True),
        QueryStatus.UNREACHABLE,
        "Unreachable: its Spark Connect client ended 20 s ago.",
    ),
    Case(
        "a query whose program detached its agent",
        view(agent=agent(ended_at=NOW - 20, end_reason="detached"), outlives_agent=True),
        QueryStatus.UNREACHABLE,
        "Unreachable: the program detached its agent 20 s ago. The query may still run.",
    ),
    Case(
        "a Spark Connect client that was killed",
        view(
            agent=agent(last_seen_at=NOW - 95),
            progress=batches([0] * 3, last_at=NOW - 100),
            status=None,
            polls=(),
            host=HostLoad(NOW - 95, of_client=True),
        ),
        QueryStatus.LOST,
        "Lost: no heartbeat from its Spark Connect client for 1 min 35 s (expected every 10 s). The query may still",
    ),
    # Heartbeats come, and Spark does not answer.
    Case(
        "a dead JVM below a living Python process",
        view(agent=agent(outage=Outage("jvm_exited", NOW - 12))),
        QueryStatus.UNREACHABLE,
        "Unreachable: the driver's JVM ended 12 s ago, only its Python process still runs. Start the application",
    ),
    Case(
        "a Spark Connect server that is away",
        view(agent=agent(outage=Outage("server_away", NOW - 12))),
        QueryStatus.UNREACHABLE,
        "Unreachable: no connection to the Spark Connect server for 12 s.",
    ),
    Case(
        "a poll that waits for a minute on a busy host",
        view(agent=agent(outage=Outage("no_answer", NOW - 150, seen_at=NOW - 40))),
        QueryStatus.RUNNING,
        "trigger interval. Spark has not answered for 1 min 50 s, although the driver sends heartbeats.",
    ),
    Case(
        "Spark that does not answer for longer than any poll",
        view(agent=agent(outage=Outage("no_answer", NOW - 150))),
        QueryStatus.UNREACHABLE,
        "Unreachable: Spark has not answered for 2 min 30 s, although the driver sends heartbeats.",
    ),
    Case(
        "an unreachable driver that is silent by now",
        view(
            agent=agent(last_seen_at=NOW - 100, outage=Outage("server_away", NOW - 120)),
            polls=(),
            status=None,
            progress=(),
        ),
        QueryStatus.LOST,
        "Lost: no heartbeat from the driver for",
    ),
    Case(
        "a stopped query of an unreachable driver",
        view(
            agent=agent(outage=Outage("jvm_exited", NOW - 12)),
            run=ended(RunEnd.STOPPED),
            ended_by="terminated",
        ),
        QueryStatus.STOPPED,
        "Stopped 1 min 40 s ago after batch 42.",
    ),
    Case(
        "a query whose Spark Connect server was started again",
        view(
            run=ended(
                RunEnd.FAILED,
                20,
                failure_text="the Spark Connect session is gone: [INVALID_HANDLE.SESSION_CHANGED] x",
            ),
            ended_by="terminated",
        ),
        QueryStatus.FAILED,
        "Start the query in a new session",
    ),
    Case(
        "a restart under way after the stop",
        view(run=ended(RunEnd.STOPPED, 2), action=action()),
        QueryStatus.RESTARTING,
        "Restarting: requested by ada 4 s ago, delivered to the driver.",
    ),
    Case(
        "a start of a failed query under way",
        view(run=ended(RunEnd.FAILED), action=action("start", ActionState.REQUESTED)),
        QueryStatus.RESTARTING,
        "Starting: requested by ada 4 s ago, not delivered to the driver yet.",
    ),
    Case("a restart requested while it runs", view(action=action()), QueryStatus.RUNNING, "batch 11"),
    Case(
        "a stop under way after the end",
        view(run=ended(RunEnd.STOPPED, 2), action=action("stop")),
        QueryStatus.STOPPED,
        "Stopped 2 s ago",
    ),
    Case(
        "a restart that is over",
        view(run=ended(RunEnd.STOPPED), action=action(state=ActionState.FAILED)),
        QueryStatus.STOPPED,
        "Stopped",
    ),
    Case(
        "a start that failed after the end",
        view(run=ended(RunEnd.STOPPED), start_failed_at=NOW - 30, start_failure=STATE_LOST),
        QueryStatus.FAILED,
        "Failed to start 30 s ago: CANNOT_LOAD_STATE_STORE",
    ),
    Case(
        "a start that failed before the run that ended",
        view(run=ended(RunEnd.STOPPED), start_failed_at=NOW - 5000),
        QueryStatus.STOPPED,
        "Stopped",
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
    # Out of contact.
    Case(
        "an agent that is silent",
        view(
            agent=agent(last_seen_at=NOW - 91),
            progress=batches([0] * 12, last_at=NOW - 95),
            status=status(at=NOW - 92),
            polls=(NOW - 92,),
        ),
        QueryStatus.LOST,
        "Lost: no heartbeat from the driver for 1 min 31 s (expected every 10 s).",
    ),
    Case(
        "an agent that is silent, of an application that has a newer driver",
        view(
            agent=agent(last_seen_at=NOW - 200),
            progress=batches([0] * 12, last_at=NOW - 205),
            status=status(at=NOW - 202),
            polls=(NOW - 202,),
            next_driver_at=NOW - 120,
        ),
        QueryStatus.LOST,
        "Another driver of the application began 2 min ago.",
    ),
    Case(
        "a silent driver whose query another driver also runs",
        view(
            agent=agent(last_seen_at=NOW - 600),
            run=run(run_id="r1", started_at=NOW - 900),
            progress=(*batches([0], last_at=NOW - 600), *batches([0], last_at=NOW - 1, run_id="r2")),
            status=status(at=NOW - 600),
            polls=(NOW - 600,),
        ),
        QueryStatus.LOST,
        "Lost: no heartbeat from the driver for 10 min (expected every 10 s).",
    ),
    Case(
        "a driver that was killed after the server's clock was set back by an hour",
        view(
            agent=agent(last_seen_at=NOW + 3500, contact_at=NOW - 100),
            progress=batches([0] * 12, last_at=NOW - 110),
            status=status(at=NOW - 105),
            polls=(NOW - 105,),
        ),
        QueryStatus.LOST,
        "Lost: no heartbeat from the driver for 1 min 40 s (expected every 10 s).",
    ),
    Case(
        "an agent whose heartbeat came just in time",
        view(
            agent=agent(last_seen_at=NOW - 89),
            progress=batches([0] * 12, last_at=NOW - 89),
            status=None,
            polls=(),
        ),
        QueryStatus.RUNNING,
        "trigger interval. No heartbeat from the driver for 1 min 29 s (expected every 10 s).",
    ),
    Case(
        "a query whose driver no longer lists it",
        view(
            run=run(started_at=NOW - 600),
            progress=batches([0] * 12, last_at=NOW - 100),
            status=status(at=NOW - 93),
            polls=(NOW - 93, NOW - 83, NOW - 8),
        ),
        QueryStatus.LOST,
        "Lost: the driver is alive but the query has disappeared from it; last seen 1 min 33 s ago.",
    ),
    Case(
        "a query whose end may still be reported",
        view(
            progress=batches([0] * 12, last_at=NOW - 100),
            status=status(at=NOW - 93),
            polls=(NOW - 93, NOW - 83, NOW - 9),
        ),
        QueryStatus.RUNNING,
        "batch 11",
    ),
    Case(
        "a query that one late poll missed",
        view(progress=batches([0] * 12, last_at=NOW - 100), status=status(at=NOW - 93)),
        QueryStatus.RUNNING,
        "batch 11",
    ),
    Case(
        "a query that started after the list",
        view(run=run(started_at=NOW - 40), progress=(), status=None, polls=(NOW - 130, NOW - 41)),
        QueryStatus.STARTING,
        "started 40 s ago",
    ),
    Case(
        "a query that polls never saw",
        view(run=run(started_at=NOW - 100), progress=(), status=None, polls=(NOW - 99, NOW - 9)),
        QueryStatus.LOST,
        "has disappeared",
    ),
    Case(
        "a query that polls do not see although it reports",
        view(status=None),
        QueryStatus.RUNNING,
        "batch 11",
    ),
]
