"""Convert progress reports and lifecycle events to rows of the lake's four raw tables.

Called by everything that fills the lake: import, ingest and offload. Values that have their column's type go
to the column; everything else in a report goes to `extra`, so that no field is lost. Absent, null and empty
values are equivalent, as are NaN and the infinities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any

import pyarrow as pa

from controlplane.events.progress import IDLE_PHASES, whole
from controlplane.lake import fields as f
from controlplane.lake.arrays import table_from_rows
from controlplane.lake.schema import LIFECYCLE, PROGRESS, SOURCES, STATE_OPERATORS

Json = Mapping[str, Any]
Row = tuple[Any, ...]
#: Tables in which a report has rows.
REPORT_TABLES = (PROGRESS.name, SOURCES.name, STATE_OPERATORS.name)
#: All raw tables.
RAW_TABLES = (*REPORT_TABLES, LIFECYCLE.name)
QUERY_ID_INDEX = PROGRESS.names.index("query_id")

REPORT_KEYS = frozenset(
    "id runId name timestamp batchId batchDuration numInputRows inputRowsPerSecond processedRowsPerSecond"
    " durationMs eventTime stateOperators sources sink observedMetrics".split()
)
SOURCE_KEYS = frozenset(
    "description startOffset endOffset latestOffset numInputRows inputRowsPerSecond processedRowsPerSecond"
    " metrics".split()
)
#: Spark's names of an operator's counts, in column order.
OPERATOR_COUNTS = (
    "numRowsTotal",
    "numRowsUpdated",
    "numRowsRemoved",
    "numRowsDroppedByWatermark",
    "memoryUsedBytes",
    "commitTimeMs",
    "allUpdatesTimeMs",
    "allRemovalsTimeMs",
    "numShufflePartitions",
    "numStateStoreInstances",
)
_operator_counts = itemgetter(*OPERATOR_COUNTS)
OPERATOR_KEYS = frozenset((*OPERATOR_COUNTS, "operatorName", "customMetrics"))


@dataclass(frozen=True, slots=True)
class Producer:
    """The application that produced events. `origin`: `agent` or `log`."""

    app: str | None
    spark_version: str | None
    origin: str


class LakeRowBuilder:
    """Collect rows; `take` returns them as tables by the lake's schema and starts over."""

    def __init__(self) -> None:
        #: Query → rows of reports, of sources and of operators.
        self._reports: dict[str, tuple[list[Row], list[Row], list[Row]]] = {}
        self._lifecycle: list[Row] = []
        self._count = 0

    def __len__(self) -> int:
        """Rows of all tables that were not taken yet."""
        return self._count

    def progress(
        self,
        producer: Producer,
        report: Json,
        at: float | None = None,
        agent: str | None = None,
        seq: int | None = None,
    ) -> bool:
        """Add a report in the shape of Spark's `progress.json`. `at`: when the agent received it, Unix
        seconds.

        Return True when it became a row of `progress`; False for a trigger without data (Spark before 3.5),
        which becomes an `idle` event. ValueError in one sentence when the run, the batch or the time is
        invalid: no row is added then.
        """
        query_id, run_id = f.required_id(report, "id"), f.required_id(report, "runId")
        batch_id = whole(report.get("batchId"))
        if batch_id is None:
            raise ValueError("batchId must be an integer")
        trigger_at = f.trigger_micros(report, at)
        leftover: f.Leftover = {}
        phases = f.integers(report, "durationMs", leftover)
        took = f.duration_ms(report, phases, leftover)
        reported_at = f.end_micros(trigger_at, took) if at is None else round(at * 1e6)
        if phases and phases.keys() <= IDLE_PHASES and report.get("numInputRows") in (0, None):
            self._idle(producer, report, reported_at, agent, seq)
            return False
        whose = (producer.app, query_id, run_id, batch_id, trigger_at)
        sources = f.objects(report, "sources", leftover)
        source_rows = [_source(source, whose, index, producer.origin) for index, source in enumerate(sources)]
        operators = f.objects(report, "stateOperators", leftover)
        operator_rows = [
            _operator(operator, whose, index, producer.origin) for index, operator in enumerate(operators)
        ]
        kept = (
            *whose,
            f.text(report, "name", leftover),
            reported_at,
            took,
            *_aggregates(report, source_rows, operator_rows, leftover),
            phases,
            f.sink_description(report, leftover),
            f.json_or_none(report.get("observedMetrics")),
            producer.spark_version,
            agent,
            seq,
            producer.origin,
            f.extra_json(report, REPORT_KEYS, leftover),
        )
        self._keep(kept, source_rows, operator_rows)
        return True

    def _keep(self, row: Row, sources: list[Row], operators: list[Row]) -> None:
        self._count += 1 + len(sources) + len(operators)
        kept = self._reports.setdefault(row[QUERY_ID_INDEX], ([], [], []))
        kept[0].append(row)
        kept[1].extend(sources)
        kept[2].extend(operators)

    def _idle(self, producer: Producer, report: Json, at: int, agent: str | None, seq: int | None) -> None:
        known = {"id", "runId", "name"}
        name = report.get("name")
        rest = {key: value for key, value in report.items() if key not in known}
        self.lifecycle(
            producer,
            "idle",
            at / 1e6,
            report["id"],
            report["runId"],
            name if isinstance(name, str) else None,
            agent=agent,
            seq=seq,
            rest=rest,
        )

    def lifecycle(
        self,
        producer: Producer,
        event: str,
        at: float,
        query_id: str | None,
        run_id: str | None,
        name: str | None,
        exception: str | None = None,
        error_class: str | None = None,
        agent: str | None = None,
        seq: int | None = None,
        rest: Json | None = None,
    ) -> None:
        """Add a lifecycle event of a query or an application. `at`: Unix seconds; `rest`: its other fields.

        ValueError where the time is outside of what files can represent.
        """
        if not f.MIN_MICROS <= at * 1e6 <= f.MAX_MICROS:
            raise ValueError("the time of an event must be between the years 1 and 9999")
        self._count += 1
        self._lifecycle.append(
            (
                producer.app,
                query_id,
                run_id,
                name or None,
                event,
                round(at * 1e6),
                error_class or None,
                exception or None,
                producer.spark_version,
                agent,
                seq,
                producer.origin,
                f.json_or_none(f.without_empty(rest)) if rest else None,
            )
        )

    def take(self) -> dict[str, pa.Table]:
        """Return all rows as tables by the schema, reports sorted by query, and clear the builder."""
        reports, lifecycle = self._reports, self._lifecycle
        self._reports, self._lifecycle, self._count = {}, [], 0
        by_query = [reports[query] for query in sorted(reports)]
        kept = {
            name: list(chain.from_iterable(item[index] for item in by_query))
            for index, name in enumerate(REPORT_TABLES)
        }
        return {
            name: table_from_rows(name, rows) for name, rows in (kept | {LIFECYCLE.name: lifecycle}).items()
        }


