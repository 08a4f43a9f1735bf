"""Build the analyzer's `KnownHistory` of a query from stored progress reports, inventories and shapes.

`load_history` reads the store, `history_from` is pure. `controlplane.checkpoints.service` calls them on its
own thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy.engine import Connection

from controlplane.checkpoints.reading.checkpoint import KnownHistory, ReportedBatch
from controlplane.events import progress
from controlplane.store import checkpoints as rows
from controlplane.store import shapes as shape_rows

#: The newest reports that are read.
MAX_REPORTS = 200
#: A report received so shortly before the listing may be of a batch that the listing does not show yet.
RACE_SECONDS = 2.0
ASYNCHRONOUS = "asyncprogresstrackingenabled"


def load_history(
    connection: Connection, query_id: str, run_id: str | None, checkpoint: str, taken_at: float
) -> KnownHistory:
    """Load what is known of the query of this checkpoint up to `taken_at`, the time of its inventory (server clock)."""
    reports = rows.progress_before(connection, query_id, taken_at, MAX_REPORTS)
    former = rows.previous_query(connection, checkpoint, query_id) if _continues(reports) else None
    known = history_from(
        former or query_id, reports, checkpoint, shape_rows.newest(connection, query_id), run_id
    )
    recent = (batch for batch, report in known.reports.items() if report.at > taken_at - RACE_SECONDS)
    return replace(known, recent=frozenset(recent))


def _continues(reports: Iterable[tuple[float, Mapping[str, Any]]]) -> bool:
    """Whether its first known batch is not batch 0, so that its logs may be older than its query id."""
    first = next((report.get("batchId") for _, report in reports), None)
    return isinstance(first, int) and first > 0


def history_from(
    query_id: str,
    stored: Iterable[tuple[float, Mapping[str, Any]]],
    checkpoint: str | None,
    shape: Mapping[str, Any] | None,
    run_id: str | None,
) -> KnownHistory:
    """Build the history. `stored`: (time, Spark's progress report), oldest first; `shape`: the newest stored shape row."""
    reports: dict[int, ReportedBatch] = {}
    stateful: bool | None = None
    sources: tuple[str, ...] = ()
    for at, report in stored:
        batch = progress.whole(report.get("batchId"))
        if batch is None or batch < 0:
            continue
        stateful = bool(stateful) or bool(progress.items(report.get("stateOperators")))
        sources = tuple(
            str(source.get("description") or "") for source in progress.items(report.get("sources"))
        )
        # A batch that is reported again was rewound to, which undid the later ones.
        reports = {number: known for number, known in reports.items() if number < batch}
        reports[batch] = _reported(at, report)
    return KnownHistory(
        query_id=query_id,
        stateful=stateful,
        location=checkpoint,
        asynchronous=_asynchronous(shape),
        reports=reports,
        disallowed_changes=_not_allowed(shape, run_id),
        sources=sources,
    )


def input_rows(stored: Iterable[tuple[float, Mapping[str, Any]]]) -> dict[int, int]:
    """Input rows by batch, of the newest report of each batch. `stored` as in `history_from`."""
    found: dict[int, int] = {}
    for _, report in stored:
        batch, count = progress.whole(report.get("batchId")), progress.whole(report.get("numInputRows"))
        if batch is not None and count is not None:
            found[batch] = count
    return found


def _reported(at: float, report: Mapping[str, Any]) -> ReportedBatch:
    end_offsets = tuple(source.get("endOffset") for source in progress.items(report.get("sources")))
    watermark = progress.unix_seconds(progress.mapping(report.get("eventTime")).get("watermark"))
    return ReportedBatch(at, end_offsets, None if watermark is None else round(watermark * 1000))


def _asynchronous(shape: Mapping[str, Any] | None) -> bool:
    sink = progress.mapping(progress.mapping((shape or {}).get("shape")).get("sink"))
    return str(progress.mapping(sink.get("options")).get(ASYNCHRONOUS)).lower() == "true"


def _not_allowed(shape: Mapping[str, Any] | None, run_id: str | None) -> tuple[str, ...]:
    """Messages of the changes that the inventory's run made and the checkpoint does not allow."""
    comparison = progress.mapping((shape or {}).get("comparison"))
    if comparison.get("verdict") != "not_allowed" or shape is None or run_id not in (None, shape["run_id"]):
        return ()
    found = progress.items(comparison.get("findings"))
    return tuple(str(f.get("message")) for f in found if f.get("severity") == "error")
