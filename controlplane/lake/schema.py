"""The tables of the lake: every column once, with its type, unit and meaning. The documentation is made of this.

`VERSION` goes up when a column changes its meaning; a new column does not change it, and readers must bear with
columns that older files lack. Times are UTC, microseconds in the files. What Spark says beyond these columns
is in `extra`, as JSON text, so that no field of a later Spark is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import pyarrow as pa

FORMAT, VERSION = "spark-controlplane-lake", 1


class ColumnType(StrEnum):
    """Each with the name that Spark's DDL has for it."""

    TEXT = "string"
    WHOLE = "bigint"
    SMALL = "int"
    NUMBER = "double"
    FLAG = "boolean"
    TIME = "timestamp"
    WHOLES = "map<string,bigint>"
    TEXTS = "map<string,string>"


ARROW: dict[ColumnType, pa.DataType] = {
    ColumnType.TEXT: pa.string(),
    ColumnType.WHOLE: pa.int64(),
    ColumnType.SMALL: pa.int32(),
    ColumnType.NUMBER: pa.float64(),
    ColumnType.FLAG: pa.bool_(),
    ColumnType.TIME: pa.timestamp("us", tz="UTC"),
    ColumnType.WHOLES: pa.map_(pa.string(), pa.int64()),
    ColumnType.TEXTS: pa.map_(pa.string(), pa.string()),
}


@dataclass(frozen=True)
class Column:
    """`means` is one line for people, with the unit."""

    name: str
    type: ColumnType
    means: str


@dataclass(frozen=True)
class LakeTable:
    """`dated_by`: the column whose UTC day is the partition. `order`: how rows are sorted in a file."""

    name: str
    means: str
    columns: tuple[Column, ...]
    dated_by: str
    order: tuple[str, ...]
    #: What makes a row the same one; no two rows of the table agree in it.
    key: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def _columns(*rows: tuple[str, ColumnType, str]) -> tuple[Column, ...]:
    return tuple(Column(*row) for row in rows)


T = ColumnType
_WHOSE = _columns(
    ("app", T.TEXT, "application, as the agent was told or as Spark's `spark.app.name` says"),
    ("query_id", T.TEXT, "Spark's id of the query: it belongs to the checkpoint"),
    ("run_id", T.TEXT, "Spark's id of the run: a new one with each start"),
)
_BATCH = _columns(
    ("batch_id", T.WHOLE, "number of the batch; a batch that is done again has the same"),
    ("trigger_at", T.TIME, "when its trigger began"),
)
_EXTRA = _columns(
    ("extra", T.TEXT, "JSON of what Spark said beyond these columns; null when it said nothing")
)
_ORIGIN = _columns(("origin", T.TEXT, "`agent`, or `log` for what was imported from an event log"))
_REPORT_ORDER = ("query_id", "trigger_at", "batch_id")

PROGRESS = LakeTable(
    "progress",
    "one row a progress report",
    _WHOSE
    + _BATCH
    + _columns(
        ("name", T.TEXT, "name of the query; null when it has none"),
        (
            "reported_at",
            T.TIME,
            "when the report was made: the agent's time, or trigger and duration where none is known",
        ),
        ("duration_ms", T.WHOLE, "duration of the trigger, milliseconds"),
        ("input_rows", T.WHOLE, "rows read"),
        ("output_rows", T.WHOLE, "rows written; null where the sink does not tell"),
        ("input_rows_per_second", T.NUMBER, "rows read over the time since the trigger before"),
        ("processed_rows_per_second", T.NUMBER, "rows read over the duration of the trigger"),
        ("lag_rows", T.WHOLE, "rows behind the sources' heads, summed; null where no source tells its head"),
        ("watermark", T.TIME, "event-time watermark of the batch; null without one"),
        ("event_time_max", T.TIME, "largest event time read"),
        ("event_time_min", T.TIME, "smallest event time read"),
        ("event_time_avg", T.TIME, "mean event time read"),
        ("state_rows", T.WHOLE, "rows of state, summed over the operators; null without state"),
        ("state_bytes", T.WHOLE, "memory used by state, summed; null without state"),
        ("dropped_rows", T.WHOLE, "rows dropped as later than the watermark, summed; null without state"),
        ("durations_ms", T.WHOLES, "milliseconds of each phase, by Spark's names"),
        ("sink", T.TEXT, "Spark's description of the sink"),
        ("observed", T.TEXT, "JSON of observed metrics; null without any"),
        ("spark_version", T.TEXT, "version of Spark that wrote the report"),
    )
    + _columns(
        ("agent", T.TEXT, "id of the agent that sent it; null for logs"),
        ("seq", T.WHOLE, "sequence number of the event at its agent; null for logs"),
    )
    + _ORIGIN
    + _EXTRA,
    dated_by="trigger_at",
    order=_REPORT_ORDER,
    key=("run_id", "batch_id", "trigger_at"),
)

