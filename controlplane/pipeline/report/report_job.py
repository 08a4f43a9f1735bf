"""The report: gathered from the lake by Spark, reckoned in plain functions, shown as one HTML file and as JSON.

Called by `controlplane history report`. Spark reduces every table to a row a query and day, or a run; what comes to
the driver is small however long the past is.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from controlplane.lake.lake import Lake
from controlplane.lake.schema import spark_ddl
from controlplane.pipeline.report.report_stats import Json, ReportRequest, ReportTables, compute_report

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

DAY_COLUMNS = (
    "app query query_id bucket_at batches input_rows busy_seconds starts failures downtime_seconds slo_batches "
    "slo_good lag_seconds_p95 lag_seconds_max lag_rows_p95 lag_rows_max state_rows_max state_bytes_max"
).split()
ALERT_COLUMNS = "name severity query_id fingerprint fired_at resolved_at notified".split()


def build_report(spark: SparkSession, lake: Lake, wish: ReportRequest, made_at: datetime) -> Json:
    """The report on what the lake holds."""
    days = _select(_frame(spark, lake, "rollup_1d", wish), "bucket_at", wish).select(*DAY_COLUMNS)
    alerts = _select(_frame(spark, lake, "alerts", wish), "fired_at", wish).select(*ALERT_COLUMNS)
    actions = _select(_frame(spark, lake, "actions", wish), "requested_at", wish).select("action", "state")
    tables = ReportTables(
        days.toPandas(),
        _hours(_select(_frame(spark, lake, "rollup_1h", wish), "bucket_at", wish)).toPandas(),
        _runs(_frame(spark, lake, "progress", wish), _frame(spark, lake, "lifecycle", wish), wish).toPandas(),
        alerts.toPandas(),
        actions.toPandas(),
    )
    return compute_report(tables, wish, made_at)


def _frame(spark: SparkSession, lake: Lake, table: str, wish: ReportRequest) -> DataFrame:
    """Rows of a table on the days of the report."""
    last = (wish.until - timedelta(microseconds=1)).date()
    paths = lake.paths(table, wish.since.date(), last)
    if not paths:
        return spark.createDataFrame([], spark_ddl(table))
    return spark.read.schema(spark_ddl(table)).parquet(*paths)


def _select(rows: DataFrame, at: str, wish: ReportRequest, query: str = "query") -> DataFrame:
    from pyspark.sql import functions as f

    kept: Column = (f.col(at) >= f.lit(wish.since)) & (f.col(at) < f.lit(wish.until))
    if wish.app is not None:
        kept = kept & (f.col("app") == f.lit(wish.app))
    if wish.queries:
        kept = kept & (f.col(query).isin(*wish.queries) | f.col("query_id").isin(*wish.queries))
    return rows.filter(kept)


def _hours(rows: DataFrame) -> DataFrame:
    """A row a query: how much of its hours was busy."""
    from pyspark.sql import functions as f

    busy = f.col("busy_seconds") / 3600
    return rows.groupBy("app", "query").agg(
        f.percentile(busy, f.lit(0.5)).alias("busy_p50"),
        f.percentile(busy, f.lit(0.95)).alias("busy_p95"),
        f.percentile("input_rows_per_second_p90", f.lit(0.5)).alias("input_p90"),
        f.percentile("processed_rows_per_second_p50", f.lit(0.5)).alias("processed_p50"),
    )


def _runs(progress: DataFrame, lifecycle: DataFrame, wish: ReportRequest) -> DataFrame:
    """A row a run: its first and last batch, the rows of the first, the seconds from start to first report."""
    from pyspark.sql import functions as f

    named = progress.withColumn("query", f.coalesce("name", f.substring("query_id", 1, 8)))
    runs = (
        _select(named, "trigger_at", wish)
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
