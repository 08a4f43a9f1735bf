"""A checkpoint is OK only as of the newest commit known, and no older batch is called the next one."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from controlplane.health.checkpoint_verdict import (
    IN_FLIGHT,
    NOT_ALLOWED,
    OK_AT_CHECK,
    OUTDATED,
    STALE_SECONDS,
    contradicts,
    current,
    is_outdated,
    is_stale,
    next_batch,
    report_now,
)
from controlplane.model import CheckpointLogs, CheckpointSummary, RunEnd, ShapeChange
from tests.unit.controlplane.situations import NOW, run, sample, view

CHANGE = ShapeChange("run-1", "source 0 was A and is B", "It fails.", "Revert the change.", True)


def inventory(committed, ago, verdict="ok", **more):
    resumes = 0 if committed is None else committed + 1
    texts = {
        "ok": f"The next start resumes at batch {resumes}.",
        "risky": f"The next start resumes at batch {resumes}, but: Rows are lost.",
        "broken": "A restart fails: State files are missing.",
    }
    values = {
        "run_id": "run-1",
        "why": "started",
        "last_planned_batch": committed,
        "last_committed_batch": committed,
        "next_batch": resumes,
        "predicted_failure": "State files are missing (state.x)" if verdict == "broken" else None,
    }
    return CheckpointSummary(NOW - ago, verdict, texts[verdict], "/c", **{**values, **more})


def at(newest, seen, ago=1.0, **more):
    """A query that reported `newest` as its newest batch `ago` seconds before now."""
    batches = () if newest is None else (sample(newest, NOW - ago),)
    return view(checkpoint=seen, progress=batches, **{"run": run(last_batch_id=newest), **more})


def logs(committed, ago, planned=None):
    return CheckpointLogs(NOW - ago, committed if planned is None else planned, committed)


def test_inventory_of_the_start_is_not_ok_after_59_batches():
    """It read OK, it will resume at batch 0."""
    seen = current(at(59, inventory(None, 3000)))
    assert (seen.verdict, seen.next_batch) == (OUTDATED, 60)
    assert seen.summary == (
        "As of the first start, no fault was found. Batch 59 has been committed since. "
        "The next start resumes at batch 60 or later."
    )


def test_inventory_of_the_newest_commit_is_ok():
    query = at(59, inventory(59, 30), ago=40)
    assert current(query) == query.checkpoint
    assert not is_stale(query, NOW) and not is_outdated(query)


def test_later_reading_of_the_logs_is_ok_and_names_what_it_does_not_cover():
    seen = current(at(59, inventory(7, 3000, logs=logs(59, 5)), ago=20))
    assert (seen.verdict, seen.next_batch, seen.last_committed_batch) == ("ok", 60, 59)
    assert seen.summary == (
        "The next start resumes at batch 60. State and source files were checked as of batch 7."
    )


def test_query_that_goes_on_is_ok_at_the_last_check_and_never_ok():
    """A query with a batch a second read as if nothing were known of its checkpoint."""
    seen = current(at(61, inventory(7, 3000, logs=logs(59, 50))))
    assert (seen.verdict, seen.next_batch) == (OK_AT_CHECK, 62)
    assert seen.summary == (
        "As of batch 59, no fault was found. State and source files were checked as of batch 7. "
        "Batch 61 has been committed since. The next start resumes at batch 62 or later."
    )
    assert current(at(61, inventory(59, 50))).verdict == OK_AT_CHECK


@pytest.mark.parametrize(
    ("checked", "changes"),
    [
        (STALE_SECONDS + 5, {}),
        (50, {"run": run(started_at=NOW - 40, last_batch_id=61)}),
        (50, {"run": run(ended_at=NOW - 1, end=RunEnd.FAILED, last_batch_id=61)}),
    ],
    ids=["a check of long ago", "another run", "the run has ended"],
)
def test_check_before_an_end_a_start_or_of_long_ago_is_outdated(checked, changes):
    assert current(at(61, inventory(59, checked), **changes)).verdict == OUTDATED


@pytest.mark.parametrize("verdict", ["risky", "broken"])
def test_older_fault_stays_without_its_old_batch(verdict):
    seen = current(at(59, inventory(7, 3000, verdict)))
    assert (seen.verdict, seen.next_batch) == (verdict, 60)
    assert seen.summary.startswith("As of batch 7") and "at batch 8" not in seen.summary
    read = current(at(59, inventory(7, 3000, verdict, logs=logs(59, 5)), ago=20))
    assert read.verdict == verdict and "at batch 8" not in read.summary


def test_broken_verdict_is_disproved_by_a_later_run_that_committed():
    later = run(started_at=NOW - 60, last_batch_id=59)
    seen = current(at(59, inventory(7, 3000, "broken"), run=later))
    assert (seen.verdict, seen.predicted_failure) == (OUTDATED, None)
    assert "a restart would have failed: State files are missing." in seen.summary


def test_rewound_checkpoint_keeps_its_own_next_batch():
    """The inventory is newer than the report: somebody rewound the checkpoint."""
    seen = current(at(59, inventory(30, 10), ago=3000))
    assert (seen.verdict, seen.next_batch) == ("ok", 31)


def test_run_that_began_or_ended_since_makes_it_outdated_and_stale():
    began = at(None, inventory(7, 3000), run=run(started_at=NOW - 60))
    ended = at(
        7, inventory(7, 3000), ago=3100, run=run(ended_at=NOW - 60, end=RunEnd.STOPPED, last_batch_id=7)
    )
    for query in (began, ended):
        assert current(query).verdict == OUTDATED and is_stale(query, NOW)
    inspected = replace(ended, checkpoint=inventory(7, 60.5, why="stopped"))
    assert current(inspected).verdict == "ok" and not is_stale(inspected, NOW)


def test_outdated_verdict_is_stale_after_a_while_only():
    assert not is_stale(at(59, inventory(58, 30)), NOW)
    assert is_stale(at(59, inventory(58, STALE_SECONDS + 5)), NOW)


def test_change_that_failed_makes_it_broken_with_a_finding():
    """Failed changes that preflight had flagged read ok."""
    query = at(
        None, inventory(7, 5, why="failed"), run=run(ended_at=NOW - 9, end=RunEnd.FAILED, failure_text="x")
    )
    query = replace(query, change=CHANGE)
    seen = current(query)
    assert seen.verdict == "broken" and "source 0 was A and is B" in seen.predicted_failure
    assert seen.summary == "A restart of the changed query fails: source 0 was A and is B. Revert the change."
    stored = {"findings": [{"check": NOT_ALLOWED, "severity": "warning"}, {"check": "other"}]}
    first, other = report_now(stored, query)["findings"]
    assert (first["check"], first["severity"], first["effect"]) == (NOT_ALLOWED, "error", "fails")
    assert other == {"check": "other"} and report_now(None, replace(query, change=None)) == {}


def test_batch_in_flight_at_the_check_is_no_finding_once_it_is_committed():
    """It read "Batch 1 was planned but not committed" beside "Batch 11 has been committed since"."""
    found = {"verdict": "risky", "last_planned_batch": 1, "next_batch": 1}
    seen = inventory(0, 40, **found, counts={(IN_FLIGHT, "warning"): 1, ("memory.unknown", "info"): 1})
    stored = {"findings": [{"check": IN_FLIGHT}, {"check": "other"}]}
    waiting, ran = at(0, seen, ago=50), at(11, seen)
    assert current(waiting).verdict == "risky" and report_now(stored, waiting) == stored
    assert (current(ran).verdict, current(ran).next_batch) == (OK_AT_CHECK, 12)
    assert "Rows are lost" not in current(ran).summary and (IN_FLIGHT, "warning") not in current(ran).counts
    assert report_now(stored, ran)["findings"] == [{"check": "other"}]
    other = replace(seen, counts={**seen.counts, ("sink.metadata-ahead", "warning"): 1})
    assert current(at(11, other)).verdict == "risky"


def test_flagged_change_of_a_running_query_makes_it_risky():
    query = replace(at(None, inventory(7, 5), run=run(started_at=NOW - 60)), change=CHANGE)
    assert current(query).verdict == "risky" and "does not allow: source 0" in current(query).summary
    committed = replace(at(8, inventory(8, 5), ago=20), change=CHANGE)
    assert current(committed).verdict == "ok", "it ran, so it was no obstacle"
    harmful = replace(committed, change=replace(CHANGE, fails=False))
    assert current(harmful).verdict == "risky"


def test_run_that_failed_before_its_first_commit_makes_it_risky():
    failed = run(ended_at=NOW - 9, end=RunEnd.FAILED, failure_text="java.lang.IllegalStateException: odd")
    seen = current(at(None, inventory(7, 5, why="failed"), run=failed))
    assert seen.verdict == "risky" and "failed before its first commit" in seen.summary
    lost = replace(failed, failure_text="org.apache.spark.SparkException: ExecutorLostFailure (executor 1)")
    assert current(at(None, inventory(7, 5, why="failed"), run=lost)).verdict == "ok"


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        (CheckpointLogs(0.0, None, None), 0),
        (CheckpointLogs(0.0, 0, None), 0),
        (CheckpointLogs(0.0, 5, 5), 6),
        (CheckpointLogs(0.0, 6, 5), 6),
        (CheckpointLogs(0.0, 5, 7), 6),
    ],
)
def test_next_batch_follows_the_logs(reading, expected):
    assert next_batch(reading) == expected


def test_logs_without_a_batch_reported_before_contradict_the_reports():
    assert contradicts(at(59, None, ago=60), logs(58, 5))
    assert not contradicts(at(59, None, ago=4), logs(58, 5)), "it was committed after the reading"
    assert contradicts(at(5, None, ago=60), logs(7, 5, planned=6)), "commits are ahead"


def test_no_random_history_is_ok_with_an_older_commit():
    chance = random.Random(13)
    for _ in range(5000):
        newest, ago = chance.choice([None, *range(5)]), chance.uniform(0, 600)
        seen = inventory(
            chance.choice([None, *range(5)]), chance.uniform(0, 600), chance.choice(["ok", "risky"])
        )
        if chance.random() < 0.5:
            committed = chance.choice([None, *range(5)])
            seen = replace(seen, logs=logs(committed, chance.uniform(0, NOW - seen.taken_at)))
        found = current(at(newest, seen, ago))
        shown = -1 if found.last_committed_batch is None else found.last_committed_batch
        read_at = seen.logs.at if seen.logs else seen.taken_at
        if newest is not None and newest > shown and NOW - ago > read_at:
            assert found.verdict != "ok" and found.next_batch > newest
        if found.verdict == OK_AT_CHECK:
            assert found.summary.startswith("As of") and NOW - ago - read_at <= STALE_SECONDS
