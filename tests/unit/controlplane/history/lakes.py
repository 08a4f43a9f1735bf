"""A store's events in a lake without Spark: the tasks of the job, run one after the other in this process."""

from __future__ import annotations

from pathlib import Path

from controlplane.history import offload_commits
from controlplane.history.offload_commits import JOB, EventRange, OffloadCounts
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import Commit
from controlplane.pipeline.offload.event_export import Task, carry
from controlplane.store import offload_marks, retention
from tests.stores import House


def moved_to(house: House, folder: Path, cutoff: float) -> Commit:
    """Move what is older than `cutoff` to the lake in `folder`; the commit."""
    lake = Lake.open(str(folder), create=True)
    house.write(offload_marks.store_id)
    store = house.read(offload_marks.moving_name)
    mark = house.read(offload_marks.value, offload_marks.SAFE) or 0
    until = house.read(offload_marks.last_aged, mark, cutoff)
    stretch = EventRange(store, mark, until)
    staging = lake.stage(JOB, stretch.batch)
    parts, account = [], OffloadCounts()
    for number, cut in enumerate(_pieces(stretch)):
        written, counted = carry(Task(number, cut, staging, house.url, str(folder)))
        parts, account = [*parts, *written], account + counted
    return lake.commit(staging, parts, offload_commits.facts(stretch, account))


def _pieces(stretch: EventRange) -> list[EventRange]:
    middle = (stretch.after + stretch.until) // 2
    return [
        EventRange(stretch.store, stretch.after, middle),
        EventRange(stretch.store, middle, stretch.until),
    ]


def forget(house: House, cutoff: float, until: int) -> int:
    """What the server does once the commit is verified; how many events left the store."""
    house.write(offload_marks.raise_to, offload_marks.SAFE, until)
    kept = 10_000 * 86400.0
    return retention.prune(house.writer, house.now, kept, 2**40, hot_seconds=house.now - cutoff).events