SOURCES = LakeTable(
    "sources",
    "one row a source of a progress report",
    _WHOSE
    + _BATCH
    + _columns(
        ("source", T.SMALL, "place of the source in the report, from 0"),
        ("description", T.TEXT, "Spark's description of the source"),
        ("input_rows", T.WHOLE, "rows read from it"),
        ("input_rows_per_second", T.NUMBER, "rows read over the time since the trigger before"),
        ("processed_rows_per_second", T.NUMBER, "rows read over the duration of the trigger"),
        ("start_offset", T.TEXT, "JSON of the offset it began at"),
        ("end_offset", T.TEXT, "JSON of the offset it came to"),
        ("latest_offset", T.TEXT, "JSON of the source's head; null where it does not tell"),
        ("end_total", T.NUMBER, "sum of the numbers in `end_offset`; null where there are none"),
        ("latest_total", T.NUMBER, "sum of the numbers in `latest_offset`; null where there are none"),
        ("lag_rows", T.WHOLE, "head minus end, summed over partitions, never below 0; null where unknown"),
        ("metrics", T.TEXTS, "what the source reports besides, as text"),
    )
    + _ORIGIN
    + _EXTRA,
    dated_by="trigger_at",
    order=(*_REPORT_ORDER, "source"),
    key=("run_id", "batch_id", "trigger_at", "source"),
)

STATE_OPERATORS = LakeTable(
    "state_operators",
    "one row a stateful operator of a progress report",
    _WHOSE
    + _BATCH
    + _columns(
        ("operator", T.SMALL, "place of the operator in the report, from 0"),
        ("operator_name", T.TEXT, "Spark's name of it"),
        ("rows", T.WHOLE, "rows of state"),
        ("rows_updated", T.WHOLE, "rows updated in the batch"),
        ("rows_removed", T.WHOLE, "rows removed in the batch"),
        ("rows_dropped", T.WHOLE, "input rows dropped as later than the watermark"),
        ("memory_bytes", T.WHOLE, "memory used"),
        ("commit_ms", T.WHOLE, "milliseconds to commit, summed over the tasks"),
        ("updates_ms", T.WHOLE, "milliseconds of updates, summed over the tasks"),
        ("removals_ms", T.WHOLE, "milliseconds of removals, summed over the tasks"),
        ("shuffle_partitions", T.WHOLE, "number of shuffle partitions"),
        ("store_instances", T.WHOLE, "state store instances"),
        ("custom_metrics", T.WHOLES, "the provider's own metrics by Spark's names and units"),
    )
    + _ORIGIN
    + _EXTRA,
    dated_by="trigger_at",
    order=(*_REPORT_ORDER, "operator"),
    key=("run_id", "batch_id", "trigger_at", "operator"),
)

LIFECYCLE = LakeTable(
    "lifecycle",
    "one row an event in the life of a query or of an application",
    _WHOSE
    + _columns(
        ("name", T.TEXT, "name of the query; null when it has none"),
        (
            "event",
            T.TEXT,
            "`started`, `idle`, `terminated`, `start_failed`, `app_started`, `app_ended` or `dropped`",
        ),
        ("reported_at", T.TIME, "when it happened: the agent's time, or the log's"),
        ("error_class", T.TEXT, "Spark's error condition, where it failed with one"),
        ("exception", T.TEXT, "text of the exception, where it failed"),
        ("spark_version", T.TEXT, "version of Spark"),
        ("agent", T.TEXT, "id of the agent that sent it; null for logs"),
        ("seq", T.WHOLE, "sequence number of the event at its agent; null for logs"),
    )
    + _ORIGIN
    + _EXTRA,
    dated_by="reported_at",
    order=("query_id", "reported_at", "event"),
    key=("app", "run_id", "event", "reported_at", "agent", "seq"),
)