# -- rows of reports, sources and operators -----------------------------------------------------------------

SOURCE_ROWS = SOURCES.names.index("input_rows")
SOURCE_RATE = SOURCES.names.index("input_rows_per_second")
SOURCE_LAG = SOURCES.names.index("lag_rows")
OPERATOR_ROWS, OPERATOR_DROPPED, OPERATOR_BYTES = map(
    STATE_OPERATORS.names.index, ("rows", "rows_dropped", "memory_bytes")
)


def _aggregates(report: Json, source_rows: list[Row], operator_rows: list[Row], leftover: f.Leftover) -> Row:
    """The columns from `input_rows` to `dropped_rows`."""
    rows = f.count(report, "numInputRows", leftover)
    if rows is None:
        rows = f.column_sum(source_rows, SOURCE_ROWS)
    return (
        rows,
        f.output_rows(report, leftover),
        f.rate(report, "inputRowsPerSecond", rows, leftover, source_rows, SOURCE_RATE),
        f.rate(report, "processedRowsPerSecond", rows, leftover, source_rows, SOURCE_RATE + 1),
        f.column_sum(source_rows, SOURCE_LAG),
        *f.event_times(report, leftover),
        f.column_sum(operator_rows, OPERATOR_ROWS),
        f.column_sum(operator_rows, OPERATOR_BYTES),
        f.column_sum(operator_rows, OPERATOR_DROPPED),
    )


def _source(data: Json, whose: Row, index: int, origin: str) -> Row:
    leftover: f.Leftover = {}
    rows = f.count(data, "numInputRows", leftover)
    start, _, starts = f.parse_offset(data.get("startOffset"))
    description = f.text(data, "description", leftover)
    end, end_total, ends = f.parse_offset(data.get("endOffset"))
    latest, latest_total, heads = f.parse_offset(data.get("latestOffset"))
    return (
        *whose,
        index,
        description,
        rows,
        f.rate(data, "inputRowsPerSecond", rows, leftover),
        f.rate(data, "processedRowsPerSecond", rows, leftover),
        start,
        end,
        latest,
        end_total,
        latest_total,
        f.lag_rows(description, starts, ends, heads, rows),
        f.strings(data, "metrics", leftover),
        origin,
        f.extra_json(data, SOURCE_KEYS, leftover),
    )


def _operator(data: Json, whose: Row, index: int, origin: str) -> Row:
    leftover: f.Leftover = {}
    name = f.text(data, "operatorName", leftover)
    counts = f.counts(data, OPERATOR_COUNTS, _operator_counts, leftover)
    metrics = f.integers(data, "customMetrics", leftover)
    return (*whose, index, name, *counts, metrics, origin, f.extra_json(data, OPERATOR_KEYS, leftover))
