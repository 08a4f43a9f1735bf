"""Parse the inventories and shapes in agents' events, with limits against hostile documents. Pure.

Called by `controlplane.ingest.service` (for the stored raw event) and by
`controlplane.checkpoints.service`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.checkpoints.inventory.collector import MAX_ENTRIES
from controlplane.checkpoints.inventory.model import Inventory, NotAnInventory, from_json
from controlplane.checkpoints.inventory.relocation import plain_path
from controlplane.checkpoints.survey import Survey
from controlplane.events import progress
from controlplane.model import CheckpointLogs
from controlplane.store.shapes import ShapeOwner
from listeners.protocol.wire import Event

#: The parts of an inventory that are not stored with the raw event.
LISTING_PARTS = ("files", "folders", "contents")
#: Longest plausible collection; a larger reported value is clamped.
MAX_COLLECT_SECONDS = 600.0
#: Limits of a path: characters, as on Linux, and folders; Spark's own files have eight.
MAX_PATH_LENGTH, MAX_FOLDER_DEPTH = 4096, 32


@dataclass(frozen=True)
class ReceivedInventory:
    """An inventory sent by an agent or collected here. `taken_at`: start of the collection, Unix seconds by our clock.

    `inventory`, `output`: documents, not validated yet.
    """

    query_id: str
    run_id: str | None
    taken_at: float
    why: str
    spark_version: str | None
    inventory: Mapping[str, Any]
    output: Mapping[str, Any] | None

    @property
    def weight(self) -> int:
        """Approximate bytes in memory."""
        return _weight(self.inventory) + _weight(self.output)

    @property
    def root(self) -> str:
        """The path of the checkpoint; empty where the document has none."""
        return progress.text(self.inventory.get("root"), 4000) or ""


def _weight(value: Any) -> int:
    own = sys.getsizeof(value)
    if isinstance(value, dict):
        return own + sum(_weight(name) + _weight(inner) for name, inner in value.items())
    return own + sum(map(_weight, value)) if isinstance(value, list) else own


def received_inventory(event: Event) -> ReceivedInventory:
    """The inventory in an event that `controlplane.events.parsing` has validated."""
    data = event.data
    seconds = progress.number(data.get("seconds")) or 0.0
    output = data.get("output")
    return ReceivedInventory(
        query_id=progress.identity(data, "id"),
        run_id=progress.text(data.get("runId"), 64),
        taken_at=event.at - min(max(seconds, 0.0), MAX_COLLECT_SECONDS),
        why=progress.text(data.get("why"), 40) or "unknown",
        spark_version=progress.text(data.get("sparkVersion"), 40) or event.app.spark_version,
        inventory=data["inventory"],
        output=output if isinstance(output, dict) else None,
    )


def received_logs(event: Event) -> tuple[str, CheckpointLogs]:
    """The query id and the newest batches in a `checkpoint_logs` event. `at`: start of the reading, by our clock."""
    data = event.data
    seconds = min(max(progress.number(data.get("seconds")) or 0.0, 0.0), MAX_COLLECT_SECONDS)
    logs = (progress.whole(data.get(name)) for name in ("planned", "committed"))
    return progress.identity(data, "id"), CheckpointLogs(event.at - seconds, *logs)


def survey_from(received: ReceivedInventory) -> Survey:
    """Validate the documents. Raises NotAnInventory."""
    output = None if received.output is None else bounded_inventory(received.output)
    return Survey(bounded_inventory(received.inventory), output)


def bounded_inventory(document: Any) -> Inventory:
    """Parse an untrusted document. Raises NotAnInventory where it is malformed or too large."""
    if isinstance(document, dict):
        listed = (document.get("files"), document.get("folders"))
        if sum(len(part) for part in listed if isinstance(part, list)) > MAX_ENTRIES:
            raise NotAnInventory(f"it lists more than {MAX_ENTRIES:,} entries")
    inventory = from_json(document)
    _check_paths((inventory.root, *inventory.entries, *inventory.contents))
    _check_folders(inventory.entries)
    return inventory


def _check_paths(paths: Iterable[str]) -> None:
    for path in paths:
        if len(path) > MAX_PATH_LENGTH:
            raise NotAnInventory(f"a path in it is longer than {MAX_PATH_LENGTH:,} characters")


def _check_folders(paths: Iterable[str]) -> None:
    """Limit the folders that file paths imply: a short document can name many, and each costs far more to analyze."""
    folders: set[str] = set()
    for path in paths:
        if path.count("/") > MAX_FOLDER_DEPTH:
            raise NotAnInventory(f"a path in it is more than {MAX_FOLDER_DEPTH} folders deep")
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
        if len(folders) > MAX_ENTRIES:
            raise NotAnInventory(f"it names more than {MAX_ENTRIES:,} folders")


def without_listing(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of an inventory event with counts instead of lists and contents, for the stored raw event."""
    return {**data, **{part: _counted(data[part]) for part in ("inventory", "output") if part in data}}


def without_state_rows(document: Any) -> Any:
    """An inventory document for the store: without the contents of state files, which hold users' rows."""
    if not isinstance(document, dict) or not isinstance(document.get("contents"), dict):
        return document
    kept = {path: data for path, data in document["contents"].items() if not _holds_rows(path)}
    return {**document, "contents": kept}


def _holds_rows(path: str) -> bool:
    return path.startswith("state/") and "_metadata/" not in path and "/_stateSchema/" not in path


def _counted(document: Any) -> Any:
    """The document with lists and contents replaced by their counts."""
    if not isinstance(document, dict):
        return document
    counts = {name: len(v) for name in LISTING_PARTS if isinstance(v := document.get(name), list | dict)}
    return {**document, **counts}


def shapes_in_status(event: Event) -> Iterator[tuple[ShapeOwner, Mapping[str, Any]]]:
    """The shapes of runs in a status event, each with its run."""
    for query in progress.items(event.data.get("queries")):
        facts = progress.mapping(query.get("facts"))
        shape = facts.get("shape")
        if isinstance(shape, dict):
            checkpoint = progress.text(facts.get("checkpoint"), 4000)
            yield (
                ShapeOwner(
                    run_id=progress.identity(query, "runId"),
                    query_id=progress.identity(query, "id"),
                    app=event.app.name,
                    name=progress.text(query.get("name"), 256),
                    checkpoint=normalized_path(checkpoint),
                    at=event.at,
                ),
                shape,
            )


def normalized_path(checkpoint: str | None) -> str | None:
    """A checkpoint's path as the key of shapes: the same for `file:/a`, `file:///a` and `/a`."""
    return plain_path(checkpoint) if checkpoint else None
