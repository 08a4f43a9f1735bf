"""A store's events in a lake without Spark: the tasks of the job, run one after the other in this process."""

from __future__ import annotations

from pathlib import Path

from controlplane.history import offload_commits
from controlplane.history.offload_commits import JOB, EventRange, OffloadCounts
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import Commit
from controlplane.pipeline.offload.event_export import OffloadTask, export_events
from controlplane.store import offload_marks, retention
from tests.stores import StoreHarness


def moved_to(harness: StoreHarness, folder: Path, cutoff: float) -> Commit:
    """Move what is older than `cutoff` to the lake in `folder`; the commit."""
    lake = Lake.open(str(folder), create=True)
    harness.write(offload_marks.store_id)
    store = harness.read(offload_marks.offload_name)
    mark = harness.read(offload_marks.value, offload_marks.OFFLOADED_UNTIL) or 0
    until = harness.read(offload_marks.last_id_before, mark, cutoff)
    stretch = EventRange(store, mark, until)
    staging = lake.stage(JOB, stretch.batch)
    parts, account = [], OffloadCounts()
    for number, cut in enumerate(_pieces(stretch)):
        written, counted = export_events(OffloadTask(number, cut, staging, harness.url, str(folder)))
        parts, account = [*parts, *written], account + counted
    return lake.commit(staging, parts, offload_commits.commit_facts(stretch, account))


def _pieces(stretch: EventRange) -> list[EventRange]:
    middle = (stretch.after + stretch.until) // 2
    return [
        EventRange(stretch.store, stretch.after, middle),
        EventRange(stretch.store, middle, stretch.until),
    ]


def forget(harness: StoreHarness, cutoff: float, until: int) -> int:
    """What the server does once the commit is verified; how many events left the store."""
    harness.write(offload_marks.raise_to, offload_marks.OFFLOADED_UNTIL, until)
    kept = 10_000 * 86400.0
    return retention.prune(harness.writer, harness.now, kept, 2**40, hot_seconds=harness.now - cutoff).events
