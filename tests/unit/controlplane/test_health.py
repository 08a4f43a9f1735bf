"""One table of situations and the verdict on each; then what must hold of any view at all."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.health import judge, lag_seconds
from controlplane.model import (
    Action,
    ActionState,
    Agent,
    ProgressSample,
    QueryStatus,
    QueryView,
    Run,
    RunEnd,
    RunFacts,
    SourceSample,
    StatusSample,
)
from tests.unit.controlplane.situations import (
    NOW,
    action,
    agent,
    batches,
    headless,
    in_batch,
    run,
    sample,
    source,
    status,
    view,
)

ASAP = RunFacts(trigger="processing_time", trigger_interval=0.0)
DRAINING = RunFacts(trigger="available_now")
STATE_LOST = "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS] Error reading delta file 4.delta"


@dataclass(frozen=True)
class Case:
    name: str
    view: QueryView
    status: QueryStatus
    words: str


def ended(end: RunEnd | None, ago: float = 100, **changes: object) -> Run:
    return run(ended_at=NOW - ago, end=end, last_batch_id=42, **changes)


def hung(quiet: float, batch_age: float = 1000, **changes: object) -> QueryView:
    """A batch that has run for `batch_age`, whose last task finished `quiet` ago."""
    progress = batches([0] * 12, last_at=NOW - batch_age)
    return view(progress=progress, status=in_batch(last_task_at=NOW - quiet), **changes)


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
    # Starting.
    Case("known by name only", view(run=None, progress=(), status=None), QueryStatus.STARTING, "no run"),
    Case(
        "just started",
        view(
            run=run(started_at=NOW - 12),
            progress=(),
            status=status(message="Initializing sources", at=NOW - 2),
        ),
        QueryStatus.STARTING,
        "started 12 s ago, no batch yet (Initializing sources)",
    ),
    Case(
        "a new run that has no batch yet, though an old one had",
        view(run=run(run_id="run-2", started_at=NOW - 12), status=in_batch(run_id="run-2")),
        QueryStatus.STARTING,
        "no batch yet",
    ),
    Case(
        "a first batch that takes long while tasks finish",
        view(run=run(started_at=NOW - 1500), progress=(), status=in_batch(last_task_at=NOW - 20)),
        QueryStatus.BUSY,
        "its first batch runs for 25 min; the last task finished 20 s ago, 4 are done",
    ),
    Case(
        "a first batch in which no task has finished for long",
        view(run=run(started_at=NOW - 1500), progress=(), status=in_batch(last_task_at=None)),
        QueryStatus.STUCK,
        "its first batch runs for 25 min and no task finished for 25 min",
    ),
    Case(
        "a start that nobody can look into",
        view(run=run(started_at=NOW - 300), progress=(), status=None, polled_at=None),
        QueryStatus.STARTING,
        "started 5 min ago",
    ),
    # At rest.
    Case(
        "idle by an idle event",
        view(progress=batches([0] * 12, last_at=NOW - 200), idle_at=NOW - 8),
        QueryStatus.IDLE,
        "no new data for 3 min 20 s",
    ),
    Case(
        "idle by status",
        view(
            progress=batches([0] * 3, last_at=NOW - 65),
            status=status(message="Waiting for data to arrive", data_available=False),
        ),
        QueryStatus.IDLE,
        "no new data for 1 min 5 s",
    ),
    Case(
        "idle from the start",
        view(run=run(started_at=NOW - 50), progress=(), idle_at=NOW - 9),
        QueryStatus.IDLE,
        "no new data for 50 s",
    ),
    Case(
        "idle on Spark 3.4, which repeats its last batch",
        view(progress=(*batches([0] * 3, last_at=NOW - 100), sample(2, NOW - 5, input_rows=0))),
        QueryStatus.IDLE,
        "no new data for 1 min 40 s",
    ),
    Case(
        "idle, and just looking for data",
        view(
            progress=batches([0] * 3, last_at=NOW - 200),
            idle_at=NOW - 8,
            status=in_batch(data_available=False, message="Getting offsets from " + "KafkaV2"),
        ),
        QueryStatus.IDLE,
        "no new data",
    ),
    Case(
        "no longer idle: a batch has begun",
        view(progress=batches([0] * 3, last_at=NOW - 200), idle_at=NOW - 8, status=in_batch()),
        QueryStatus.RUNNING,
        "batch 2",
    ),
    Case(
        "hanging while it looks for data",
        view(
            progress=batches([0] * 3, last_at=NOW - 5000),
            idle_at=NOW - 900,
            status=in_batch(data_available=False, last_task_at=None, tasks_active=0, tasks_completed=0),
        ),
        QueryStatus.STUCK,
        "no task finished for 15 min",
    ),
    # Long batches.
    Case(
        "a long batch whose tasks finish",
        hung(quiet=20),
        QueryStatus.BUSY,
        "the batch after 11 runs for 16 min 40 s (usual 1 s); the last task finished 20 s ago, 4 are done",
    ),
    Case(
        "a long batch that hangs",
        hung(quiet=400),
        QueryStatus.STUCK,
        "the batch after 11 runs for 16 min 40 s (usual 1 s) and no task finished for 6 min 40 s",
    ),
    Case(
        "a long batch that is quiet, not yet for too long",
        hung(quiet=250),
        QueryStatus.BUSY,
        "4 min 10 s ago",
    ),
    Case(
        "a long batch without a finished task, but not past ten minutes",
        hung(quiet=599, batch_age=500),
        QueryStatus.BUSY,
        "no task finished yet, 10 min are allowed",
    ),
    Case(
        "a long batch of which tasks are not known",
        view(
            progress=batches([0] * 3, last_at=NOW - 1000),
            status=in_batch(tasks_active=None, tasks_completed=None, last_task_at=None),
        ),
        QueryStatus.BUSY,
        "nothing is known of its tasks",
    ),
    Case(
        "a batch no longer than three usual ones",
        view(
            progress=batches([0] * 12, last_at=NOW - 100, duration=60.0, every=60),
            status=in_batch(),
            facts=ASAP,
        ),
        QueryStatus.RUNNING,
        "batch 11 took 1 min",
    ),
    Case(
        "a batch long only by a short trigger's measure",
        view(
            progress=batches([0] * 12, last_at=NOW - 700, duration=200.0, every=600),
            facts=RunFacts(trigger="processing_time", trigger_interval=600.0),
            status=in_batch(last_task_at=NOW - 690),
        ),
        QueryStatus.RUNNING,
        "batch 11 took 3 min 20 s",
    ),
    Case(
        "between two triggers that are far apart",
        view(progress=batches([0] * 12, last_at=NOW - 400, every=600)),
        QueryStatus.RUNNING,
        "keeps up",
    ),
    Case(
        "hung and falling behind: hung counts",
        view(
            progress=batches(range(0, 1200, 100), last_at=NOW - 2000),
            status=in_batch(last_task_at=NOW - 2100),
        ),
        QueryStatus.STUCK,
        "no task finished for 33 min 20 s",
    ),
    Case(
        "nobody polls it any more, and it is silent for longer than any batch",
        view(
            progress=batches([0] * 12, last_at=NOW - 3000), status=status(at=NOW - 2990), polled_at=NOW - 2990
        ),
        QueryStatus.BUSY,
        "nothing is known of its tasks",
    ),
    # Falling behind.
    Case("keeping up", view(), QueryStatus.RUNNING, "batch 11 took 1 s; keeps up: lag 0 rows"),
    Case(
        "a trickle that falls behind steadily",
        view(progress=batches(range(5, 55, 5), rows=5)),
        QueryStatus.LAGGING,
        "never fell, from 5 rows to 50 rows in 1 min 30 s",
    ),
    Case(
        "a flood that falls behind steadily",
        view(progress=batches(range(1_000_000, 11_000_000, 1_000_000), rows=1_000_000)),
        QueryStatus.LAGGING,
        "from 1 000 000 rows to 10 000 000 rows",
    ),
    Case(
        "lag that neither grows nor falls, above what is allowed",
        view(progress=batches([500] * 10, rows=100)),
        QueryStatus.LAGGING,
        "from 500 rows to 500 rows",
    ),
    Case(
        "healthy jitter of tiny batches",
        view(progress=batches([0, 3, 8, 2, 9, 0, 5, 7, 9, 11, 12, 14], rows=5)),
        QueryStatus.RUNNING,
        "keeps up: lag 14 rows",
    ),
    Case(
        "healthy jitter of large batches",
        view(progress=batches([9e4, 2e5, 1e5, 3e5, 5e4, 2e5, 3e5, 1e5, 1e5, 4e5], rows=1_000_000)),
        QueryStatus.RUNNING,
        "lag 400 000 rows",
    ),
    Case(
        "a source that bursts in the last batch",
        view(progress=batches([0] * 11 + [5000])),
        QueryStatus.RUNNING,
        "lag 5 000 rows",
    ),
    Case(
        "growth that is too young to judge",
        view(progress=batches(range(0, 900, 100))),
        QueryStatus.RUNNING,
        "lag 800 rows",
    ),
    Case(
        "batches of a third of a second that jitter for a few seconds",
        view(progress=batches([*([0, 40] * 50), *range(0, 200, 20)], every=0.3), facts=ASAP),
        QueryStatus.RUNNING,
        "lag 180 rows",
    ),
    Case(
        "batches of a third of a second that fall behind for half a minute",
        view(progress=batches(range(0, 2400, 20), every=0.3), facts=ASAP),
        QueryStatus.LAGGING,
        "never fell",
    ),
    Case(
        "batches that read nothing while rows wait",
        view(progress=batches([100] * 12, rows=0)),
        QueryStatus.STUCK,
        "10 batches read nothing of KafkaV2[Subscribe[orders]] while 100 rows wait",
    ),
    Case(
        "one partition that is not read",
        view(
            progress=tuple(
                sample(
                    n,
                    NOW - 5 - (11 - n) * 10,
                    [source({"o/0": n, "o/1": 7}, {"o/0": n + 1, "o/1": 7}, {"o/0": n + 1, "o/1": 90})],
                )
                for n in range(12)
            )
        ),
        QueryStatus.STUCK,
        "read nothing of o/1 of KafkaV2[Subscribe[orders]] while 83 rows wait",
    ),
    Case(
        "one partition that falls behind while the whole does not",
        view(progress=batches([{"o/0": 1000 - 100 * n, "o/1": 100 * n} for n in range(10)])),
        QueryStatus.LAGGING,
        "o/1 of KafkaV2[Subscribe[orders]] never fell, from 0 rows to 900 rows",
    ),
    Case(
        "a quiet partition beside a busy one",
        view(
            progress=tuple(
                sample(
                    n,
                    NOW - 5 - (11 - n) * 10,
                    [source({"o/0": n, "o/1": 7}, {"o/0": n + 1, "o/1": 7}, {"o/0": n + 1, "o/1": 7})],
                )
                for n in range(12)
            )
        ),
        QueryStatus.RUNNING,
        "lag 0 rows",
    ),
    Case(
        "far behind but catching up",
        view(
            progress=batches(
                [12_000, 11_000, 10_000, 9_000, 8_000, 7_000, 6_000, 5_000, 4_000, 2_000],
                rows=1100,
                first_end=50_000,
            )
        ),
        QueryStatus.RUNNING,
        "keeps up: lag 2 000 rows, the oldest 3 min",
    ),
    Case(
        "more than five minutes behind, catching up",
        view(
            progress=batches(
                [40_000 - 2_000 * n for n in range(12)], rows=2_100, every=10, first_end=1_000_000
            )
        ),
        QueryStatus.LAGGING,
        "18 000 rows wait; catching up, about 1 min 30 s left",
    ),
    Case(
        "an availableNow run is behind by nature",
        view(progress=batches(range(1000, 13000, 1000)), facts=DRAINING),
        QueryStatus.RUNNING,
        "lag 12 000 rows",
    ),
    # Sources that tell no head, or whose head is always the end.
    Case("a source without a head", view(progress=headless(12)), QueryStatus.RUNNING, "lag unknown"),
    Case(
        "results that are always old, as batches take long",
        view(progress=headless(5, duration=200.0, every=200), facts=ASAP),
        QueryStatus.LAGGING,
        "its results are 6 min 40 s old, as its batches take 3 min 20 s",
    ),
    Case(
        "batches that are long, but not by their trigger's measure",
        view(
            progress=headless(5, duration=200.0, every=600),
            facts=RunFacts(trigger="processing_time", trigger_interval=600.0),
        ),
        QueryStatus.RUNNING,
        "batch 4 took 3 min 20 s",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_situation_has_its_verdict_and_the_reason_names_the_figures(case: Case) -> None:
    verdict = judge(case.view, NOW)
    assert (verdict.status, case.words in verdict.reason) == (case.status, True), verdict.reason


def test_rates_are_never_used_to_judge_lag() -> None:
    slow = tuple(
        replace(s, input_rows_per_second=1e6, processed_rows_per_second=1.0) for s in batches([0] * 12)
    )
    assert judge(view(progress=slow), NOW).status is QueryStatus.RUNNING


def test_silence_begins_after_sixty_seconds_and_not_before() -> None:
    quiet = view(status=None, polled_at=None, progress=batches([0] * 12, last_at=NOW))
    heard = replace(quiet, agent=agent(last_seen_at=NOW))
    assert judge(heard, NOW + 60).status is not QueryStatus.LOST
    assert judge(heard, NOW + 60.1).status is QueryStatus.LOST


def test_a_query_is_followed_from_start_to_end() -> None:
    story = [
        view(run=run(started_at=NOW - 4), progress=(), status=None, polled_at=None),
        view(),
        view(idle_at=NOW - 1),
        hung(quiet=30),
        hung(quiet=400),
        view(run=ended(RunEnd.FAILED, failure_text="boom")),
        view(run=ended(RunEnd.FAILED), action=action()),
        view(run=ended(RunEnd.STOPPED)),
    ]
    told = "starting running idle busy stuck failed restarting stopped".split()
    assert [judge(one, NOW).status.value for one in story] == told


# What must hold of any view.

moments = (
    st.floats(NOW - 1e5, NOW + 1e5)
    | st.just(math.nan)
    | st.just(math.inf)
    | st.just(0.0)
    | st.just(-math.inf)
)
wild = st.floats() | st.integers(-(2**63), 2**63 - 1)
few_text = st.sampled_from(
    ["", "run-1", "run-2", "Waiting for data to arrive", "boom [A_B]", "available_now"]
)
offsets = st.none() | st.dictionaries(st.sampled_from(["t/0", "t/1"]), st.floats(), max_size=2)
sources_ = st.builds(SourceSample, few_text, offsets, offsets, offsets, st.integers(-1, 2**63 - 1))
samples_ = st.builds(
    ProgressSample,
    at=moments,
    trigger_at=moments,
    run_id=few_text,
    batch_id=st.integers(-1, 5),
    duration=st.floats(),
    phases_ms=st.just({}),
    input_rows=st.integers(-1, 2**63 - 1),
    input_rows_per_second=st.none() | st.floats(),
    processed_rows_per_second=st.none() | st.floats(),
    sources=st.lists(sources_, max_size=2).map(tuple),
)
maybe = st.none() | moments
statuses_ = st.builds(
    StatusSample,
    moments,
    few_text,
    few_text,
    st.booleans(),
    st.booleans(),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 9),
    maybe,
)
agents_ = st.builds(
    Agent,
    st.just(1),
    few_text,
    few_text,
    last_seen_at=moments,
    ended_at=maybe,
    end_reason=st.none() | few_text,
)
runs_ = st.builds(
    Run, st.just(1), st.sampled_from(["run-1", "run-2"]), few_text, few_text, moments, maybe,
    st.none() | st.sampled_from(RunEnd), failure_text=st.none() | few_text, error_class=st.none() | few_text,
)  # fmt: skip
actions_ = st.builds(
    Action, few_text, few_text, few_text, few_text, st.sampled_from(["stop", "start", "restart"]), few_text,
    st.sampled_from(ActionState), moments, moments,
)  # fmt: skip
views_ = st.builds(
    QueryView,
    query_id=few_text,
    app=few_text,
    name=st.none() | few_text,
    labels=st.just({}),
    first_seen_at=moments,
    agent=st.none() | agents_,
    run=st.none() | runs_,
    facts=st.builds(RunFacts, st.none() | few_text, st.none() | wild.map(float)),
    progress=st.lists(samples_, max_size=14).map(tuple),
    idle_at=maybe,
    status=st.none() | statuses_,
    polled_at=maybe,
    start_failed_at=maybe,
    start_failure=st.none() | few_text,
    action=st.none() | actions_,
    retired_at=maybe,
)


@settings(max_examples=300, deadline=None)
@given(views_)
def test_any_view_at_all_gets_a_verdict_in_one_line(strange: QueryView) -> None:
    verdict = judge(strange, NOW)
    assert verdict.reason
    assert "nan" not in verdict.reason.lower()


@settings(max_examples=300, deadline=None)
@given(views_)
def test_lag_in_seconds_is_never_negative_and_never_nan(strange: QueryView) -> None:
    seconds = lag_seconds(strange, NOW)
    assert seconds is None or seconds >= 0
