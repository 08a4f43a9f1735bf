"""The slowest batches of a range: which, why, and how its rows are spread over partitions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ui.factories import NOW, point
from ui.query import batches


def batch(number: int, seconds: float, **changes: Any) -> dict[str, Any]:
    phases = {"addBatch": seconds * 900, "walCommit": seconds * 100, "triggerExecution": seconds * 1000}
    values = {"batch_duration_seconds": seconds, "phases_ms": phases, "input_rows": 100, **changes}
    return point(NOW + number, number, **values)


NORMAL = [batch(number, 1.0) for number in range(9)]


@pytest.mark.parametrize(
    ("slow", "reason"),
    [
        (batch(9, 1.2), "As long as the others."),
        (batch(9, 5.0), "addBatch took 4.5 s (median 900 ms), with no more rows than usual."),
        (batch(9, 5.0, input_rows=700), "addBatch took 4.5 s (median 900 ms), 7.0 times as many rows as the median."),
        (
            batch(9, 5.0, phases_ms={"addBatch": 900, "walCommit": 4100}),
            "walCommit took 4.1 s (median 100 ms), with no more rows than usual.",
        ),
        (batch(9, 5.0, phases_ms={}), "With no more rows than usual."),
    ],
)  # fmt: skip
def test_the_phase_that_grew_most_and_the_rows_are_the_reason(slow: dict[str, Any], reason: str) -> None:
    assert batches.why(slow, batches.medians([*NORMAL, slow])) == reason


def test_the_slowest_are_first_and_a_batch_is_listed_once() -> None:
    again = batch(3, 7.0, input_rows=5)
    found = batches.slowest([*NORMAL, batch(11, 3.0), again])
    assert [(p["batch_id"], p["batch_duration_seconds"]) for p in found[:2]] == [(3, 7.0), (11, 3.0)]
    assert [p["batch_id"] for p in found].count(3) == 1


@pytest.mark.parametrize(("after", "number"), [(-100.0, 0), (3.4, 3), (3.6, 4), (99.0, 8)])
def test_the_batch_of_a_moment_is_the_one_reported_nearest_to_it(after: float, number: int) -> None:
    assert batches.nearest(NORMAL, NOW + after)["batch_id"] == number


def test_of_two_reports_of_one_time_the_slower_is_the_batch_of_the_moment() -> None:
    again = batch(3, 7.0)
    assert batches.nearest([*NORMAL, again], NOW + 3) is again


def test_partitions_are_those_of_offsets_like_kafkas() -> None:
    source = {
        "startOffset": {"orders": {"0": 10, "1": 10}},
        "endOffset": {"orders": {"0": 30, "1": 990}},
        "latestOffset": {"orders": {"0": 40, "1": 990}},
    }
    first, second = batches.partitions({"sources": [source, {"startOffset": 3, "endOffset": 4}]})
    assert (first["Partition"], first["Rows"], first["Backlog"]) == ("orders/0", 20, 10)
    assert (second["Rows"], second["Backlog"]) == (980, 0)
    begun = {**source, "startOffset": None, "latestOffset": None}
    assert [row["Rows"] for row in batches.partitions({"sources": [begun]})] == [None, None]


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        ([], "Offsets by partition."),
        ([5, 6, 5], "3 partitions with rows spread evenly."),
        ([980, 10, 10], "Skewed: one of 3 partitions has 98% of the rows."),
    ],
)
def test_skew_is_a_partition_with_twice_its_share(counts: list[int], sentence: str) -> None:
    assert batches.skew(counts) == sentence