ALERTS = LakeTable(
    "alerts",
    "one row an episode of an alert, from its first firing to its end",
    _columns(
        ("store", T.TEXT, "id of the store that told it: several may move to one lake"),
        ("key", T.WHOLE, "number of the episode in its store"),
        ("name", T.TEXT, "alertname"),
        ("severity", T.TEXT, "label `severity`"),
        ("app", T.TEXT, "label `app`; null where the alert has none"),
        ("query", T.TEXT, "label `query`"),
        ("query_id", T.TEXT, "label `query_id`"),
        ("fingerprint", T.TEXT, "Alertmanager's fingerprint of the labels"),
        ("labels", T.TEXTS, "all labels"),
        ("summary", T.TEXT, "annotation `summary`"),
        ("value", T.NUMBER, "value of the expression when it was evaluated last"),
        ("active_at", T.TIME, "since when its condition held"),
        ("fired_at", T.TIME, "when it began to fire"),
        ("resolved_at", T.TIME, "when it ended; null while it fires"),
        ("notified", T.WHOLE, "notifications sent of it"),
        ("reason", T.TEXT, "why it is in its state, in words"),
    ),
    dated_by="fired_at",
    order=("query_id", "fired_at"),
    key=("store", "key"),
)

ACTIONS = LakeTable(
    "actions",
    "one row an action: stop, start or restart",
    _columns(
        ("id", T.TEXT, "id of the action"),
        ("app", T.TEXT, "application"),
        ("query", T.TEXT, "name of the query, else the first 8 of its id"),
        ("query_id", T.TEXT, "Spark's id of the query"),
        ("action", T.TEXT, "`stop`, `start` or `restart`"),
        ("actor", T.TEXT, "who asked"),
        ("state", T.TEXT, "how it ended"),
        ("request_reason", T.TEXT, "why it was asked for"),
        ("reason", T.TEXT, "why it ended so"),
        ("requested_at", T.TIME, "when it was asked for"),
        ("delivered_at", T.TIME, "when the agent had it"),
        ("finished_at", T.TIME, "when it was over"),
        ("evidence", T.TEXT, "JSON of what proves it"),
    ),
    dated_by="requested_at",
    order=("query_id", "requested_at"),
    key=("id",),
)

