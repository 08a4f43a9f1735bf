"""What a query reads a second time, from its last batches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.health.judge import judge
from controlplane.metrics.samples import query_samples
from controlplane.model import ProgressSample
from tests.unit.controlplane.situations import NOW, batches, run, sample, source, view

NAMES = frozenset({"spark_streaming_rewound_batches", "spark_streaming_source_rewound_rows"})
ENDS = {"orders/0": 1000.0, "orders/1": 500.0}


def rewound(*progress: ProgressSample) -> tuple[float | None, float | None]:
    """Rows and batches; None where the metric is absent."""
    item = view(progress=progress, run=run(run_id=progress[-1].run_id))
    found = {fact.metric.name: fact.value for fact in query_samples(item, judge(item, NOW), NOW, {}, NAMES)}
    return found.get("spark_streaming_source_rewound_rows"), found.get("spark_streaming_rewound_batches")


def batch(batch_id: int, at: float, begin: dict[str, float] | None, run_id: str = "run-1") -> ProgressSample:
    end = {part: offset + 10 for part, offset in (begin or ENDS).items()}
    return sample(batch_id, at, [source(begin, end, end)], run_id=run_id)


BEFORE = batch(7, NOW - 60, {part: end - 10 for part, end in ENDS.items()})


def test_batches_that_follow_each_other_read_nothing_again() -> None:
    assert rewound(*batches([0] * 12)) == (None, None)
    assert rewound(BEFORE, batch(8, NOW - 5, ENDS, "run-2")) == (None, None)


@pytest.mark.parametrize("run_id", ["run-1", "run-2"])
def test_rows_before_the_end_of_the_last_batch_are_read_again(run_id: str) -> None:
    """A topic of which one partition was created anew; the other one goes on. Within a run, and by the next."""
    assert rewound(BEFORE, batch(8, NOW - 5, {"orders/0": 0.0, "orders/1": 500.0}, run_id)) == (1000, None)


def test_a_lower_batch_id_is_seen_without_offsets() -> None:
    assert rewound(BEFORE, batch(3, NOW - 5, None, "run-2")) == (None, 4)


def test_a_step_back_is_reported_for_half_a_minute_of_short_batches_and_until_the_next_long_one() -> None:
    back = batch(8, NOW - 40, {"orders/0": 0.0, "orders/1": 500.0})
    later = [replace(back, batch_id=8 + n, at=NOW - 40 + n, sources=()) for n in range(1, 32)]
    assert rewound(BEFORE, back) == (1000, None)
    next_start = {part: offset + 10 for part, offset in (("orders/0", 0.0), ("orders/1", 500.0))}
    soon, after = batch(9, NOW - 15, next_start), batch(9, NOW - 5, next_start)
    assert rewound(BEFORE, back, soon) == (1000, None)
    assert rewound(BEFORE, back, after) == (None, None)
    assert rewound(BEFORE, back, *later) == (None, None)


def test_other_sources_and_other_units_are_not_compared() -> None:
    other = replace(BEFORE.sources[0], description="KafkaV2[Subscribe[clicks]]")
    assert rewound(replace(BEFORE, sources=(other,)), batch(8, NOW - 5, {"orders/0": 0.0})) == (None, None)
    table = {"description": "DeltaSource[file:/t]", "latest": None}
    versions = [
        replace(item, sources=(replace(item.sources[0], **table, start={"index": n}, end={"index": 9.0}),))
        for item, n in ((BEFORE, -1.0), (batch(8, NOW - 5, ENDS), -1.0))
    ]
    assert rewound(*versions) == (None, None)


def test_reports_of_an_older_run_that_arrive_later_are_no_step_back() -> None:
    """Clocks of two hosts: the last report of the old run has a later time than the first of the new one."""
    new = batch(8, NOW - 6, ENDS, "run-2")
    item = view(progress=(BEFORE, new, replace(BEFORE, at=NOW - 5)), run=run(run_id="run-2"))
    found = list(query_samples(item, judge(item, NOW), NOW, {}, NAMES))
    assert found == []
