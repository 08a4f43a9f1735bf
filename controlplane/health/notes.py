"""Notes on a running query: what its figures hide, and what to do about it. Pure; called by the API."""

from __future__ import annotations

from controlplane.health.context import QueryContext
from controlplane.health.offset_units import reads_per_batch

FOREACH_BATCH = "ForeachBatchSink"


def notes(context: QueryContext) -> list[str]:
    """Sentences for the query's page; empty where there is nothing to note."""
    return [note for note in (_repeated_reads(context),) if note]


def _repeated_reads(context: QueryContext) -> str | None:
    """The batches count each row several times, because the query reads its source several times."""
    times = reads_per_batch(context.batches)
    if times is None or context.last is None:
        return None
    finding = (
        f"Every batch reads its source {times} times, so input rows and rates count each row {times} times"
    )
    if FOREACH_BATCH in context.last.sink:
        return (
            f"{finding}. The foreachBatch function uses its DataFrame {times} times: call persist() on it first and "
            "unpersist() at the end."
        )
    return (
        f"{finding}. The query uses the same DataFrame in several places, for example in a union or a join."
    )
