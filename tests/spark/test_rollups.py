"""Rollups by Spark against the same in pandas: figures of every bucket, of all widths."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from controlplane.lake.schema import TABLES, arrow_schema, spark_ddl
from controlplane.pipeline.rollup import buckets
from controlplane.pipeline.rollup.rollups import RawTables, compute_rollups
from tests.spark import peer_rollups as peer

pytestmark = pytest.mark.spark
FIRST = date(2026, 3, 28)  # the clocks of Europe go forward on the 29th; days are UTC's


def frame(spark: Any, table: str, rows: list[peer.Row]) -> Any:
    names = TABLES[table].names
    columns = {name: [row.get(name) for row in rows] for name in names}
    return spark.createDataFrame(pa.table(columns, schema=arrow_schema(table)), spark_ddl(table))


def raw(spark: Any, lake: peer.Lake) -> RawTables:
    return RawTables(
        frame(spark, "progress", lake.progress),
        frame(spark, "sources", lake.sources),
        frame(spark, "lifecycle", lake.lifecycle),
    )


def as_pandas(rows: Any) -> pd.DataFrame:
    """In the order of query and bucket, `bucket_at` as an aware time."""
    columns = rows.columns
    found = [row.asDict() for row in rows.collect()]
    for row in found:
        row["bucket_at"] = row["bucket_at"].astimezone(UTC)
    found.sort(key=lambda row: (row["query_id"], row["bucket_at"]))
    return pd.DataFrame(found, columns=columns)


def same(ours: pd.DataFrame, theirs: pd.DataFrame, table: str) -> None:
    names = list(TABLES[table].names)
    assert len(ours) == len(theirs)
    for name in names:
        mine, other = ours[name], theirs[name]
        if name in ("app", "query", "query_id", "bucket_at"):
            assert mine.tolist() == other.tolist(), name
        else:
            pd.testing.assert_series_equal(
                pd.to_numeric(mine).astype(float),
                pd.to_numeric(other).astype(float),
                check_names=False,
                rtol=1e-9,
                obj=f"{table}.{name}",
            )


SIZES = {
    "three queries": (1, 3),
    "six queries": (1, 6),
    "six others": (2, 6),
}
LONG = ("six queries", "six others")


@pytest.fixture(
    scope="module",
    params=[pytest.param(item, marks=pytest.mark.long if item in LONG else ()) for item in SIZES],
)
def lake(request: pytest.FixtureRequest) -> peer.Lake:
    seed, queries = SIZES[request.param]
    return peer.invented(seed, FIRST, 3, queries)


def test_every_bucket_of_every_width_equals_that_of_pandas(spark: Any, lake: peer.Lake) -> None:
    days = [FIRST + timedelta(item) for item in range(3)]
    rows = compute_rollups(raw(spark, lake), days, 60.0).cache()
    expected = [peer.rollups(lake, day, 60.0) for day in days]
    for table in buckets.BUCKET_SECONDS:
        theirs = pd.concat([item[table] for item in expected]).sort_values(["query_id", "bucket_at"])
        same(as_pandas(peer.of_width(rows, table)), theirs.reset_index(drop=True), table)
    rows.unpersist()


def test_the_data_have_what_the_test_is_about(lake: peer.Lake) -> None:
    expected = peer.rollups(lake, FIRST + timedelta(1), 60.0)
    minutes, days = expected["rollup_1m"], expected["rollup_1d"]
    assert {"lag_seconds_p50", "state_rows_p50", "output_rows"} <= set(minutes.columns[minutes.notna().any()])
    assert minutes["lag_seconds_p50"].isna().any() and (minutes["lag_seconds_p50"] > 0).any()
    assert (minutes["downtime_seconds"] == 60).any() and (minutes["batches"] == 0).any()
    assert (days["starts"] > 0).any() and (days["failures"] > 0).any()
    assert (days["slo_good"] < days["slo_batches"]).any() and (days["slo_good"] > 0).all()


@pytest.mark.long
def test_days_rolled_up_apart_are_the_days_rolled_up_together(spark: Any) -> None:
    lake = peer.invented(3, FIRST, 3, queries=3)
    both = compute_rollups(raw(spark, lake), [FIRST, FIRST + timedelta(1)], 60.0)
    apart = [compute_rollups(raw(spark, lake), [FIRST + timedelta(item)], 60.0) for item in range(2)]
    reported = lambda rows: sorted(map(repr, rows.collect()))  # noqa: E731
    assert reported(both) == sorted(row for rows in apart for row in reported(rows))


def test_a_query_that_never_ran_shows_its_failed_starts(spark: Any) -> None:
    at = datetime(2026, 3, 28, 12, 30, tzinfo=UTC)
    event = {
        "app": "a",
        "query_id": "0123456789",
        "run_id": None,
        "name": "n",
        "event": "start_failed",
        "reported_at": at,
    }
    lake = peer.Lake(lifecycle=[{**event, "exception": "no"}, {**event, "exception": "no", "agent": "twice"}])
    found = as_pandas(peer.of_width(compute_rollups(raw(spark, lake), [FIRST]), "rollup_1h"))
    assert found[["app", "query", "batches", "starts", "failures"]].values.tolist() == [["a", "n", 0, 0, 1]]


def test_nothing_comes_of_nothing(spark: Any) -> None:
    assert compute_rollups(raw(spark, peer.Lake()), [FIRST]).collect() == []
