"""Which offsets count rows, and what is said of those that do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings

from controlplane.health.context import context_at
from controlplane.health.judge import judge, lag_unknown
from controlplane.health.lag import lag_batches, total_arrival_rate
from controlplane.health.offset_units import RecentProgress, lag_rows, reads_per_batch, row_sources
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import ProgressSample, QueryStatus, QueryView, SourceSample
from tests.unit.controlplane.situations import NOW, Offsets, sample, source, view
from tests.unit.controlplane.wild_views import views_

RATE_OF_5 = "RateStreamV2[rowsPerSecond=5, rampUpTimeSeconds=0, numPartitions=default]"
KAFKA, RATE, DELTA = "KafkaV2[Subscribe[orders]]", "RateStreamV2[rowsPerSecond=5]", "DeltaSource[file:/t]"


def reports(
    description: str, batches: Sequence[tuple[Offsets, Offsets, int]], behind: float = 0.0
) -> tuple[ProgressSample, ...]:
    """One batch for each (start, end, rows), ten seconds apart; the latest offset is `behind` after the end."""
    made = []
    for number, (start, end, rows) in enumerate(batches):
        latest = {part: offset + behind for part, offset in (end or {}).items()}
        read = SourceSample(description, start, end, latest, rows)
        made.append(sample(number, NOW - 5 - 10 * (len(batches) - 1 - number), [read]))
    return tuple(made)


def advancing(step: float, rows: Sequence[int], part: str = "offset") -> list[tuple[Offsets, Offsets, int]]:
    return [({part: n * step}, {part: (n + 1) * step}, count) for n, count in enumerate(rows)]


@settings(max_examples=30, deadline=None)
@given(views_)
def test_what_is_derived_once_is_what_every_reader_would_derive(strange: QueryView) -> None:
    recent = replace(strange, progress=RecentProgress(strange.progress))
    assert row_sources(recent.progress) == row_sources(strange.progress)
    contexts = [context_at(each, NOW, DEFAULTS) for each in (recent, strange)]
    assert [*contexts[0].batches] == [*contexts[1].batches]
    assert judge(recent, NOW) == judge(strange, NOW)


@pytest.mark.parametrize(
    ("description", "batches", "counts"),
    [
        (KAFKA, [(None, {"orders/0": 5}, 0)], True),
        (KAFKA, advancing(10, [9, 9, 9], "orders/0"), True),  # markers of transactions
        ("KafkaSourceV1[Subscribe[orders]]", advancing(1, [1]), True),
        (RATE, advancing(1, [5, 5, 5, 5]), False),  # seconds
        (RATE, advancing(1, [1, 1, 1]), True),  # a row a second: the same figure
        ("Custom", advancing(7, [7, 7]), False),  # too few batches
        ("Custom", advancing(7, [7, 7, 7]), True),
        ("Custom", advancing(7, [9, 7, 7, 7]), True),  # only the last ones count
        ("Custom", advancing(7, [7, 7, 7, 9]), False),
        ("Custom", [*advancing(7, [7, 7, 7]), ({"offset": 21}, {"offset": 21}, 0)], True),  # nothing read
        (
            DELTA,
            [({"version": n, "index": -1}, {"version": n + 1, "index": -1}, 400) for n in range(5)],
            False,
        ),
        ("MyReader", [(None, {"topic/0": 5}, 5)], True),  # Kafka's form
        ("MyReader", advancing(10, [20, 20, 20], "topic/0"), True),  # read twice
        ("MyReader", advancing(1000, [5, 5, 5], "topic/0"), False),  # milliseconds
        ("Custom", [({"a": float("nan")}, {"a": 1.0}, 1)] * 4, False),
        ("Custom", [({"a": 1}, {"b": 2}, 1)] * 4, False),
    ],
)
def test_offsets_count_rows_where_that_is_known_or_several_batches_agree(
    description: str, batches: list[tuple[Offsets, Offsets, int]], counts: bool
) -> None:
    made = reports(description, batches, behind=3)
    counting = row_sources(made)
    assert bool(counting) is counts
    assert lag_rows(made[-1], counting) == (3.0 * len(batches[-1][1] or ()) if counts else None)


def test_a_query_without_batches_or_sources_counts_nothing() -> None:
    assert row_sources(()) == row_sources([sample(1, NOW)]) == frozenset()
    assert lag_batches(()) is None
    assert reads_per_batch(()) is None


def test_seconds_are_never_an_arrival_rate_in_rows() -> None:
    made = reports(RATE, advancing(1, [5] * 12))
    assert total_arrival_rate(made, row_sources(made)) is None
    kafka = reports(KAFKA, advancing(50, [50] * 12, "orders/0"))
    assert total_arrival_rate(kafka, row_sources(kafka)) == 5.0


def test_a_backlog_of_offsets_is_given_in_batches() -> None:
    batches = [({"version": 3 * n}, {"version": 3 * n + 3}, 400) for n in range(12)]
    made = tuple(
        sample(
            n,
            NOW - 5 - 10 * (11 - n),
            [source(start, end, {"version": 90.0}, description=DELTA, input_rows=400)],
        )
        for n, (start, end, _) in enumerate(batches)
    )
    found = view(progress=made)
    assert lag_batches(made) == 18.0
    assert judge(found, NOW).reason.startswith("Running: backlog 54 offsets, about 18 batches (not growing")
    assert lag_unknown(context_at(found, NOW, DEFAULTS)) == "the source's offsets do not count rows"


@pytest.mark.parametrize(
    ("lags", "status", "text"),
    [
        (range(20, 140, 10), QueryStatus.LAGGING, "backlog grew from 40 to 130 offsets in"),
        ([100] * 12, QueryStatus.LAGGING, "backlog has stayed at 100 offsets for"),
    ],
)
def test_a_growing_backlog_of_offsets_is_not_called_rows(
    lags: Sequence[float], status: QueryStatus, text: str
) -> None:
    made = tuple(
        sample(
            n,
            NOW - 5 - 10 * (11 - n),
            [source({"v": n}, {"v": n + 1}, {"v": n + 1 + lag}, description=DELTA, input_rows=400)],
        )
        for n, lag in enumerate(lags)
    )
    found = judge(view(progress=made), NOW)
    assert found.status is status
    assert text in found.reason
    assert " rows" not in found.reason


def test_a_source_of_offsets_that_stalls_is_stuck_on_offsets() -> None:
    waiting = [source({"v": 5}, {"v": 5}, {"v": 17.0}, description=DELTA, input_rows=0)]
    made = tuple(sample(n, NOW - 5 - 10 * (11 - n), waiting) for n in range(12))
    found = judge(view(progress=made), NOW)
    assert found.status is QueryStatus.STUCK
    assert "although 12 offsets are waiting" in found.reason


def test_after_a_repeated_batch_the_next_one_reports_the_latest_offset() -> None:
    before = reports(KAFKA, advancing(10, [10] * 5, "orders/0"))
    again = source({"orders/0": 50}, {"orders/0": 60}, None, description=KAFKA)
    repeated = sample(5, NOW - 2, [again], run_id="run-1")
    earlier = tuple(sample(s.batch_id, s.at, s.sources, run_id="run-0") for s in before)
    found = view(progress=(*earlier, repeated))
    assert judge(found, NOW).reason.startswith(
        "Running. Backlog unknown: batch 5 repeats a planned batch; the next one reports the latest offset. Batch 5"
    )
    alone = view(progress=(repeated,))
    assert "the source does not report a latest offset" in judge(alone, NOW).reason


@pytest.mark.parametrize(
    ("description", "rows", "times"),
    [
        (KAFKA, [20, 20, 20], 2),
        (KAFKA, [10, 30, 30, 30], 3),
        (KAFKA, [20, 20], None),  # too few
        (KAFKA, [20, 10, 20], None),  # a retried task, not a habit
        (KAFKA, [10, 10, 10], None),
        (KAFKA, [15, 15, 15], None),
        ("Custom", [20, 20, 20], None),  # its offsets may count anything
        (RATE_OF_5, [100, 100, 100], 2),
        (RATE_OF_5, [50, 50, 50], None),
        (RATE_OF_5.replace("rampUpTimeSeconds=0", "rampUpTimeSeconds=60"), [100, 100, 100], None),
    ],
)
def test_a_source_that_each_batch_reads_twice_is_found(
    description: str, rows: list[int], times: int | None
) -> None:
    assert reads_per_batch(reports(description, advancing(10, rows, "orders/0"))) == times
