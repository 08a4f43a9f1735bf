"""What changed before the trouble of a query, from runs, shapes, agents, actions and reports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controlplane.changes.what_changed import (
    QueryChange,
    StartedRun,
    changes_before,
    input_change,
    trouble_began,
)
from controlplane.model import ActionState, ProgressSample, QueryStatus, RunEnd
from tests.unit.controlplane.situations import NOW, action, agent, run, sample

HOUR = 3600.0


def statuses(*found: tuple[float, QueryStatus]) -> list[dict[str, Any]]:
    """Newest first, as the store has them."""
    return [{"at": NOW - ago, "status": status.value} for ago, status in found]


@pytest.mark.parametrize(
    ("found", "ago"),
    [
        ([], None),
        ([(10, QueryStatus.RUNNING), (90, QueryStatus.FAILED)], None),
        ([(10, QueryStatus.LAGGING), (90, QueryStatus.RUNNING), (99, QueryStatus.STUCK)], 10),
        (
            [
                (5, QueryStatus.FAILED),
                (8, QueryStatus.RESTARTING),
                (30, QueryStatus.LAGGING),
                (90, QueryStatus.IDLE),
            ],
            30,
        ),
        ([(5, QueryStatus.STARTING), (30, QueryStatus.FAILED)], 30),
        ([(5, QueryStatus.STARTING), (30, QueryStatus.RUNNING)], None),
    ],
    ids=[
        "nothing",
        "well again",
        "lagging",
        "failed after it lagged",
        "starting again",
        "started while well",
    ],
)
def test_trouble_begins_with_the_first_bad_status_of_the_present_period(found, ago) -> None:
    assert trouble_began(statuses(*found)) == (None if ago is None else NOW - ago)


def started(number: int, ago: float, comparison: dict[str, Any] | None = None, **of_agent: Any) -> StartedRun:
    ran = run(run_id=f"run-{number}-long-id", started_at=NOW - ago)
    return StartedRun(ran, agent(**of_agent), comparison)


def kinds(found: list[QueryChange]) -> list[str]:
    return [change.kind for change in found]


def test_a_deploy_names_driver_version_label_and_plan() -> None:
    compared = {"findings": [{"change": "the filter was changed.", "rule": "filters"}]}
    old = started(1, 9 * HOUR, spark_version="4.2.0", labels={"version": "1.4", "team": "data"})
    new = started(
        2,
        120,
        compared,
        agent="agent-2-long",
        spark_version="4.3.0",
        labels={"version": "1.5", "team": "data"},
    )
    found = changes_before(NOW, [new, replace(old, run=replace(old.run, end=RunEnd.STOPPED))], [])
    assert kinds(found) == ["start", "query", "driver", "spark", "label"]
    assert [change.sentence for change in found] == [
        "Run run-2-lo started; the run before had been stopped.",
        "The filter was changed.",
        "A new driver ran it: agent-2- after agent-1.",
        "Spark was 4.2.0 and is 4.3.0.",
        "Label version was 1.4 and is 1.5.",
    ]


def test_a_change_of_spark_that_the_shape_names_is_named_once() -> None:
    compared = {"findings": [{"change": "Spark was 4.2.0 and is 4.3.0", "rule": "spark"}]}
    old, new = (
        started(1, 500, spark_version="4.2.0"),
        started(2, 120, compared, agent="b", spark_version="4.3.0"),
    )
    found = changes_before(NOW, [old, new], [])
    assert [c.sentence for c in found].count("Spark was 4.2.0 and is 4.3.0.") == 1


def test_the_same_driver_and_shape_change_nothing_but_the_run() -> None:
    assert kinds(changes_before(NOW, [started(1, 500), started(2, 120)], [])) == ["start", "start"]


@pytest.mark.parametrize("ago", [7 * HOUR, -120.0], ids=["long before", "after the trouble"])
def test_starts_at_other_times_explain_nothing(ago: float) -> None:
    assert changes_before(NOW, [started(1, ago)], []) == []


def test_a_start_names_who_requested_it_and_why() -> None:
    asked = action(
        state=ActionState.SUCCEEDED, requested_at=NOW - 125, finished_at=NOW - 110, request_reason="new keys"
    )
    (found, _) = changes_before(NOW, [started(1, 500), started(2, 120)], [asked])
    assert found.sentence == "Run run-2-lo started: restart requested by ada (new keys)."


def test_a_refused_start_started_nothing() -> None:
    refused = action(state=ActionState.REFUSED, requested_at=NOW - 125, finished_at=NOW - 125)
    (found, _) = changes_before(NOW, [started(1, 500), started(2, 120)], [refused])
    assert "requested by" not in found.sentence


def reports(*stretches: tuple[float, float, float]) -> list[ProgressSample]:
    """Every minute from `start` to `end` (seconds ago) a report with this rate."""
    return [
        sample(1, NOW - ago, input_rows_per_second=rate)
        for start, end, rate in stretches
        for ago in range(int(start), int(end), -60)
    ]


def test_more_input_than_in_the_hour_before_is_stated() -> None:
    found = input_change(NOW, reports((4200, 600, 100.0), (600, 0, 450.0)))
    assert found.sentence == (
        "The input was 450 rows a second in the 10 min before, 4.5 times the 100 rows a second of the hour before that."
    )


@pytest.mark.parametrize(
    "samples",
    [
        reports((4200, 600, 100.0), (600, 0, 120.0)),
        reports((600, 0, 450.0)),
        reports((4200, 600, 100.0)),
        reports((4200, 600, float("nan")), (600, 0, 450.0)),
    ],
    ids=["alike", "no hour before", "no minutes before", "unknown"],
)
def test_input_that_is_alike_or_unknown_is_no_change(samples: list[ProgressSample]) -> None:
    assert input_change(NOW, samples) is None


def test_a_baseline_decides_where_there_is_one() -> None:
    """Every night at this hour the input is ten times that of the hour before."""
    samples = reports((4200, 600, 100.0), (600, 0, 1000.0))
    assert input_change(NOW, samples, (800.0, 1200.0)) is None
    assert (
        "normal for this hour are 50 rows to 120 rows" in input_change(NOW, samples, (50.0, 120.0)).sentence
    )
