"""Build the report: Spark aggregates the lake, plain functions compute the statistics.

Called by `controlplane history report`. Spark reduces every table to a row per query and day, or per run: the
data that reaches the driver is small whatever the range.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from controlplane.lake.lake import Lake
from controlplane.lake.schema import spark_ddl
from controlplane.pipeline.report.report_stats import Json, ReportRequest, ReportTables, compute_report

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame, SparkSession

DAY_COLUMNS = (
    "app query query_id bucket_at batches input_rows busy_seconds starts failures downtime_seconds slo_batches "
    "slo_good lag_seconds_p95 lag_seconds_max lag_rows_p95 lag_rows_max state_rows_max state_bytes_max"
).split()
ALERT_COLUMNS = "name severity query_id fingerprint fired_at resolved_at notified".split()


def build_report(
    spark: SparkSession,
    lake: Lake,
    request: ReportRequest,
    made_at: datetime,
    step: Callable[[str], None] = lambda text: None,
) -> Json:
    """The report on what the lake holds; `step` is called with what is read next."""
    days = _select(_frame(spark, lake, "rollup_1d", request), "bucket_at", request).select(*DAY_COLUMNS)
    alerts = _select(_frame(spark, lake, "alerts", request), "fired_at", request).select(*ALERT_COLUMNS)
    actions = _select(_frame(spark, lake, "actions", request), "requested_at", request).select(
        "action", "state"
    )
    hours = _hours(_select(_frame(spark, lake, "rollup_1h", request), "bucket_at", request))
    runs = _runs(_frame(spark, lake, "progress", request), _frame(spark, lake, "lifecycle", request), request)
    frames = {"days": days, "hours": hours, "runs": runs, "alerts": alerts, "actions": actions}
    found = {name: _collect(name, frame, step) for name, frame in frames.items()}
    step("computing the report")
    return compute_report(ReportTables(**found), request, made_at)


def _collect(name: str, frame: DataFrame, step: Callable[[str], None]) -> pd.DataFrame:
    step(f"reading {name}")
    return frame.toPandas()


def _frame(spark: SparkSession, lake: Lake, table: str, request: ReportRequest) -> DataFrame:
    """Rows of a table on the days of the report."""
    last = (request.until - timedelta(microseconds=1)).date()
    paths = lake.paths(table, request.since.date(), last)
    if not paths:
        return spark.createDataFrame([], spark_ddl(table))
    return spark.read.schema(spark_ddl(table)).parquet(*paths)


def _select(rows: DataFrame, at: str, request: ReportRequest, query: str = "query") -> DataFrame:
    from pyspark.sql import functions as f

    kept: Column = (f.col(at) >= f.lit(request.since)) & (f.col(at) < f.lit(request.until))
    if request.app is not None:
        kept = kept & (f.col("app") == f.lit(request.app))
    if request.queries:
        printed = f.concat_ws("/", "app", query)
        name, query_id = f.col(query), f.col("query_id")
        kept = kept & (
            name.isin(*request.queries) | query_id.isin(*request.queries) | printed.isin(*request.queries)
        )
    return rows.filter(kept)


def _hours(rows: DataFrame) -> DataFrame:
    """One row per query: percentiles of its busy share per hour."""
    from pyspark.sql import functions as f

    busy = f.col("busy_seconds") / 3600
    return rows.groupBy("app", "query").agg(
        f.percentile(busy, f.lit(0.5)).alias("busy_p50"),
        f.percentile(busy, f.lit(0.95)).alias("busy_p95"),
        f.percentile("input_rows_per_second_p90", f.lit(0.5)).alias("input_p90"),
        f.percentile("processed_rows_per_second_p50", f.lit(0.5)).alias("processed_p50"),
    )


def _runs(progress: DataFrame, lifecycle: DataFrame, request: ReportRequest) -> DataFrame:
    """One row per run: first and last batch, rows of the first batch, seconds from start to first report."""
    from pyspark.sql import functions as f

    named = progress.withColumn("query", f.coalesce("name", f.substring("query_id", 1, 8)))
    runs = (
        _select(named, "trigger_at", request)
        .groupBy("run_id")
        .agg(
            f.first("app").alias("app"),
            f.first("query").alias("query"),
            f.first("query_id").alias("query_id"),
            f.min("trigger_at").alias("first_at"),
            f.min("reported_at").alias("reported_at"),
            f.min("batch_id").alias("first_batch"),
            f.max("batch_id").alias("last_batch"),
            f.min_by("input_rows", f.col("trigger_at")).alias("first_rows"),
        )
    )
    starts = (
        lifecycle.filter(f.col("event") == "started")
        .groupBy("run_id")
        .agg(f.min("reported_at").alias("started_at"))
    )
    wait = f.col("reported_at").cast("double") - f.col("started_at").cast("double")
    return (
        runs.join(starts, "run_id", "left")
        .withColumn("first_batch_seconds", wait)
        .drop("started_at", "reported_at")
    )
