"""Collect one checkpoint inventory and encode it as an `inventory` event, or its logs as `checkpoint_logs`.

`listeners.checkpoints.inventories` decides when; `listeners.checkpoints.inventory_reader` reads the files.
"""

from __future__ import annotations

import time
from typing import Any, Callable

from listeners.checkpoints.hadoop import DirectoryReader
from listeners.checkpoints.inventory_policy import InventoryBudget
from listeners.checkpoints.inventory_reader import (
    Bounds,
    DriverInventory,
    collect,
    newest_batches,
    output_location,
)
from listeners.protocol import wire
from listeners.protocol.errors import CommandError
from listeners.queries.registry import RegisteredQuery
from listeners.spark import classic

#: The server accepts lines of up to 4 MiB.
MAX_EVENT_BYTES = 3_900_000
OUTPUT_BOUNDS = Bounds(entries=2000, names=300_000, contents=InventoryBudget(files=200, bytes=256 << 10))


class InventoryCollection:
    """One inventory in progress, on a thread of its own.

    If a file system hangs, what was read so far remains. `logs_only`: only the newest batches are read, into `logs`.
    """

    def __init__(
        self,
        entry: RegisteredQuery,
        bounds: Bounds,
        open_files: Callable[[Any, str], DirectoryReader],
        clock: Callable[[], float],
        rows: bool,
        logs_only: bool = False,
    ):
        self._entry, self._bounds, self._open, self._clock = entry, bounds, open_files, clock
        self._rows, self._logs_only = rows, logs_only
        self.logs: dict[str, int | None] | None = None
        self._deadline = clock() + bounds.seconds
        self.checkpoint: DriverInventory | None = None
        self.output: DriverInventory | None = None
        self.error: Exception | None = None
        self.spark_version: str | None = None

    def run(self) -> None:
        """Collect; the result is in `checkpoint` and `output`, or the reason for its absence in `error`."""
        try:
            self._collect()
        except Exception as error:
            self.error = error

    def _collect(self) -> None:
        session, run = self._entry.session, self._entry.run
        if getattr(session, "_jsparkSession", None) is None:
            raise refusal("unsupported_session", "a Spark Connect client cannot read the checkpoint's files")
        location = run.checkpoint()
        if not location:
            raise refusal("unknown_checkpoint", "Spark does not report the checkpoint's location")
        if classic.is_temporary(location):
            raise refusal(
                "temporary_checkpoint", "the query has no checkpointLocation; its checkpoint is temporary"
            )
        if self._logs_only:
            self.logs = newest_batches(self._open(session, location), self._bounds.entries)
            return
        self.spark_version = str(session.version)
        output = output_location(run.facts().get("sink"))
        sink = self._inventory(output, OUTPUT_BOUNDS) if output else None
        self.checkpoint, self.output = self._inventory(location, self._bounds), sink
        collect(self.checkpoint, sink, self._rows)

    def _inventory(self, location: str, bounds: Bounds) -> DriverInventory:
        return DriverInventory(self._open(self._entry.session, location), bounds, self._deadline, self._clock)


def inventory_event(
    entry: RegisteredQuery, run_id: str, reason: str, seconds: float, collection: InventoryCollection
) -> str:
    """The event's `data` as JSON text, short enough for one line."""
    assert collection.checkpoint is not None
    now = time.time()
    document: dict[str, Any] = {
        "id": entry.query_id,
        "runId": run_id,
        "name": entry.name,
        "why": reason,
        "sparkVersion": collection.spark_version,
        "seconds": seconds,
        "files": collection.checkpoint.count,
        "bytes": collection.checkpoint.bytes,
        "inventory": collection.checkpoint.document(now, collection.spark_version),
        "output": None
        if collection.output is None
        else collection.output.document(now, collection.spark_version),
    }
    return fit_to_line(document)


def logs_event(entry: RegisteredQuery, run_id: str, seconds: float, logs: dict[str, int | None]) -> str:
    """The data of a `checkpoint_logs` event as JSON text."""
    ids = {"id": entry.query_id, "runId": run_id, "name": entry.name}
    return wire.dumps({**ids, "seconds": round(seconds, 3), **logs})


def fit_to_line(document: dict[str, Any]) -> str:
    """Encode the document in at most MAX_EVENT_BYTES: leave out the contents first, then the names."""
    text = wire.dumps(document)
    steps: tuple[dict[str, Any], ...] = ({"contents": {}}, {"files": [], "folders": [], "complete": False})
    for replacement in steps:
        if len(text.encode("utf-8", "replace")) <= MAX_EVENT_BYTES:
            break
        errors = [*document["inventory"]["errors"], "the inventory is too large to send in full"]
        document = {
            **document,
            "output": None,
            "inventory": {**document["inventory"], **replacement, "errors": errors},
        }
        text = wire.dumps(document)
    return text


def refusal(code: str, message: str) -> CommandError:
    """A CommandError for a command that was refused; nothing was changed."""
    return CommandError(code, message, refused=True)
