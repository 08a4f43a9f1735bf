"""What a sink gets when batches run again, by the kind of sink; as seen on Spark 3.5 and 4.3. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.checkpoints.findings import plural
from controlplane.checkpoints.reading.checkpoint import CheckpointView
from controlplane.checkpoints.repair import truncation

UNKNOWN_SINK = (
    "if the query writes files (parquet, json, csv, text, orc): give --output PATH. With the sink's log as it is, "
    "Spark skips the batches that it has without running them: rows are lost, and state falls behind",
    "foreachBatch gets the same batch numbers again, perhaps with other rows in each: the function must be idempotent "
    "over all of them, not only a batch",
    "Kafka, foreach, console, HTTP: what was delivered is delivered again",
    "Delta and Iceberg sinks that remember query id and batch number skip the batches that they know: take the target "
    "back to the same point first",
    "memory, or any sink in complete mode: the whole result is written each time, nothing is doubled",
)


def consequences(view: CheckpointView, resume_at: int, *, data: bool) -> Iterator[str]:
    """Sentences for the plan: exact where the output was given, by kind where it was not."""
    if view.output is None:
        yield from UNKNOWN_SINK
    elif view.sink is None or view.sink.newest is None:
        yield f"{view.output.root} holds no _spark_metadata: no file sink wrote there"
    elif view.sink.newest < resume_at:
        yield "the file sink has none of these batches: nothing there is touched"
    else:
        yield from _file_sink(view, resume_at, data)


def _file_sink(view: CheckpointView, resume_at: int, data: bool) -> Iterator[str]:
    assert view.output is not None and view.sink is not None
    newest, left = view.sink.newest, truncation.orphaned_files(view.output, view.sink, resume_at)
    yield f"the file sink forgets batches {resume_at} to {newest}, then writes them: Spark's readers see each row once"
    if left and data:
        yield f"{plural(len(left), 'data file')} of those batches: taken away with them"
    elif left:
        yield (
            f"{plural(len(left), 'data file')} of those batches stay in the folder: whoever lists it without "
            "_spark_metadata sees rows twice (--move-data takes them away)"
        )
