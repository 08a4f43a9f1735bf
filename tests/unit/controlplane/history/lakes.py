"""A store's events in a lake without Spark: the tasks of the job, run one after the other in this process."""

from __future__ import annotations

from pathlib import Path

from controlplane.history import moved
from controlplane.history.moved import JOB, Account, Stretch
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import Commit
from controlplane.pipeline.departing import Task, carry
from controlplane.store import departures, retention
from tests.stores import House


def moved_to(house: House, folder: Path, cutoff: float) -> Commit:
    """Move what is older than `cutoff` to the lake in `folder`; the commit."""
    lake = Lake.open(str(folder), create=True)
    house.write(departures.store_id)
    store = house.read(departures.moving_name)
    mark = house.read(departures.value, departures.SAFE) or 0
    until = house.read(departures.last_aged, mark, cutoff)
    stretch = Stretch(store, mark, until)
    staging = lake.stage(JOB, stretch.batch)
    parts, account = [], Account()
    for number, cut in enumerate(_pieces(stretch)):
        written, counted = carry(Task(number, cut, staging, house.url, str(folder)))
        parts, account = [*parts, *written], account + counted
    return lake.commit(staging, parts, moved.facts(stretch, account))


def _pieces(stretch: Stretch) -> list[Stretch]:
    middle = (stretch.after + stretch.until) // 2
    return [Stretch(stretch.store, stretch.after, middle), Stretch(stretch.store, middle, stretch.until)]


def forget(house: House, cutoff: float, until: int) -> int:
    """What the server does once the commit is verified; how many events left the store."""
    house.write(departures.raise_to, departures.SAFE, until)
    kept = 10_000 * 86400.0
    return retention.prune(house.writer, house.now, kept, 2**40, hot_seconds=house.now - cutoff).events
