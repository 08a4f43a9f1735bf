"""Schema of the lake: each table's columns with type, unit and description. docs/lake.md is generated from
it.

`VERSION` increases when a column changes its meaning. A new column does not change it, so readers must accept
older files that lack columns. Times are UTC, in microseconds. Fields of Spark's JSON without a column of
their own go to `extra` as JSON text, so that fields of later Spark versions are not lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import pyarrow as pa

FORMAT, VERSION = "spark-controlplane-lake", 1


class ColumnType(StrEnum):
    """Column types, with their names in Spark's DDL."""

    STRING = "string"
    BIGINT = "bigint"
    INT = "int"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    BIGINT_MAP = "map<string,bigint>"
    STRING_MAP = "map<string,string>"


ARROW_TYPES: dict[ColumnType, pa.DataType] = {
    ColumnType.STRING: pa.string(),
    ColumnType.BIGINT: pa.int64(),
    ColumnType.INT: pa.int32(),
    ColumnType.DOUBLE: pa.float64(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    ColumnType.BIGINT_MAP: pa.map_(pa.string(), pa.int64()),
    ColumnType.STRING_MAP: pa.map_(pa.string(), pa.string()),
}


@dataclass(frozen=True)
class Column:
    """`description`: one line for people, with the unit."""

    name: str
    type: ColumnType
    description: str


@dataclass(frozen=True)
class LakeTable:
    """`partition_column`: the column whose UTC day is the partition. `order`: the sort order of rows in a
    file.
    """

    name: str
    description: str
    columns: tuple[Column, ...]
    partition_column: str
    order: tuple[str, ...]
    #: Unique within the table.
    key: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Column names, in schema order."""
        return tuple(column.name for column in self.columns)


def _columns(*rows: tuple[str, ColumnType, str]) -> tuple[Column, ...]:
    return tuple(Column(*row) for row in rows)


T = ColumnType
_WHOSE = _columns(
    ("app", T.STRING, "application: the name given to the agent, else Spark's `spark.app.name`"),
    ("query_id", T.STRING, "Spark's id of the query; it belongs to the checkpoint"),
    ("run_id", T.STRING, "Spark's id of the run; each start has a new one"),
)
_BATCH = _columns(
    ("batch_id", T.BIGINT, "batch number; a batch that is repeated keeps its number"),
    ("trigger_at", T.TIMESTAMP, "start of the trigger"),
)
_EXTRA = _columns(
    ("extra", T.STRING, "JSON of the fields of Spark's event that have no column; null when there are none")
)
_ORIGIN = _columns(("origin", T.STRING, "`agent`, or `log` for rows imported from an event log"))
_REPORT_ORDER = ("query_id", "trigger_at", "batch_id")

PROGRESS = LakeTable(
    "progress",
    "one row per progress report",
    _WHOSE
    + _BATCH
    + _columns(
        ("name", T.STRING, "name of the query; null when it has none"),
        (
            "reported_at",
            T.TIMESTAMP,
            "time of the report: the agent's, else start of the trigger plus its duration",
        ),
        ("duration_ms", T.BIGINT, "duration of the trigger, milliseconds"),
        ("input_rows", T.BIGINT, "rows read"),
        ("output_rows", T.BIGINT, "rows written; null where the sink does not report it"),
        ("input_rows_per_second", T.DOUBLE, "rows read divided by the time since the previous trigger"),
        ("processed_rows_per_second", T.DOUBLE, "rows read divided by the duration of the trigger"),
        (
            "lag_rows",
            T.BIGINT,
            "backlog: latest offsets minus end offsets, summed over the sources whose offsets count rows; "
            "null where no such source reports a latest offset",
        ),
        ("watermark", T.TIMESTAMP, "event-time watermark of the batch; null without one"),
        ("event_time_max", T.TIMESTAMP, "largest event time read"),
        ("event_time_min", T.TIMESTAMP, "smallest event time read"),
        ("event_time_avg", T.TIMESTAMP, "mean event time read"),
        ("state_rows", T.BIGINT, "rows of state, summed over the operators; null without state"),
        ("state_bytes", T.BIGINT, "memory used by state, summed; null without state"),
        ("dropped_rows", T.BIGINT, "late rows dropped by the watermark, summed; null without state"),
        ("durations_ms", T.BIGINT_MAP, "duration of each phase in milliseconds, by Spark's names"),
        ("sink", T.STRING, "Spark's description of the sink"),
        ("observed", T.STRING, "JSON of observed metrics; null without any"),
        ("spark_version", T.STRING, "Spark version that wrote the report"),
    )
    + _columns(
        ("agent", T.STRING, "id of the agent that sent it; null for logs"),
        ("seq", T.BIGINT, "sequence number of the event at its agent; null for logs"),
    )
    + _ORIGIN
    + _EXTRA,
    partition_column="trigger_at",
    order=_REPORT_ORDER,
    key=("run_id", "batch_id", "trigger_at"),
)

SOURCES = LakeTable(
    "sources",
    "one row per source of a progress report",
    _WHOSE
    + _BATCH
    + _columns(
        ("source", T.INT, "index of the source in the report, from 0"),
        ("description", T.STRING, "Spark's description of the source"),
        ("input_rows", T.BIGINT, "rows read from it"),
        ("input_rows_per_second", T.DOUBLE, "rows read divided by the time since the previous trigger"),
        ("processed_rows_per_second", T.DOUBLE, "rows read divided by the duration of the trigger"),
        ("start_offset", T.STRING, "JSON of the offset at which the batch starts"),
        ("end_offset", T.STRING, "JSON of the offset at which the batch ends"),
        ("latest_offset", T.STRING, "JSON of the latest offset; null where the source does not report it"),
        ("end_total", T.DOUBLE, "sum of the numbers in `end_offset`; null where there are none"),
        ("latest_total", T.DOUBLE, "sum of the numbers in `latest_offset`; null where there are none"),
        (
            "lag_rows",
            T.BIGINT,
            "backlog: latest offset minus end offset, summed over partitions, never below 0; null "
            "where unknown, or where the offsets do not count rows",
        ),
        ("metrics", T.STRING_MAP, "further metrics of the source, as text"),
    )
    + _ORIGIN
    + _EXTRA,
    partition_column="trigger_at",
    order=(*_REPORT_ORDER, "source"),
    key=("run_id", "batch_id", "trigger_at", "source"),
)

STATE_OPERATORS = LakeTable(
    "state_operators",
    "one row per stateful operator of a progress report",
    _WHOSE
    + _BATCH
    + _columns(
        ("operator", T.INT, "index of the operator in the report, from 0"),
        ("operator_name", T.STRING, "Spark's name of the operator"),
        ("rows", T.BIGINT, "rows of state"),
        ("rows_updated", T.BIGINT, "rows updated in the batch"),
        ("rows_removed", T.BIGINT, "rows removed in the batch"),
        ("rows_dropped", T.BIGINT, "late input rows dropped by the watermark"),
        ("memory_bytes", T.BIGINT, "memory used"),
        ("commit_ms", T.BIGINT, "milliseconds to commit, summed over the tasks"),
        ("updates_ms", T.BIGINT, "milliseconds of updates, summed over the tasks"),
        ("removals_ms", T.BIGINT, "milliseconds of removals, summed over the tasks"),
        ("shuffle_partitions", T.BIGINT, "number of shuffle partitions"),
        ("store_instances", T.BIGINT, "state store instances"),
        ("custom_metrics", T.BIGINT_MAP, "the provider's own metrics by Spark's names and units"),
    )
    + _ORIGIN
    + _EXTRA,
    partition_column="trigger_at",
    order=(*_REPORT_ORDER, "operator"),
    key=("run_id", "batch_id", "trigger_at", "operator"),
)

LIFECYCLE = LakeTable(
    "lifecycle",
    "one row per lifecycle event of a query or an application",
    _WHOSE
    + _columns(
        ("name", T.STRING, "name of the query; null when it has none"),
        (
            "event",
            T.STRING,
            "`started`, `idle`, `terminated`, `start_failed`, `app_started`, `app_ended` or `dropped`",
        ),
        ("reported_at", T.TIMESTAMP, "time of the event: the agent's, or the event log's"),
        ("error_class", T.STRING, "Spark's error condition of a failure, where it has one"),
        ("exception", T.STRING, "exception text of a failure"),
        ("spark_version", T.STRING, "version of Spark"),
        ("agent", T.STRING, "id of the agent that sent it; null for logs"),
        ("seq", T.BIGINT, "sequence number of the event at its agent; null for logs"),
    )
    + _ORIGIN
    + _EXTRA,
    partition_column="reported_at",
    order=("query_id", "reported_at", "event"),
    key=("app", "run_id", "event", "reported_at", "agent", "seq"),
)

ALERTS = LakeTable(
    "alerts",
    "one row per alert episode, from firing to resolved",
    _columns(
        ("store", T.STRING, "id of the store that the alert comes from; several stores may share one lake"),
        ("key", T.BIGINT, "number of the episode in its store"),
        ("name", T.STRING, "alertname"),
        ("severity", T.STRING, "label `severity`"),
        ("app", T.STRING, "label `app`; null where the alert has none"),
        ("query", T.STRING, "label `query`"),
        ("query_id", T.STRING, "label `query_id`"),
        ("fingerprint", T.STRING, "Alertmanager's fingerprint of the labels"),
        ("labels", T.STRING_MAP, "all labels"),
        ("summary", T.STRING, "annotation `summary`"),
        ("value", T.DOUBLE, "value of the expression when it was evaluated last"),
        ("active_at", T.TIMESTAMP, "since when its condition held"),
        ("fired_at", T.TIMESTAMP, "when it began to fire"),
        ("resolved_at", T.TIMESTAMP, "when it ended; null while it fires"),
        ("notified", T.BIGINT, "notifications sent of it"),
        ("reason", T.STRING, "why it is in its state, in words"),
    ),
    partition_column="fired_at",
    order=("query_id", "fired_at"),
    key=("store", "key"),
)

ACTIONS = LakeTable(
    "actions",
    "one row an action: stop, start or restart",
    _columns(
        ("id", T.STRING, "id of the action"),
        ("app", T.STRING, "application"),
        ("query", T.STRING, "name of the query, else the first 8 of its id"),
        ("query_id", T.STRING, "Spark's id of the query"),
        ("action", T.STRING, "`stop`, `start` or `restart`"),
        ("actor", T.STRING, "who requested it"),
        ("state", T.STRING, "final state"),
        ("request_reason", T.STRING, "reason given in the request"),
        ("reason", T.STRING, "reason for the final state"),
        ("requested_at", T.TIMESTAMP, "when it was requested"),
        ("delivered_at", T.TIMESTAMP, "when it was delivered to the agent"),
        ("finished_at", T.TIMESTAMP, "when it finished"),
        ("evidence", T.STRING, "JSON of the evidence for the outcome"),
    ),
    partition_column="requested_at",
    order=("query_id", "requested_at"),
    key=("id",),
)

_BUCKET = _columns(
    ("app", T.STRING, "application"),
    ("query", T.STRING, "name of the query, else the first 8 of its id: the label `query`"),
    ("query_id", T.STRING, "Spark's id of the query"),
    (
        "bucket_at",
        T.TIMESTAMP,
        "start of the bucket; a batch belongs to the bucket in which its trigger starts",
    ),
    ("batches", T.BIGINT, "batches reported"),
    ("input_rows", T.BIGINT, "rows read"),
    ("output_rows", T.BIGINT, "rows written, where the sink reports it"),
    ("dropped_rows", T.BIGINT, "late rows dropped by the watermark"),
    ("busy_seconds", T.DOUBLE, "sum of the trigger durations"),
    ("duration_seconds_p10", T.DOUBLE, "10th percentile of the durations of triggers"),
    ("duration_seconds_p50", T.DOUBLE, "median duration of a trigger"),
    ("duration_seconds_p90", T.DOUBLE, "90th percentile of the durations"),
    ("duration_seconds_p95", T.DOUBLE, "95th percentile of the durations"),
    ("duration_seconds_p99", T.DOUBLE, "99th percentile of the durations"),
    ("duration_seconds_max", T.DOUBLE, "longest duration"),
    ("input_rows_per_second_p10", T.DOUBLE, "10th percentile of Spark's input rate over the batches"),
    ("input_rows_per_second_p50", T.DOUBLE, "median of Spark's input rate"),
    ("input_rows_per_second_p90", T.DOUBLE, "90th percentile of Spark's input rate"),
    ("processed_rows_per_second_p50", T.DOUBLE, "median of Spark's processing rate"),
    ("lag_rows_p10", T.DOUBLE, "10th percentile of the backlog in rows; null where unknown"),
    ("lag_rows_p50", T.DOUBLE, "median of the backlog in rows"),
    ("lag_rows_p90", T.DOUBLE, "90th percentile of the rows behind"),
    ("lag_rows_p95", T.DOUBLE, "95th percentile of the rows behind"),
    ("lag_rows_max", T.DOUBLE, "largest backlog in rows"),
    (
        "lag_seconds_p50",
        T.DOUBLE,
        "median age of the oldest unread row; null where unknown. Estimated for the source with "
        "the highest age: "
        "backlog divided by the rate at which the latest offset advanced in the last 10 batches of the run; "
        "the time span of these batches where the latest offset did not change",
    ),
    ("lag_seconds_p95", T.DOUBLE, "95th percentile of the age of the oldest unread row"),
    ("lag_seconds_max", T.DOUBLE, "largest age"),
    ("watermark_lag_seconds_max", T.DOUBLE, "largest distance of the watermark behind the trigger"),
    ("state_rows_p10", T.DOUBLE, "10th percentile of the rows of state; null without state"),
    ("state_rows_p50", T.DOUBLE, "median of the rows of state"),
    ("state_rows_p90", T.DOUBLE, "90th percentile of the rows of state"),
    ("state_rows_first", T.DOUBLE, "rows of state at the first batch; null without state"),
    ("state_rows_last", T.DOUBLE, "rows of state at the last batch"),
    ("state_rows_max", T.DOUBLE, "maximum rows of state"),
    ("state_bytes_last", T.DOUBLE, "memory of state at the last batch"),
    ("state_bytes_max", T.DOUBLE, "maximum memory of state"),
    ("starts", T.BIGINT, "runs that started; without a start event, runs with their first report here"),
    ("failures", T.BIGINT, "runs that ended with an exception, and starts that failed"),
    (
        "downtime_seconds",
        T.DOUBLE,
        "seconds in which no run was up, between events at most a day away on each side; a run is up "
        "from its start or first report to its end, or to a minute after its last event",
    ),
    ("slo_batches", T.BIGINT, "batches for which the objective can be evaluated"),
    (
        "slo_good",
        T.BIGINT,
        "of these, those that met it: the duration and, where it is known, the lag in seconds were "
        "within the "
        "objective",
    ),
)
_WIDTHS = {"rollup_1m": "a minute", "rollup_1h": "an hour", "rollup_1d": "a day (UTC)"}
ROLLUPS = {
    name: LakeTable(
        name,
        f"one row per query and {width}",
        _BUCKET,
        "bucket_at",
        ("query_id", "bucket_at"),
        ("query_id", "bucket_at"),
    )
    for name, width in _WIDTHS.items()
}

BASELINES = LakeTable(
    "baselines",
    "baselines: one row per query, metric, hour of the week and quantile",
    _columns(
        ("app", T.STRING, "application"),
        ("query", T.STRING, "name of the query, else the first 8 of its id"),
        ("query_id", T.STRING, "Spark's id of the query"),
        ("metric", T.STRING, "metric name without the `spark_streaming_` prefix"),
        ("hour_of_week", T.INT, "0 is Monday 00:00 UTC, 167 Sunday 23:00"),
        ("quantile", T.DOUBLE, "0.1, 0.5 or 0.9"),
        ("value", T.DOUBLE, "median over the weeks of this quantile, in the unit of the metric"),
        ("weeks", T.INT, "weeks that have data for this hour"),
        ("samples", T.BIGINT, "batches that the value was computed from"),
        ("made_at", T.TIMESTAMP, "when the value was computed"),
    ),
    partition_column="made_at",
    order=("query_id", "metric", "hour_of_week", "quantile"),
    key=("query_id", "metric", "hour_of_week", "quantile", "made_at"),
)

TABLES: dict[str, LakeTable] = {
    table.name: table
    for table in (
        PROGRESS,
        SOURCES,
        STATE_OPERATORS,
        LIFECYCLE,
        ALERTS,
        ACTIONS,
        *ROLLUPS.values(),
        BASELINES,
    )
}


@cache
def arrow_schema(table: str) -> pa.Schema:
    """The Arrow schema of a table's files."""
    return pa.schema([pa.field(column.name, ARROW_TYPES[column.type]) for column in TABLES[table].columns])


@cache
def spark_ddl(table: str) -> str:
    """The same schema as Spark DDL, without the partition column `date`."""
    return ", ".join(f"`{column.name}` {column.type.value}" for column in TABLES[table].columns)
