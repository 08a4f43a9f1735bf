"""Tests of the verdict on each case, and of properties that hold for every view."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from controlplane.health.formatting import clock
from controlplane.health.judge import judge
from controlplane.health.lag import lag_seconds
from controlplane.model import QueryStatus, QueryView, RunEnd
from tests.unit.controlplane.health import cases_behind, cases_down, cases_running
from tests.unit.controlplane.situations import (
    NOW,
    Case,
    action,
    agent,
    batches,
    ended,
    long_batch,
    run,
    status,
    view,
)
from tests.unit.controlplane.wild_views import views_

CASES = [*cases_down.CASES, *cases_running.CASES, *cases_behind.CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_case_gets_its_status_and_reason(case: Case) -> None:
    verdict = judge(case.view, NOW)
    assert (verdict.status, case.reason in verdict.reason) == (case.status, True), verdict.reason


def test_rates_do_not_affect_the_verdict() -> None:
    slow = tuple(
        replace(s, input_rows_per_second=1e6, processed_rows_per_second=1.0) for s in batches([0] * 12)
    )
    assert judge(view(progress=slow), NOW).status is QueryStatus.RUNNING


def test_a_query_is_lost_after_ninety_seconds_of_silence() -> None:
    quiet = view(status=None, polls=(), progress=batches([0] * 12, last_at=NOW))
    alive = replace(quiet, agent=agent(last_seen_at=NOW))
    assert judge(alive, NOW + 90).status is not QueryStatus.LOST
    assert judge(alive, NOW + 90.1).status is QueryStatus.LOST


def test_a_server_that_has_just_started_waits_for_heartbeats() -> None:
    long_ago = NOW - 900
    quiet = view(
        agent=agent(last_seen_at=long_ago),
        progress=batches([0] * 12, last_at=long_ago),
        status=status(at=long_ago),
        polls=(long_ago,),
    )
    assert judge(quiet, NOW, listening_since=NOW - 80).status is not QueryStatus.LOST
    assert judge(quiet, NOW, listening_since=NOW - 91).status is QueryStatus.LOST


def quiet_since(at: float, **changes: float) -> QueryView:
    """A query whose newest event is of `at`."""
    return view(
        agent=agent(last_seen_at=at, **changes),
        progress=batches([0] * 12, last_at=at),
        status=status(at=at),
        polls=(at,),
    )


def test_a_driver_whose_events_are_late_is_not_lost_while_its_agent_sends_requests() -> None:
    late = quiet_since(NOW - 2100)
    assert judge(late, NOW).status is QueryStatus.LOST
    alive = quiet_since(NOW - 2100, contact_at=NOW - 20)
    verdict = judge(alive, NOW)
    assert verdict.status is QueryStatus.RUNNING
    assert verdict.reason.endswith("trigger interval. Its events are 34 min 40 s behind.")
    assert judge(alive, NOW + 71).reason.startswith("Lost: no heartbeat from the driver for 1 min 31 s")


def test_what_a_driver_did_while_the_server_was_away_is_not_inferred_from_old_events() -> None:
    """At `now` the query would have been in one batch for 1 h 4 min."""
    seen = replace(quiet_since(NOW - 3840), status=status(at=NOW - 3840, trigger_active=True))
    verdict = judge(seen, NOW, listening_since=NOW - 60)
    assert verdict.status is QueryStatus.RUNNING
    then = clock(NOW - 3840, NOW)
    assert f" As of {then}, before the server was away. No heartbeat from the driver" in verdict.reason
    assert judge(seen, NOW + 31, listening_since=NOW - 60).status is QueryStatus.LOST


def test_the_status_follows_a_query_from_start_to_end() -> None:
    story = [
        view(run=run(started_at=NOW - 4), progress=(), status=None, polls=()),
        view(),
        view(idle_at=NOW - 1),
        long_batch(quiet=30),
        long_batch(quiet=400),
        view(run=ended(RunEnd.FAILED, failure_text="boom")),
        view(run=ended(RunEnd.FAILED), action=action()),
        view(run=ended(RunEnd.STOPPED)),
    ]
    expected = "starting running idle busy stuck failed restarting stopped".split()
    assert [judge(state, NOW).status.value for state in story] == expected


@settings(max_examples=300, deadline=None)
@given(views_)
def test_every_view_gets_a_verdict_without_nan(random_view: QueryView) -> None:
    verdict = judge(random_view, NOW)
    assert verdict.reason
    assert "nan" not in verdict.reason.lower()


@settings(max_examples=300, deadline=None)
@given(views_)
def test_lag_in_seconds_is_never_negative_and_never_nan(random_view: QueryView) -> None:
    seconds = lag_seconds(random_view, NOW)
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize(
    ("master", "executors", "noted"),
    [
        ("spark://m:7077", 0, True),
        ("k8s://https://m", 0, True),
        ("spark://m:7077", 1, False),
        ("spark://m:7077", None, False),
        ("local[2]", 0, False),
        (None, 0, False),
    ],
)
def test_a_batch_without_an_executor_is_noted(master: str | None, executors: int | None, noted: bool) -> None:
    running = long_batch(quiet=10)
    found = judge(replace(running, agent=agent(master=master), executors=executors), NOW)
    assert found.reason.endswith(" The driver has no executor, so no task can run.") is noted


def test_a_batch_without_an_executor_does_not_keep_up() -> None:
    begun = long_batch(quiet=1, batch_age=5)
    driver = agent(master="spark://m:7077")
    assert judge(replace(begun, agent=driver, executors=1), NOW).status is QueryStatus.RUNNING
    assert judge(replace(begun, agent=driver, executors=0), NOW).status is QueryStatus.BUSY


def test_a_query_that_waits_for_data_needs_no_executor() -> None:
    waiting = view(agent=agent(master="yarn"), executors=0)
    assert "executor" not in judge(waiting, NOW).reason
