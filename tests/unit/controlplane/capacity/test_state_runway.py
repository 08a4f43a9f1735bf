"""When the state reaches its limit, and where that is not claimed."""

from __future__ import annotations

import random

import pytest

from controlplane.capacity.model import StateLimit, StateRunway
from controlplane.capacity.state_runway import SST_BYTES, amount, state_runways
from controlplane.model import OperatorSample, ProgressSample
from tests.unit.controlplane.situations import NOW, sample

EVERY = 30.0


def holding(rows: float, memory: int = 0, **metrics: float) -> OperatorSample:
    return OperatorSample("stateStoreSave", int(rows), 1, 0, 0, memory, 5, 4, metrics)


def history(sizes: list[float], **metrics: float) -> list[ProgressSample]:
    last = len(sizes) - 1
    made = ((NOW - EVERY * (last - n), holding(size, **metrics)) for n, size in enumerate(sizes))
    return [sample(n, at, operators=(operator,)) for n, (at, operator) in enumerate(made)]


def rows_of(sizes: list[float], limit: float | None = 10_000) -> StateRunway:
    limits = [] if limit is None else [StateLimit("rows", limit, "label state_limit_rows")]
    return next(found for found in state_runways(history(sizes), limits) if found.unit == "rows")


def test_steady_growth_reaches_its_limit_when_it_does() -> None:
    """2 rows a second from 0 in 20 min: 2 340 rows, and 7 660 more in 3 830 s."""
    found = rows_of([60.0 * n for n in range(40)])
    assert found.earliest == pytest.approx(3830, rel=0.01)
    assert found.latest == pytest.approx(3830, rel=0.01)
    assert "reaches its limit of 10,000 rows (label state_limit_rows) in 1 h 4 min" in found.sentence


def test_noisy_growth_reaches_its_limit_within_the_interval() -> None:
    rng = random.Random(7)
    found = rows_of([60.0 * n + rng.uniform(0, 120) for n in range(60)])
    assert found.earliest < (10_000 - 60 * 60) / 2 < found.latest


@pytest.mark.parametrize(
    "sizes", [[500.0] * 60, [float(n % 20) * 100 for n in range(60)]], ids=["constant", "evicted"]
)
def test_no_trend_is_stated_as_such(sizes: list[float]) -> None:
    found = rows_of(sizes)
    assert (found.growth, found.earliest) == (None, None)
    assert found.sentence.startswith("No trend: over 29 min 30 s the state had")


def test_few_reports_show_no_trend() -> None:
    found = rows_of([60.0 * n for n in range(8)])
    assert found.earliest is None
    assert "12 reports over 2 min are needed" in found.sentence


def test_a_limit_well_beyond_what_was_observed_is_not_predicted() -> None:
    found = rows_of([60.0 * n for n in range(40)], limit=1e9)
    assert (found.earliest, found.latest) == (None, None)
    assert "is more than 6 h 30 min away" in found.sentence


def test_a_limit_that_is_reached_is_stated() -> None:
    assert "has reached its limit" in rows_of([12_000.0] * 40).sentence


def test_growth_without_a_limit_names_the_label() -> None:
    found = rows_of([60.0 * n for n in range(40)], limit=None)
    assert found.growth.value == pytest.approx(2)
    assert "No limit is stated: set the label state_limit_rows" in found.sentence


def test_the_lowest_limit_counts() -> None:
    limits = [
        StateLimit("rows", 5e4, "label"),
        StateLimit("rows", 1e4, "setting"),
        StateLimit("rows", 2e4, "x"),
    ]
    found = state_runways(history([60.0 * n for n in range(40)]), limits)
    assert found[0].limit.origin == "setting"


def test_bytes_of_rocksdb_are_those_of_its_files() -> None:
    seen = history([10.0] * 12, memory=50, **{SST_BYTES: 7000.0})
    assert [(found.unit, found.size) for found in state_runways(seen, [])] == [("rows", 10), ("bytes", 7000)]


def test_rows_that_rocksdb_does_not_count_are_unknown() -> None:
    seen = history([0.0] * 12, memory=50)
    assert [found.unit for found in state_runways(seen, [])] == ["bytes"]
    assert "not reported" in state_runways(seen, [StateLimit("rows", 5, "label")])[0].sentence


def test_a_query_without_state_has_no_runway() -> None:
    assert state_runways([sample(n, NOW) for n in range(20)], []) == []


def test_amounts_have_their_unit() -> None:
    shown = [amount(1234, "rows"), amount(0.5, "rows"), amount(3.4e9, "bytes"), amount(12, "bytes")]
    assert shown == ["1,234 rows", "0.5 rows", "3.4 GB", "12 B"]