_BUCKET = _columns(
    ("app", T.TEXT, "application"),
    ("query", T.TEXT, "name of the query, else the first 8 of its id: the label `query`"),
    ("query_id", T.TEXT, "Spark's id of the query"),
    ("bucket_at", T.TIME, "begin of the bucket; a batch is in the bucket of its trigger"),
    ("batches", T.WHOLE, "batches reported"),
    ("input_rows", T.WHOLE, "rows read"),
    ("output_rows", T.WHOLE, "rows written, where the sink tells"),
    ("dropped_rows", T.WHOLE, "rows dropped as later than the watermark"),
    ("busy_seconds", T.NUMBER, "durations of its triggers, summed"),
    ("duration_seconds_p10", T.NUMBER, "10th percentile of the durations of triggers"),
    ("duration_seconds_p50", T.NUMBER, "median duration of a trigger"),
    ("duration_seconds_p90", T.NUMBER, "90th percentile of the durations"),
    ("duration_seconds_p95", T.NUMBER, "95th percentile of the durations"),
    ("duration_seconds_p99", T.NUMBER, "99th percentile of the durations"),
    ("duration_seconds_max", T.NUMBER, "longest duration"),
    ("input_rows_per_second_p10", T.NUMBER, "10th percentile of Spark's input rate over the batches"),
    ("input_rows_per_second_p50", T.NUMBER, "median of Spark's input rate"),
    ("input_rows_per_second_p90", T.NUMBER, "90th percentile of Spark's input rate"),
    ("processed_rows_per_second_p50", T.NUMBER, "median of Spark's processing rate"),
    ("lag_rows_p10", T.NUMBER, "10th percentile of the rows behind the heads; null where unknown"),
    ("lag_rows_p50", T.NUMBER, "median of the rows behind"),
    ("lag_rows_p90", T.NUMBER, "90th percentile of the rows behind"),
    ("lag_rows_p95", T.NUMBER, "95th percentile of the rows behind"),
    ("lag_rows_max", T.NUMBER, "most rows behind"),
    (
        "lag_seconds_p50",
        T.NUMBER,
        "median age of the oldest row that is not read; null where unknown. Estimated: rows behind over the "
        "pace of the source's head in the last 10 batches of the run, of the source that is worst; the time of "
        "these batches where the head stood still",
    ),
    ("lag_seconds_p95", T.NUMBER, "95th percentile of that age"),
    ("lag_seconds_max", T.NUMBER, "largest age"),
    ("watermark_lag_seconds_max", T.NUMBER, "most that the watermark was behind the trigger"),
    ("state_rows_p10", T.NUMBER, "10th percentile of the rows of state; null without state"),
    ("state_rows_p50", T.NUMBER, "median of the rows of state"),
    ("state_rows_p90", T.NUMBER, "90th percentile of the rows of state"),
    ("state_rows_first", T.NUMBER, "rows of state at the first batch; null without state"),
    ("state_rows_last", T.NUMBER, "rows of state at the last batch"),
    ("state_rows_max", T.NUMBER, "most rows of state"),
    ("state_bytes_last", T.NUMBER, "memory of state at the last batch"),
    ("state_bytes_max", T.NUMBER, "most memory of state"),
    ("starts", T.WHOLE, "runs that began: started, or, where nothing tells it, first reported"),
    ("failures", T.WHOLE, "runs that ended by an exception, and starts that failed"),
    (
        "downtime_seconds",
        T.NUMBER,
        "seconds in which no run was up, between signs of life at most a day off on each side; a run is up from "
        "its start, or first report, to its end, or a minute past its last sign",
    ),
    ("slo_batches", T.WHOLE, "batches that the objective can be judged on"),
    (
        "slo_good",
        T.WHOLE,
        "of these, those that met it: the duration and, where it is known, the lag in seconds were within the "
        "objective",
    ),
)
_WIDTHS = {"rollup_1m": "a minute", "rollup_1h": "an hour", "rollup_1d": "a day (UTC)"}
ROLLUPS = {
    name: LakeTable(
        name,
        f"one row a query and {width}",
        _BUCKET,
        "bucket_at",
        ("query_id", "bucket_at"),
        ("query_id", "bucket_at"),
    )
    for name, width in _WIDTHS.items()
}

BASELINES = LakeTable(
    "baselines",
    "what is usual: one row a query, figure, hour of the week and quantile",
    _columns(
        ("app", T.TEXT, "application"),
        ("query", T.TEXT, "name of the query, else the first 8 of its id"),
        ("query_id", T.TEXT, "Spark's id of the query"),
        ("metric", T.TEXT, "which figure, by the name its series has without the prefix"),
        ("hour_of_week", T.SMALL, "0 is Monday 00:00 UTC, 167 Sunday 23:00"),
        ("quantile", T.NUMBER, "0.1, 0.5 or 0.9"),
        ("value", T.NUMBER, "the quantile over the weeks, in the unit of the figure"),
        ("weeks", T.SMALL, "weeks that have data for this hour"),
        ("samples", T.WHOLE, "batches that it was learned from"),
        ("made_at", T.TIME, "when it was learned"),
    ),
    dated_by="made_at",
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
def arrow(table: str) -> pa.Schema:
    """The schema of a table's files."""
    return pa.schema([pa.field(column.name, ARROW[column.type]) for column in TABLES[table].columns])


@cache
def ddl(table: str) -> str:
    """The same as Spark's DDL, without the partition column `date`."""
    return ", ".join(f"`{column.name}` {column.type.value}" for column in TABLES[table].columns)
