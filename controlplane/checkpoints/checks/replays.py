"""Check of the batch that runs again: whether a sink gets its rows twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controlplane.checkpoints.checks.logs import sparse
from controlplane.checkpoints.findings import Finding, note, results_change
from controlplane.checkpoints.reading.checkpoint import CheckpointView


def in_flight(view: CheckpointView) -> Iterator[Finding]:
    """`log.inflight`: batch N was planned but not committed, so it runs again."""
    n = view.planned
    if n is None or not view.in_flight or sparse(view):
        return
    planned = dict(view.last.offsets) if view.last else {}
    evidence: dict[str, Any] = {"batch": n, "offsets": planned, "state_written": finished(view)}
    if view.sink is not None and view.sink.newest is not None and view.sink.newest >= n:
        message = f"Batch {n} runs again. The file sink already has it and skips it."
        yield note("log.inflight", message, **evidence)
    elif finished(view):
        message = (
            f"Batch {n} finished (its state is written) but was not committed. It runs again, and a sink that does not "
            "track batch numbers (foreachBatch, Kafka, HTTP) gets its rows twice."
        )
        remedy = [
            "if the sink tracks batch numbers or overwrites: start the query",
            f"else delete the rows of batch {n} from the target before the start",
        ]
        yield results_change("log.inflight", message, remedy=remedy, **evidence)
    else:
        message = (
            f"Batch {n} was planned but not committed, as after a kill. It runs again with the same input."
        )
        remedy = ["if the sink does not track batch numbers, check whether it took a part of the batch"]
        yield note("log.inflight", message, remedy=remedy, **evidence)


def finished(view: CheckpointView) -> bool:
    """Whether every store has the version that the uncommitted batch writes: it had finished its work."""
    stores = [store for operator in view.operators for store in operator.stores.values()]
    wanted = view.next_batch + 1
    return bool(stores) and all(any(f.version == wanted for f in store.files) for store in stores)
