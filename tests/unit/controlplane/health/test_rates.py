"""Rates that Spark rounds to one decimal, and the others."""

from __future__ import annotations

import pytest

from controlplane.health.rates import input_rate, processing_rate, source_rates
from controlplane.model import ProgressSample
from tests.unit.controlplane.situations import NOW, sample


def batch(
    batch_id: int, at: float, rows: int, rate: float | None = None, **changes: object
) -> ProgressSample:
    """A batch of 2 s whose trigger began at `at`; `rate`: both of Spark's rates."""
    values = {"trigger_at": at, "duration": 2.0, "input_rows": rows, **changes}
    return sample(batch_id, at + 2, input_rows_per_second=rate, processed_rows_per_second=rate, **values)


@pytest.mark.parametrize("reported", [None, 0.0, 0.1])  # Spark's 0.0 with rows is unknown to the parser
def test_a_rate_below_one_decimal_comes_from_rows_and_times(reported: float | None) -> None:
    pair = batch(4, NOW, 1), batch(5, NOW + 20, 1, reported)
    assert (input_rate(pair), processing_rate(pair[-1])) == (0.05, 0.5)


@pytest.mark.parametrize("reported", [1.0, 250.0])
def test_any_other_rate_is_spark_s(reported: float) -> None:
    pair = batch(4, NOW, 1), batch(5, NOW + 20, 1, reported)
    assert (input_rate(pair), processing_rate(pair[-1])) == (reported, reported)


@pytest.mark.parametrize(
    "before",
    [
        batch(4, NOW, 1, run_id="another"),
        batch(3, NOW, 1),  # the report of batch 4 is missing
        batch(4, NOW + 20, 1),
    ],
)
def test_without_the_trigger_before_the_rate_is_spark_s(before: ProgressSample) -> None:
    assert input_rate((before, batch(5, NOW + 20, 1, 0.1))) == 0.1
    assert input_rate((batch(5, NOW + 20, 1),)) is None


def test_a_batch_without_rows_or_duration_has_spark_s_rates() -> None:
    empty = batch(5, NOW + 20, 0, 0.0)
    assert (input_rate((batch(4, NOW, 1), empty)), processing_rate(empty)) == (0.0, 0.0)
    assert processing_rate(batch(5, NOW, 1, 0.1, duration=0.0)) == 0.1
    assert input_rate(()) is None


def test_a_source_has_its_share_of_a_low_rate_and_spark_s_of_any_other() -> None:
    pair = batch(4, NOW, 1), batch(5, NOW + 20, 2, 0.2)
    assert source_rates(pair, 1, 0.1, 0.1) == {
        "input_rows_per_second": 0.05,
        "processed_rows_per_second": 0.5,
    }
    high = batch(4, NOW, 1), batch(5, NOW + 20, 200, 10.0)
    spark_s = {"input_rows_per_second": 9.0, "processed_rows_per_second": 8.0}
    assert source_rates(high, 150, 9.0, 8.0) == spark_s
    assert source_rates((), 150, 9.0, 8.0) == source_rates(pair, None, 9.0, 8.0) == spark_s
