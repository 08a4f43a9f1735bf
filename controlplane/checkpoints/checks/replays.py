"""The batch that runs again: who gets it twice, and which files it still needs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controlplane.checkpoints.checks.logs import sparse
from controlplane.checkpoints.findings import Finding, note, results_change
from controlplane.checkpoints.reading.checkpoint import CheckpointView


def in_flight(view: CheckpointView) -> Iterator[Finding]:
    """`log.inflight`: batch N was planned and not committed, so it runs again."""
    n = view.planned
    if n is None or not view.in_flight or sparse(view):
        return
    planned = dict(view.last.offsets) if view.last else {}
    evidence: dict[str, Any] = {"batch": n, "offsets": planned, "state_written": finished(view)}
    if view.sink is not None and view.sink.newest is not None and view.sink.newest >= n:
        message = f"batch {n} runs again; the file sink has it already and skips it"
        yield note("log.inflight", message, **evidence)
    elif finished(view):
        message = (
            f"batch {n} ran to its end (its state is written) but was not committed: it runs again, and a sink that "
            "does not know the batch by its number (foreachBatch, Kafka, HTTP) gets its rows twice"
        )
        remedy = [
            "if the sink keeps batch numbers, or overwrites: just start",
            f"else take the rows of batch {n} out of the target before the start",
        ]
        yield results_change("log.inflight", message, remedy=remedy, **evidence)
    else:
        message = (
            f"batch {n} was planned and not committed, as after a kill: it runs again, with the same input"
        )
        remedy = ["with a sink that does not know batches by their number, look whether it took a part of it"]
        yield note("log.inflight", message, remedy=remedy, **evidence)


def finished(view: CheckpointView) -> bool:
    """Whether every store has the version that the batch in flight writes: its work was done."""
    stores = [store for operator in view.operators for store in operator.stores.values()]
    wanted = view.next_batch + 1
    return bool(stores) and all(any(f.version == wanted for f in store.files) for store in stores)
