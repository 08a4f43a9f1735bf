"""Truncate a checkpoint, and a file sink's log, after a batch: the removal steps. Pure.

A file source's log has ids of its own, not batch numbers; the offset log names the last entry to keep.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.reading import logs
from controlplane.checkpoints.reading.checkpoint import CheckpointView
from controlplane.checkpoints.reading.file_logs import COMPACT, FileLog
from controlplane.checkpoints.reading.logs import OffsetEntry
from controlplane.checkpoints.repair.errors import Impossible
from controlplane.checkpoints.repair.steps import (
    CHECKPOINT,
    OUTPUT,
    Prune,
    Remove,
    Step,
    removal_steps,
    write_steps,
)


@dataclass(frozen=True)
class CutPoint:
    """The first batch to remove from each log, and the newest state version to keep.

    `last`: the entry that becomes the newest of the offset log; None where none stays.
    """

    offsets: int
    commits: int
    state: int
    last: OffsetEntry | None


def truncation_steps(view: CheckpointView, cut: CutPoint, *, sources: bool = True) -> Iterator[Step]:
    """Remove everything beyond the cut: state first, the logs that point to it last. Raises Impossible.

    sources: also cut the logs of file sources; else the next batch reads what they are ahead.
    """
    inventory = view.inventory
    yield from _state(view, cut.state)
    for name, log in view.sources.items() if sources else ():
        yield from cut_source(log, last_kept_entry(cut.last, name))
    for batches, first in ((view.commits, cut.commits), (view.offsets, cut.offsets)):
        paths = [f"{batches.folder}/{batch}" for batch in reversed(batches.batches) if batch >= first]
        yield from removal_steps(inventory, CHECKPOINT, paths)


def last_kept_entry(last: OffsetEntry | None, source: str) -> int:
    """The last entry of a file source's log to keep; -1: none."""
    offset = logs.log_offset(last.offsets.get(source)) if last else None
    return -1 if offset is None else offset


def _state(view: CheckpointView, newest: int) -> Iterator[Step]:
    """Remove state beyond a version: a leftover snapshot would be loaded under the changes of the new batches."""
    if newest == 0:
        yield from _all_state(view.inventory)
        return
    for operator in view.operators:
        for store in operator.stores.values():
            beyond = [file.path for file in store.files if file.version > newest]
            yield from removal_steps(view.inventory, CHECKPOINT, beyond)
        later = _operator_metadata(view.inventory, f"{operator.folder}/_metadata/v2", newest)
        yield from removal_steps(view.inventory, CHECKPOINT, later)


def _all_state(inventory: Inventory) -> Iterator[Step]:
    """Remove everything below state/ with its folders: Spark needs it empty at batch 0."""
    inside = [path for path in inventory.entries if path.startswith("state/")]
    yield from (Remove(CHECKPOINT, path) for path in inside if inventory.is_file(path))
    folders = [path for path in inside if inventory.entries[path].folder]
    yield from (Prune(CHECKPOINT, path) for path in sorted(folders, key=len, reverse=True))


def _operator_metadata(inventory: Inventory, folder: str, newest: int) -> Iterator[str]:
    """Metadata files of transformWithState from later batches, if an earlier one stays."""
    batches = sorted(int(name) for name in inventory.names(folder) if name.isascii() and name.isdigit())
    if batches and batches[0] < newest:
        yield from (f"{folder}/{batch}" for batch in batches if batch >= newest)


def cut_source(log: FileLog, keep: int) -> Iterator[Step]:
    """Cut a file source's log after entry `keep`; rewrites entries that only a later compaction holds."""
    beyond, rest = _beyond(log, keep), _shortened(log, keep)
    for batch in _lacking(rest, keep) if beyond else ():
        content = _rebuilt(log, batch, rest.is_compaction(batch))
        yield from write_steps(log.inventory, CHECKPOINT, rest.name_of(batch), content)
    yield from removal_steps(log.inventory, CHECKPOINT, beyond)


def cut_sink(output: Inventory, log: FileLog, first: int, *, data: bool) -> Iterator[Step]:
    """Cut a file sink's log from batch `first` on; with `data`, also remove the files that only those entries name."""
    beyond, rest = _beyond(log, first - 1), _shortened(log, first - 1)
    lacking = _lacking(rest, first - 1) if beyond else []
    if lacking:
        raise Impossible(
            f"the file sink's log cannot be cut at batch {first}: {rest.name_of(lacking[0])} no longer exists, "
            "and a later compaction does not record the batch of a file"
        )
    yield from removal_steps(output, OUTPUT, beyond)
    if data:
        yield from removal_steps(output, OUTPUT, orphaned_files(output, log, first))


def _lacking(rest: FileLog, newest: int) -> list[int]:
    """Missing entries that Spark reads when it opens a log that ends at `newest`."""
    start = max(0, (newest + 1) // rest.interval * rest.interval - 1)
    return [batch for batch in range(start, newest + 1) if rest.path_of(batch) is None]


def orphaned_files(output: Inventory, log: FileLog, first: int) -> list[str]:
    """Data files that only the log entries from batch `first` on name."""
    last_kept_entry = set(_shortened(log, first - 1).known)
    names = {path.rpartition("/")[2] for path in log.known if path not in last_kept_entry}
    held = {path.rpartition("/")[2]: path for path, entry in output.entries.items() if not entry.folder}
    return sorted(held[name] for name in names if name in held)


def _beyond(log: FileLog, keep: int) -> list[str]:
    """Paths of the entries after `keep`, newest first, so that an interrupted cut leaves no gaps."""
    found = {path: batch for held in (log.plain, log.compacted) for batch, path in held.items()}
    return sorted((p for p, batch in found.items() if batch > keep), key=lambda p: -found[p])


def _shortened(log: FileLog, keep: int) -> FileLog:
    return FileLog(
        log.inventory,
        log.folder,
        {batch: path for batch, path in log.plain.items() if batch <= keep},
        {batch: path for batch, path in log.compacted.items() if batch <= keep},
    )


def _rebuilt(log: FileLog, batch: int, compaction: bool) -> bytes:
    """Rebuild an entry from the next compaction, whose records have their batch. Raises Impossible."""
    name = f"{log.folder}/{batch}{COMPACT if compaction else ''}"
    later = min((b for b in log.compacted if b > batch), default=None)
    text = None if later is None else log.inventory.text(log.compacted[later])
    if text is None:
        raise Impossible(f"{name} no longer exists, and no readable later compaction holds it")
    head, *lines = text.splitlines()
    chosen = [line for line in lines if _belongs(line, batch, compaction)]
    if not chosen:
        raise Impossible(f"{name} no longer exists, and {log.compacted[later or 0]} has no record of it")
    return "\n".join((head, *chosen)).encode()


def _belongs(line: str, batch: int, compaction: bool) -> bool:
    try:
        number = json.loads(line).get("batchId")
    except (ValueError, AttributeError, RecursionError):
        return False
    return isinstance(number, int) and (number <= batch if compaction else number == batch)
