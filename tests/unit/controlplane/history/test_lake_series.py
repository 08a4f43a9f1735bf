"""Rows of the lake as series: which table is read, how long a value holds, how counters are counted back."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from alerts.matching.labels import Matcher
from alerts.promql.errors import LimitExceeded
from controlplane.history import federated_series, lake_series
from controlplane.history.archive import Archive
from controlplane.history.federated_series import FederatedSeries, SeriesBackends, plan_days
from controlplane.history.model import ProgressPoint, ProgressRequest, ProgressSeries
from controlplane.history.progress_points import read_progress
from controlplane.lake.lake import Lake
from controlplane.lake.rows import LakeRowBuilder, Producer
from controlplane.lake.schema import arrow_schema
from controlplane.metrics.series.replay import SeriesReplay
from tests.drivers import BEGIN, Driver, report
from tests.stores import StoreHarness, sqlite_harness

PREFIX = "spark_streaming_"
DAY, HOUR = 86400.0, 3600.0
DAYS = [date(2026, 10, day) for day in (1, 2, 3, 4)]


def test_long_stretches_are_read_by_the_hour_and_the_newest_day_from_its_reports() -> None:
    rolled = {"rollup_1m": DAYS[1:3], "rollup_1h": DAYS[:2]}
    month = plan_days(30 * DAY, DAYS, rolled)
    assert (month.rolled, month.raw) == ({"rollup_1h": DAYS[:2], "rollup_1m": DAYS[2:3]}, DAYS[3:])
    few = plan_days(4 * DAY, DAYS, rolled)
    assert (few.rolled, few.raw) == ({"rollup_1m": DAYS[1:3], "rollup_1h": DAYS[:1]}, DAYS[3:])
    assert plan_days(DAY, DAYS, rolled).raw == DAYS
    assert plan_days(30 * DAY, DAYS, rolled, can_be_rolled=False).raw == DAYS
    assert plan_days(DAY, DAYS, rolled, can_be_raw=False).all == DAYS


def raw(*rows: tuple[str, float, float | None]) -> pa.Table:
    times = pa.array([round(at * 1e6) for _, at, _ in rows], pa.int64()).cast(pa.timestamp("us", "UTC"))
    values = pa.array([value for _, _, value in rows], pa.float64())
    return pa.table({"query_id": [query for query, _, _ in rows], "reported_at": times, "lag_rows": values})


LAG = PREFIX + "source_lag_rows"


def test_a_value_holds_until_the_next_the_end_of_its_run_or_for_an_hour() -> None:
    table = raw(("b", 100.0, 7.0), ("a", 50.0, 1.0), ("a", 20.0, None), ("a", 80.0, 2.0))
    spans = lake_series.spans_from_reports(LAG, table, {"b": np.array([40.0, 130.0])})
    times = np.array([10.0, 20.0, 50.0, 79.0, 80.0, 3679.0, 3680.0])
    assert np.array_equal(
        lake_series.gauge_values(spans["a"], times), [np.nan, np.nan, 1, 1, 2, 2, np.nan], equal_nan=True
    )
    assert np.array_equal(
        lake_series.gauge_values(spans["b"], np.array([99.0, 100.0, 129.0, 130.0])),
        [np.nan, 7, 7, np.nan],
        equal_nan=True,
    )


def test_a_counter_is_counted_back_from_what_it_stood_at_when_the_store_began() -> None:
    spans = lake_series.merge_spans(
        [lake_series.spans_from_reports(LAG, raw(("a", 10.0, 5.0), ("a", 20.0, 3.0), ("a", 99.0, 50.0)), {})]
    )
    times = np.array([9.0, 10.0, 19.0, 20.0, 30.0])
    assert lake_series.counter_values(spans["a"], times, 30.0, 108.0).tolist()[1:] == [105, 105, 108, 108]
    assert lake_series.counter_values(spans["a"], times, 30.0, None).tolist()[1:] == [5, 5, 8, 8]


# -- a whole lake ----------------------------------------------------------------------------------

QUERY = "11111111-2222-3333-4444-555555555555"
#: Thirty days before the server learns of the query for the first time.
PAST = datetime(2026, 10, 10, tzinfo=UTC).timestamp()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Days of reports every ten minutes of an import, all but the last rolled up by the hour."""
    made = Lake.open(str(tmp_path / "lake"), create=True)
    days, every = 12, 600.0
    rows = LakeRowBuilder()
    for number in range(int(days * DAY / every)):
        at = PAST + number * every
        rows.progress(Producer("shop", "4.3.0", "log"), report(QUERY, "r", number, at), at + 0.5)
    staging = made.stage("import", "one")
    made.commit(
        staging, [part for name, table in rows.take().items() for part in staging.write(name, table, "0")]
    )
    for day in range(days - 1):
        staging = made.stage("rollup_1h", str(day))
        made.commit(staging, staging.write("rollup_1h", hours(PAST + day * DAY, day), "0"))
    return made


def hours(begin: float, day: int) -> pa.Table:
    values: dict[str, Any] = {
        "app": "shop",
        "query": "orders",
        "query_id": QUERY,
        "batches": 6,
        "input_rows": 60,
        "duration_seconds_p50": 0.5 + day,
        "lag_rows_p50": 2.0,
        "state_rows_last": 7.0,
    }
    rows = [{**values, "bucket_at": round((begin + hour * 3600) * 1e6)} for hour in range(24)]
    return pa.Table.from_pylist(rows, schema=pa.schema([(n, t) for n, t in _types()])).cast(
        arrow_schema("rollup_1h")
    )


