"""One inventory under way, and the event that tells of it.

Called by `listeners.checkpoints.inventories`, which says when; `listeners.checkpoints.inventory_reader` says what.
"""

from __future__ import annotations

import time
from typing import Any, Callable

from listeners.checkpoints.hadoop import Files
from listeners.checkpoints.inventory_policy import InventoryBudget
from listeners.checkpoints.inventory_reader import Bounds, DriverInventory, collect, output_of
from listeners.protocol import wire
from listeners.protocol.errors import CommandError
from listeners.queries.registry import RegisteredQuery
from listeners.spark import classic

#: The server takes lines of 4 MiB.
MOST_BYTES = 3_900_000
OUTPUT_BOUNDS = Bounds(entries=2000, names=300_000, contents=InventoryBudget(files=200, bytes=256 << 10))


class Collecting:
    """One inventory under way, on a thread of its own: it may hang in a file system, what it saw does not."""

    def __init__(
        self,
        entry: RegisteredQuery,
        bounds: Bounds,
        open_files: Callable[[Any, str], Files],
        clock: Callable[[], float],
        rows: bool,
    ):
        self._entry, self._bounds, self._open, self._clock = entry, bounds, open_files, clock
        self._rows = rows
        self._deadline = clock() + bounds.seconds
        self.checkpoint: DriverInventory | None = None
        self.output: DriverInventory | None = None
        self.error: Exception | None = None
        self.spark_version: str | None = None

    def run(self) -> None:
        try:
            self._collect()
        except Exception as error:
            self.error = error

    def _collect(self) -> None:
        session, run = self._entry.session, self._entry.run
        if getattr(session, "_jsparkSession", None) is None:
            raise refusal("unsupported_session", "a Spark Connect client does not see the checkpoint's files")
        place = run.checkpoint()
        if not place:
            raise refusal("unknown_checkpoint", "Spark does not tell where its checkpoint is")
        if classic.is_temporary(place):
            raise refusal("temporary_checkpoint", "it has no checkpointLocation; its checkpoint is temporary")
        self.spark_version = str(session.version)
        output = output_of(run.facts().get("sink"))
        sink = self._inventory(output, OUTPUT_BOUNDS) if output else None
        self.checkpoint, self.output = self._inventory(place, self._bounds), sink
        collect(self.checkpoint, sink, self._rows)

    def _inventory(self, place: str, bounds: Bounds) -> DriverInventory:
        return DriverInventory(self._open(self._entry.session, place), bounds, self._deadline, self._clock)


def event_of(entry: RegisteredQuery, run_id: str, why: str, seconds: float, found: Collecting) -> str:
    """The event's data as JSON text, short enough for a line."""
    assert found.checkpoint is not None
    now = time.time()
    document: dict[str, Any] = {
        "id": entry.query_id,
        "runId": run_id,
        "name": entry.name,
        "why": why,
        "sparkVersion": found.spark_version,
        "seconds": seconds,
        "files": found.checkpoint.count,
        "bytes": found.checkpoint.bytes,
        "inventory": found.checkpoint.document(now, found.spark_version),
        "output": None if found.output is None else found.output.document(now, found.spark_version),
    }
    return shortened(document)


def shortened(document: dict[str, Any]) -> str:
    """Names of a kind that swell in JSON could make it too long: then the contents go, then the names."""
    text = wire.dumps(document)
    steps: tuple[dict[str, Any], ...] = ({"contents": {}}, {"files": [], "folders": [], "complete": False})
    for less in steps:
        if len(text.encode("utf-8", "replace")) <= MOST_BYTES:
            break
        said = [*document["inventory"]["errors"], "it is too large to be told whole"]
        document = {
            **document,
            "output": None,
            "inventory": {**document["inventory"], **less, "errors": said},
        }
        text = wire.dumps(document)
    return text


def refusal(code: str, message: str) -> CommandError:
    return CommandError(code, message, refused=True)
