"""Signs of a process that writes to a checkpoint: two listings that differ, recent temporary files. Pure.

An idle query writes nothing; only a server that knows the query can detect it.
"""

from __future__ import annotations

from controlplane.checkpoints.findings import plural
from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.reading.checkpoint import CheckpointView
from controlplane.checkpoints.reading.logs import OffsetEntry

MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 10.0, 60.0
#: A younger temporary file may belong to a write in progress.
FRESH_SECONDS = 60.0
#: Query statuses in which the query runs or will restart by itself.
RUNNING = ("starting", "running", "idle", "busy", "lagging", "stuck", "restarting", "backing_off")


def pause_seconds(view: CheckpointView) -> float:
    """Seconds between two listings: twice the time between the last two batches, within bounds."""
    times = [
        entry.timestamp_ms / 1000
        for entry in (view.last, view.previous)
        if isinstance(entry, OffsetEntry) and entry.timestamp_ms > 0
    ]
    apart = times[0] - times[1] if len(times) == 2 else 0.0
    return min(max(2 * apart, MIN_PAUSE_SECONDS), MAX_PAUSE_SECONDS)


def writer_signs(first: Inventory, second: Inventory) -> list[str]:
    """Signs of a writer in two listings of a checkpoint; empty: none."""
    found = [f"{path} {how}" for path, how in sorted(changes(first, second).items())]
    writer_signs = (
        [f"{plural(len(found), 'file')} changed between two listings: {', '.join(found[:3])}"]
        if found
        else []
    )
    return writer_signs + _fresh(second)


def changes(first: Inventory, second: Inventory) -> dict[str, str]:
    """File path → appeared, vanished or changed."""
    before, now = _files(first), _files(second)
    new = dict.fromkeys(now.keys() - before.keys(), "appeared")
    gone = dict.fromkeys(before.keys() - now.keys(), "vanished")
    other = {path: "changed" for path in now.keys() & before.keys() if now[path] != before[path]}
    return new | gone | other


def _files(inventory: Inventory) -> dict[str, tuple[int, float | None]]:
    return {p: (e.size, e.modified) for p, e in inventory.entries.items() if not e.folder}


def _fresh(inventory: Inventory) -> list[str]:
    young = inventory.collected_at - FRESH_SECONDS
    found = [
        path
        for path, entry in sorted(inventory.entries.items())
        if path.endswith(".tmp") and not entry.folder and (entry.modified or 0) > young
    ]
    return [f"a temporary file is less than a minute old: {found[0]}"] if found else []
