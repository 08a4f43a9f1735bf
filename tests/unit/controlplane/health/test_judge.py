"""Tables of situations and the verdict on each; then what must hold of any view at all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

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
    hung,
    run,
    status,
    view,
)
from tests.unit.controlplane.wild_views import views_

CASES = [*cases_down.CASES, *cases_running.CASES, *cases_behind.CASES]


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


def test_a_server_that_has_just_started_gives_agents_a_minute_to_be_heard() -> None:
    long_ago = NOW - 900
    quiet = view(
        agent=agent(last_seen_at=long_ago),
        progress=batches([0] * 12, last_at=long_ago),
        status=status(at=long_ago),
        polled_at=long_ago,
    )
    assert judge(quiet, NOW, listening_since=NOW - 30).status is not QueryStatus.LOST
    assert judge(quiet, NOW, listening_since=NOW - 61).status is QueryStatus.LOST


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
