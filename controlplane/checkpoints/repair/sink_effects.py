"""Consequences for each kind of sink when batches run again, as observed on Spark 3.5 and 4.3. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.checkpoints.findings import plural
from controlplane.checkpoints.reading.checkpoint import CheckpointView
from controlplane.checkpoints.repair import truncation

FILES = (
    "if the query writes files (parquet, json, csv, text, orc): give --output PATH. With the sink's log as it is, "
    "Spark skips the batches in it without running them: rows are lost, and state falls behind"
)
FOREACH_BATCH = (
    "foreachBatch gets the same batch numbers again, possibly with other rows: the function must be idempotent "
    "over all of them, not only per batch"
)
AGAIN = "Kafka, foreach, console, HTTP: rows already delivered are delivered again"
TABLES = (
    "Delta and Iceberg sinks that track query id and batch number skip the batches that they know: restore the table to "
    "the same point first"
)
WHOLE = (
    "memory, and any sink in complete mode: the whole result is written each time, so no rows are duplicated"
)
UNKNOWN_SINK = (FILES, FOREACH_BATCH, AGAIN, TABLES, WHOLE)
#: Parts of Spark's description of a sink. It does not distinguish the other kinds.
_DESCRIBED = {
    "ForeachBatchSink": FOREACH_BATCH,
    "Kafka": AGAIN,
    "Console": AGAIN,
    "DeltaSink": TABLES,
    "MemorySink": WHOLE,
}


def of_sink(description: str) -> tuple[str, ...]:
    """The consequences for a sink as Spark describes it in its reports; for all kinds where it is not known."""
    return next(((text,) for part, text in _DESCRIBED.items() if part in description), UNKNOWN_SINK)


def consequences(view: CheckpointView, resume_at: int, *, data: bool) -> Iterator[str]:
    """Consequences for the plan: exact with a given output, by kind of sink without one."""
    if view.output is None:
        yield from UNKNOWN_SINK
    elif view.sink is None or view.sink.newest is None:
        yield f"{view.output.root} has no _spark_metadata: no file sink wrote there"
    elif view.sink.newest < resume_at:
        yield "the file sink has none of these batches: the output is not changed"
    else:
        yield from _file_sink(view, resume_at, data)


def _file_sink(view: CheckpointView, resume_at: int, data: bool) -> Iterator[str]:
    assert view.output is not None and view.sink is not None
    newest, left = view.sink.newest, truncation.orphaned_files(view.output, view.sink, resume_at)
    yield f"the file sink forgets batches {resume_at} to {newest}, then writes them again; Spark's readers see each row once"
    if left and data:
        yield f"{plural(len(left), 'data file')} of those batches will be removed"
    elif left:
        yield (
            f"{plural(len(left), 'data file')} of those batches will stay in the folder: readers that ignore "
            "_spark_metadata see rows twice (--move-data removes them)"
        )
