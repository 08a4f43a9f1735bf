"""Progress reports and events of the life of queries -> rows of the lake's four raw tables.

Called by whatever fills the lake: import, ingest, move. What Spark says is taken into columns where it has the
column's type; everything else of a report goes to `extra`, so that nothing of it is lost. Absent, null and empty are
one, and so are NaN and infinities.
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
#: The tables that a report has rows in.
REPORT_TABLES = (PROGRESS.name, SOURCES.name, STATE_OPERATORS.name)
#: What is written here.
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
#: Spark's names of an operator's counts, in the order of the columns.
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
    """Whose reports these are. `origin`: `agent` or `log`."""

    app: str | None
    spark_version: str | None
    origin: str


class LakeRowBuilder:
    """Gathers rows; `take` gives them as tables by the lake's schema and begins anew."""

    def __init__(self) -> None:
        #: By query: rows of reports, of sources and of operators.
        self._reports: dict[str, tuple[list[Row], list[Row], list[Row]]] = {}
        self._life: list[Row] = []
        self._count = 0

    def __len__(self) -> int:
        """Rows of all tables that were not taken yet."""
        return self._count

    def progress(
        self,
        who: Producer,
        report: Json,
        at: float | None = None,
        agent: str | None = None,
        seq: int | None = None,
    ) -> bool:
        """A report in the shape of Spark's `progress.json`. `at`: when the agent heard it, Unix seconds.

        True when it became rows of a batch; False when it told of a trigger without data (Spark before 3.5), which
        becomes an `idle` of its life. ValueError in one sentence when the run, the batch or the time cannot be told:
        nothing is kept of it then.
        """
        query_id, run_id = f.required_id(report, "id"), f.required_id(report, "runId")
        batch_id = whole(report.get("batchId"))
        if batch_id is None:
            raise ValueError("batchId must be a whole number")
        trigger_at = f.trigger_micros(report, at)
        left: f.Leftover = {}
        phases = f.integers(report, "durationMs", left)
        took = f.duration_ms(report, phases, left)
        heard = f.end_micros(trigger_at, took) if at is None else round(at * 1e6)
        if phases and phases.keys() <= IDLE_PHASES and report.get("numInputRows") in (0, None):
            self._idle(who, report, heard, agent, seq)
            return False
        whose = (who.app, query_id, run_id, batch_id, trigger_at)
        sources = f.objects(report, "sources", left)
        told = [_source(one, whose, place, who.origin) for place, one in enumerate(sources)]
        operators = f.objects(report, "stateOperators", left)
        states = [_operator(one, whose, place, who.origin) for place, one in enumerate(operators)]
        kept = (
            *whose,
            f.text(report, "name", left),
            heard,
            took,
            *_aggregates(report, told, states, left),
            phases,
            f.sink_description(report, left),
            f.json_or_none(report.get("observedMetrics")),
            who.spark_version,
            agent,
            seq,
            who.origin,
            f.extra_json(report, REPORT_KEYS, left),
        )
        self._keep(kept, told, states)
        return True

    def _keep(self, row: Row, sources: list[Row], operators: list[Row]) -> None:
        self._count += 1 + len(sources) + len(operators)
        kept = self._reports.setdefault(row[QUERY_ID_INDEX], ([], [], []))
        kept[0].append(row)
        kept[1].extend(sources)
        kept[2].extend(operators)

    def _idle(self, who: Producer, report: Json, at: int, agent: str | None, seq: int | None) -> None:
        known = {"id", "runId", "name"}
        name = report.get("name")
        rest = {key: value for key, value in report.items() if key not in known}
        self.lifecycle(
            who,
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
        who: Producer,
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
        """An event of the life of a query or an application. `at`: Unix seconds; `rest`: what else it says.

        ValueError where no file can hold that time.
        """
        if not f.MIN_MICROS <= at * 1e6 <= f.MAX_MICROS:
            raise ValueError("the time of an event must be between the years 1 and 9999")
        self._count += 1
        self._life.append(
            (
                who.app,
                query_id,
                run_id,
                name or None,
                event,
                round(at * 1e6),
                error_class or None,
                exception or None,
                who.spark_version,
                agent,
                seq,
                who.origin,
                f.json_or_none(f.without_empty(rest)) if rest else None,
            )
        )

    def take(self) -> dict[str, pa.Table]:
        """All rows as tables by the schema, reports sorted by query, and nothing is kept any more."""
        reports, life = self._reports, self._life
        self._reports, self._life, self._count = {}, [], 0
        sorted_ones = [reports[query] for query in sorted(reports)]
        kept = {
            name: list(chain.from_iterable(one[place] for one in sorted_ones))
            for place, name in enumerate(REPORT_TABLES)
        }
        return {name: table_from_rows(name, rows) for name, rows in (kept | {LIFECYCLE.name: life}).items()}


# -- rows of reports, sources and operators -----------------------------------------------------------------

SOURCE_ROWS = SOURCES.names.index("input_rows")
SOURCE_RATE = SOURCES.names.index("input_rows_per_second")
SOURCE_LAG = SOURCES.names.index("lag_rows")
OPERATOR_ROWS, OPERATOR_DROPPED, OPERATOR_BYTES = map(
    STATE_OPERATORS.names.index, ("rows", "rows_dropped", "memory_bytes")
)


def _aggregates(report: Json, told: list[Row], states: list[Row], left: f.Leftover) -> Row:
    """The columns from `input_rows` to `dropped_rows`."""
    rows = f.count(report, "numInputRows", left)
    if rows is None:
        rows = f.column_sum(told, SOURCE_ROWS)
    return (
        rows,
        f.output_rows(report, left),
        f.rate(report, "inputRowsPerSecond", rows, left, told, SOURCE_RATE),
        f.rate(report, "processedRowsPerSecond", rows, left, told, SOURCE_RATE + 1),
        f.column_sum(told, SOURCE_LAG),
        *f.event_times(report, left),
        f.column_sum(states, OPERATOR_ROWS),
        f.column_sum(states, OPERATOR_BYTES),
        f.column_sum(states, OPERATOR_DROPPED),
    )


def _source(data: Json, whose: Row, place: int, origin: str) -> Row:
    left: f.Leftover = {}
    rows = f.count(data, "numInputRows", left)
    start, _, _ = f.parse_offset(data.get("startOffset"))
    end, end_total, ends = f.parse_offset(data.get("endOffset"))
    latest, latest_total, heads = f.parse_offset(data.get("latestOffset"))
    return (
        *whose,
        place,
        f.text(data, "description", left),
        rows,
        f.rate(data, "inputRowsPerSecond", rows, left),
        f.rate(data, "processedRowsPerSecond", rows, left),
        start,
        end,
        latest,
        end_total,
        latest_total,
        f.lag_rows(ends, heads),
        f.strings(data, "metrics", left),
        origin,
        f.extra_json(data, SOURCE_KEYS, left),
    )


def _operator(data: Json, whose: Row, place: int, origin: str) -> Row:
    left: f.Leftover = {}
    name = f.text(data, "operatorName", left)
    counts = f.counts(data, OPERATOR_COUNTS, _operator_counts, left)
    metrics = f.integers(data, "customMetrics", left)
    return (*whose, place, name, *counts, metrics, origin, f.extra_json(data, OPERATOR_KEYS, left))