def _types() -> list[tuple[str, pa.DataType]]:
    return [
        (f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type) for f in arrow_schema("rollup_1h")
    ]


def source(harness: StoreHarness, lake: Lake, now: float) -> FederatedSeries:
    archive = Archive(str(lake.folder))
    replay = SeriesReplay(harness.engine.connect, harness.window, lambda: now, 15.0)
    parts = SeriesBackends(
        replay.over(archive),
        replay.over(archive, federated_series.COARSE_STEP_SECONDS),
        archive,
        harness.window,
        harness.engine.connect,
        14 * DAY,
    )
    return FederatedSeries(parts, now)


def named(name: str) -> list[Matcher]:
    return [Matcher("__name__", "=", PREFIX + name), Matcher("query_id", "=", QUERY)]


@pytest.fixture
def known(tmp_path: Path, lake: Lake) -> Any:
    """The server learns of the query at BEGIN."""
    with sqlite_harness(tmp_path) as harness:
        harness.now = BEGIN + 100
        driver = Driver()
        harness.accept(driver.started(QUERY, "r2", at=BEGIN))
        for number in range(10):
            harness.accept(driver.progress(QUERY, "r2", 5000 + number, at=BEGIN + 10.0 * number))
        yield harness


def test_rollups_reports_and_the_store_are_one_series(known: StoreHarness, lake: Lake) -> None:
    now = BEGIN + 300.0
    asked = source(known, lake, now)
    [series] = asked.select(named("batch_duration_seconds"), PAST - 10 * DAY, now)
    assert series.labels["query"] == "orders"
    values = dict(zip(series.times.tolist(), series.values.tolist(), strict=True))
    assert values[PAST] == 0.5  # rolled up
    assert values[PAST + 5 * DAY + 7200] == 5.5
    assert values[PAST + 11 * DAY + 7200] == 0.5  # a report of the newest day
    assert series.times[-1] <= now and series.values[-1] == 0.5  # the store's
    assert np.diff(series.times).min() > 0
    gap = series.times[(series.times > PAST + 12 * DAY + 3600) & (series.times < BEGIN)]
    assert not len(gap)
    assert asked.notes == []


def test_what_the_lake_does_not_report_is_stated(known: StoreHarness, lake: Lake) -> None:
    asked = source(known, lake, BEGIN + 300.0)
    assert len(asked.select(named("batch_phase_seconds"), PAST, BEGIN + 300.0)) > 0
    assert "batch_phase_seconds is not available before" in asked.notes[0]


def test_counters_go_on_where_the_lake_left_off(known: StoreHarness, lake: Lake) -> None:
    [series] = source(known, lake, BEGIN + 300.0).select(named("batches_total"), PAST, BEGIN + 300.0)
    held = series.values[~np.isnan(series.values)]
    assert (np.diff(held) >= 0).all()
    assert held[-1] == 10
    assert held[-1] - held[0] == pytest.approx(12 * 144 + 10, abs=16)


def test_more_than_can_be_read_is_refused_with_the_way_out(
    known: StoreHarness, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(federated_series, "MAX_RAW_QUERY_DAYS", 0)
    with pytest.raises(LimitExceeded, match="history rollup"):
        source(known, lake, BEGIN + 300.0).select(named("source_lag_rows"), PAST, BEGIN + 300.0)


def test_points_are_hours_then_reports_and_each_report_is_reported_once(
    known: StoreHarness, lake: Lake
) -> None:
    reported = read_progress(
        known.engine.connect, Archive(str(lake.folder)), ProgressRequest(QUERY, PAST, BEGIN + 300.0, 2000)
    )
    rolled = [point for point in reported.points if isinstance(point, ProgressPoint)]
    assert reported.resolution == 3600.0 and "medians of hours" in reported.notes[0]
    assert len(rolled) == 11 * 24 and {point.run_id for point in rolled} == {""}
    assert len(reported.points) == 11 * 24 + 144 + 10
    assert [point.at for point in reported.points] == sorted(point.at for point in reported.points)
    thinned = read_progress(
        known.engine.connect, Archive(str(lake.folder)), ProgressRequest(QUERY, PAST, BEGIN + 300.0, 50)
    )
    assert len(thinned.points) == 50


def test_points_further_apart_than_buckets_are_medians_of_all_that_lies_between(
    known: StoreHarness, lake: Lake
) -> None:
    def asked(step: float | None, limit: int = 2000) -> ProgressSeries:
        where = ProgressRequest(
            QUERY, PAST, PAST + 12 * DAY - 1, limit, step
        )  # the newest day is reported by its reports
        return read_progress(known.engine.connect, Archive(str(lake.folder)), where)

    daily = asked(DAY)
    days = [point for point in daily.points if isinstance(point, ProgressPoint)]
    assert daily.resolution == DAY and "medians of days" in daily.notes[0]
    assert [point.duration for point in days] == [0.5 + day for day in range(11)]
    assert {(point.input_rows, point.lag_rows, point.state_rows) for point in days} == {(24 * 60, 2.0, 7)}
    assert asked(6 * HOUR).notes[0].count("medians of 6 hours")
    assert asked(None, 60).resolution == 5 * HOUR  # 264 hours, and space for 60 points
    assert len(asked(None, 60).points) <= 60
    assert asked(900.0).resolution == HOUR  # finer than there is
    everything = read_progress(
        known.engine.connect, Archive(str(lake.folder)), ProgressRequest(QUERY, 0.0, PAST * 2, 2000)
    )
    assert everything.resolution == HOUR and len(everything.points) == 11 * 24 + 144 + 10  # all have space
