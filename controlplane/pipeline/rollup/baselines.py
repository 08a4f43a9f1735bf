"""Baselines: quantiles of a query's figures for each hour of the week, from hourly rollups. DataFrame in,
DataFrame out.

Called by `controlplane.pipeline.rollup.baseline_job`. An hour of the week occurs once a week, and its rollup
has that week's quantiles; the baseline is their median over the weeks, so that no single unusual day decides.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from controlplane.lake.schema import TABLES

WEEKS = 4
#: Minimum of weeks, and of batches in all of them.
MIN_WEEKS, MIN_BATCHES = 3, 30
QUANTILES = {0.1: "p10", 0.5: "p50", 0.9: "p90"}
#: Metric name without its prefix → rollup columns without the quantile.
METRICS = {
    "input_rows_per_second": "input_rows_per_second",
    "batch_duration_seconds": "duration_seconds",
    "source_lag_rows": "lag_rows",
    "state_rows": "state_rows",
}
HOUR_SECONDS, DAY_SECONDS, WEEK_SECONDS = 3600, 86400, 7 * 86400
#: The first Monday of 1970, which began on a Thursday.
FIRST_MONDAY_SECONDS = 4 * DAY_SECONDS


def compute_baselines(hours: DataFrame, end: date, made_at: datetime, weeks: int = WEEKS) -> DataFrame:
    """Rows of the table `baselines` from rows of `rollup_1h`.

    `end`: the day after the last one, UTC; `weeks`: weeks before it. A query is identified by application and
    name, so one with a new checkpoint continues its history.
    """
    last = datetime(end.year, end.month, end.day, tzinfo=UTC)
    first, at = last - timedelta(weeks=weeks), F.unix_seconds("bucket_at")
    chosen = hours.where((F.col("bucket_at") >= F.lit(first)) & (F.col("bucket_at") < F.lit(last))).select(
        "*",
        F.floor((at - int(first.timestamp())) / WEEK_SECONDS).alias("week"),
        (F.floor((at - FIRST_MONDAY_SECONDS) / HOUR_SECONDS) % (WEEK_SECONDS // HOUR_SECONDS))
        .cast("int")
        .alias("hour_of_week"),
    )
    aggregated = chosen.groupBy("app", "query", "hour_of_week").agg(
        F.max(F.struct("bucket_at", "query_id")).alias("last"),
        *(item for metric, column in METRICS.items() for item in _quantile_columns(metric, column)),
    )
    # The newest id over all hours, including hours that have not recurred since the new checkpoint.
    newest = F.max("last").over(Window.partitionBy("app", "query"))["query_id"].alias("query_id")
    rows = aggregated.select(
        "app", "query", newest, "hour_of_week", F.explode(_baseline_entries()).alias("one")
    )
    made = rows.select("app", "query", "query_id", "hour_of_week", "one.*", F.lit(made_at).alias("made_at"))
    return made.where("value IS NOT NULL").select(*TABLES["baselines"].names)


def _quantile_columns(metric: str, column: str) -> list[Column]:
    known = F.col(f"{column}_p50").isNotNull()
    quantiles = [
        F.median(_capped(f"{column}_{name}")).alias(f"{metric}_{name}") for name in QUANTILES.values()
    ]
    return [
        *quantiles,
        F.size(F.collect_set(F.when(known, F.col("week")))).alias(f"{metric}_weeks"),
        F.sum(F.when(known, F.col("batches"))).alias(f"{metric}_samples"),
    ]


def _capped(column: str) -> Column:
    """Batch rates ignore the time between batches: cap them at the rate of the whole hour."""
    if column.startswith("input_rows_per_second"):
        return F.when(F.col(column).isNotNull(), F.least(F.col(column), F.col("input_rows") / HOUR_SECONDS))
    return F.col(column)


def _baseline_entries() -> Column:
    """One entry per metric and quantile; the value is null where there is too little data."""
    entries = []
    for metric in METRICS:
        weeks, samples = F.col(f"{metric}_weeks"), F.col(f"{metric}_samples")
        enough = (weeks >= MIN_WEEKS) & (samples >= MIN_BATCHES)
        entries += [
            F.struct(
                F.lit(metric).alias("metric"),
                F.lit(quantile).alias("quantile"),
                F.when(enough, F.col(f"{metric}_{name}")).alias("value"),
                weeks.cast("int").alias("weeks"),
                samples.cast("bigint").alias("samples"),
            )
            for quantile, name in QUANTILES.items()
        ]
    return F.array(*entries)
