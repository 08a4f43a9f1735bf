"""Baselines by Spark against the same in pandas, and when nothing is learned."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from controlplane.lake.schema import TABLES, arrow_schema, spark_ddl
from controlplane.pipeline.rollup.baselines import METRICS, compute_baselines

pytestmark = pytest.mark.spark
END = date(2026, 3, 30)  # a Monday
MADE = datetime(2026, 3, 30, 4, tzinfo=UTC)
Row = dict[str, Any]


def hour(at: datetime, query: str = "orders", query_id: str = "q1", batches: int = 360, **more: Any) -> Row:
    return {"app": "shop", "query": query, "query_id": query_id, "bucket_at": at, "batches": batches, **more}


def rates(value: float) -> Row:
    return {
        "input_rows": int(value * 3600 * 2),
        **{f"input_rows_per_second_{q}": value * n for q, n in (("p10", 0.5), ("p50", 1.0), ("p90", 1.5))},
    }


def typical(spark: Any, rows: list[Row], weeks: int = 4) -> dict[tuple[Any, ...], Row]:
    names = TABLES["rollup_1h"].names
    table = pa.table(
        {name: [row.get(name) for row in rows] for name in names}, schema=arrow_schema("rollup_1h")
    )
    found = compute_baselines(spark.createDataFrame(table, spark_ddl("rollup_1h")), END, MADE, weeks)
    assert found.columns == list(TABLES["baselines"].names)
    reported = [row.asDict() for row in found.collect()]
    return {(row["query"], row["metric"], row["hour_of_week"], row["quantile"]): row for row in reported}


def weeks_ago(weeks: int, hours: int = 0) -> datetime:
    return (
        datetime(END.year, END.month, END.day, tzinfo=UTC) - timedelta(weeks=weeks) + timedelta(hours=hours)
    )


def invented(seed: int) -> list[Row]:
    """Five weeks of hours with gaps, little data, unknown figures and a query that changes its checkpoint."""
    rng, rows = random.Random(seed), []
    columns = [f"{item}_{q}" for item in METRICS.values() for q in ("p10", "p50", "p90")]
    for query in ("orders", "clicks", "rare"):
        for place in range(5 * 168):
            if rng.random() < 0.3:
                continue
            known = {name: rng.choice([None, rng.uniform(0, 1000)]) for name in columns}
            query_id = f"{query} {'old' if place < 400 else 'new'}"
            batches = rng.randrange(20 if query == "rare" else 400)
            more = {"input_rows": rng.randrange(4_000_000), **known}
            rows.append(hour(weeks_ago(5, place), query, query_id, batches, **more))
    rng.shuffle(rows)
    return rows


def by_pandas(rows: list[Row]) -> dict[tuple[Any, ...], tuple[float, int, int]]:
    frame = pd.DataFrame(rows)
    frame = frame[frame["bucket_at"] >= weeks_ago(4)].copy()
    frame["hour"] = frame["bucket_at"].dt.dayofweek * 24 + frame["bucket_at"].dt.hour
    frame["week"] = frame["bucket_at"].dt.isocalendar().week
    found = {}
    for (query, number), part in frame.groupby(["query", "hour"]):
        for metric, column in METRICS.items():
            known = part[part[f"{column}_p50"].notna()]
            weeks, samples = known["week"].nunique(), int(known["batches"].sum())
            for quantile, name in ((0.1, "p10"), (0.5, "p50"), (0.9, "p90")):
                values = part[f"{column}_{name}"].astype(float)
                if metric == "input_rows_per_second":
                    values = values.where(~(values > part["input_rows"] / 3600), part["input_rows"] / 3600)
                if weeks >= 3 and samples >= 30 and values.notna().any():
                    found[query, metric, number, quantile] = (values.median(), weeks, samples)
    return found


def test_baselines_are_what_pandas_states(spark: Any) -> None:
    rows = invented(7)
    ours, theirs = typical(spark, rows), by_pandas(rows)
    assert set(ours) == set(theirs) and len(ours) > 500
    for key, (value, weeks, samples) in theirs.items():
        item = ours[key]
        assert item["value"] == pytest.approx(value) and (item["weeks"], item["samples"]) == (weeks, samples)
        assert item["query_id"] == f"{key[0]} new" and item["made_at"].astimezone(UTC) == MADE


def test_a_query_with_a_new_checkpoint_has_its_baselines_under_one_id(spark: Any) -> None:
    rows = [
        hour(weeks_ago(weeks, place), query_id="new" if (weeks, place) == (1, 12) else "old", **rates(100))
        for weeks in (1, 2, 3)
        for place in (9, 12, 15)
    ]
    found = typical(spark, rows)
    assert {row["query_id"] for row in found.values()} == {"old"}
    rows = [{**row, "query_id": "new" if row["bucket_at"] >= weeks_ago(1, 12) else "old"} for row in rows]
    found = typical(spark, rows)
    assert {row["query_id"] for row in found.values()} == {"new"} and len(found) == 9


def test_one_odd_week_decides_nothing(spark: Any) -> None:
    rows = [hour(weeks_ago(n, 9), **rates(value)) for n, value in ((4, 100), (3, 110), (2, 90_000), (1, 105))]
    found = typical(spark, rows)
    assert found["orders", "input_rows_per_second", 9, 0.5]["value"] == pytest.approx(107.5)


TOO_LITTLE = {
    "two weeks": [(4, 360), (1, 360)],
    "few batches": [(4, 9), (3, 9), (2, 9)],
    "a week that is too long ago": [(5, 360), (4, 360), (3, 360)],
}


@pytest.mark.long
@pytest.mark.parametrize("case", TOO_LITTLE)
def test_of_too_little_nothing_is_learned(spark: Any, case: str) -> None:
    rows = [hour(weeks_ago(n, 9), batches=batches, **rates(100)) for n, batches in TOO_LITTLE[case]]
    assert typical(spark, rows) == {}


def test_a_source_that_writes_now_and_then_is_not_usually_as_fast_as_its_batches(spark: Any) -> None:
    burst = {**rates(1000), "input_rows": 3600}
    found = typical(spark, [hour(weeks_ago(n, 9), **burst) for n in (1, 2, 3)])
    assert found["orders", "input_rows_per_second", 9, 0.5]["value"] == pytest.approx(1.0)
