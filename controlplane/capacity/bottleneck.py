"""What most of a batch's time goes to. Pure.

Spark reports the phases of a batch. Within `addBatch`, the tasks, it reports the commits of state, as a sum over all
tasks; its report does not separate reading, computing and writing to the sink.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from controlplane.capacity.model import BatchPart, Bottleneck
from controlplane.health.formatting import span
from controlplane.model import ProgressSample, QueryView

#: Part -> Spark's phases.
PHASES: Mapping[str, tuple[str, ...]] = {
    "source": ("latestOffset", "getOffset", "setOffsetRange", "getEndOffset", "getBatch"),
    "planning": ("queryPlanning",),
    "logs": ("walCommit", "commitOffsets", "commitBatch"),
    "tasks": ("addBatch",),
}
NAMES = {
    "source": "finding new data at the source",
    "planning": "planning",
    "logs": "writing the offset and commit logs",
    "tasks": "tasks (reading, computing, writing to the sink)",
    "state_commit": "committing state",
    "skewed_partition": "tasks, which wait for one partition",
    "other": "what Spark reports in no phase",
}
#: A partition is skewed if it has so many times as many rows as the mean of the others.
SKEW_FACTOR = 3.0
MAX_CPUS = 1024


def bottleneck(view: QueryView, batches: Sequence[ProgressSample]) -> Bottleneck | None:
    """The part with most of the time of these batches; None where they report no time."""
    total = sum(sample.duration for sample in batches)
    if not batches or not math.isfinite(total) or total <= 0:
        return None
    slots = task_slots(view)
    seconds = {name: sum(_seconds(s, name) for s in batches) for name in PHASES}
    commits = min(seconds["tasks"], sum(commit_seconds(s, slots) for s in batches))
    seconds |= {"tasks": seconds["tasks"] - commits, "state_commit": commits}
    seconds["other"] = max(0.0, total - sum(seconds.values()))
    scale = max(total, sum(seconds.values()))
    found = [BatchPart(n, s / len(batches), s / scale) for n, s in seconds.items() if s > 0]
    parts = sorted(found, key=lambda part: -part.seconds)
    skewed = skew(batches) if parts[0].name == "tasks" else None
    name = "skewed_partition" if skewed else parts[0].name
    return Bottleneck(name, parts[0].ratio, _sentence(name, parts[0], len(batches), skewed), parts)


def _seconds(sample: ProgressSample, part: str) -> float:
    return sum(max(0, sample.phases_ms.get(phase, 0)) for phase in PHASES[part]) / 1000


def task_slots(view: QueryView) -> int | None:
    """How many tasks run at once; None where it is unknown, as on a cluster."""
    master = view.agent.master if view.agent else None
    if master == "local":
        return 1
    if not master or not master.startswith("local["):
        return None
    number = master[6:].rstrip("]").split(",")[0]
    if number == "*":
        cpus = view.host.cpus if view.host and not view.host.of_client else None
        return int(cpus) if cpus is not None and 1 <= cpus <= MAX_CPUS else None
    return int(number) if number.isdecimal() and 1 <= int(number) <= MAX_CPUS else None


def commit_seconds(sample: ProgressSample, slots: int | None) -> float:
    """Seconds of a batch in which state was committed: the mean of a store, once for each wave of tasks.

    Where the number of tasks at once is unknown that is one wave, a lower bound.
    """
    found = 0.0
    for operator in sample.operators:
        stores = operator.shuffle_partitions or 0
        if stores > 0:
            waves = math.ceil(stores / slots) if slots else 1
            found += operator.commit_ms / 1000 / stores * waves
    return found


def skew(batches: Sequence[ProgressSample]) -> tuple[str, float, int] | None:
    """The partition that has most rows of a source: its name, its share, and the number of partitions; None if even."""
    for read in _rows_by_partition(batches):
        total, largest = sum(read.values()), max(read, key=read.__getitem__)
        others = (total - read[largest]) / max(1, len(read) - 1)
        if len(read) > 1 and total > 0 and read[largest] >= SKEW_FACTOR * others:
            return largest, read[largest] / total, len(read)
    return None


def _rows_by_partition(batches: Sequence[ProgressSample]) -> Iterator[dict[str, float]]:
    for index in range(len(batches[-1].sources)):
        read: dict[str, float] = {}
        for sample in batches:
            source = sample.sources[index] if index < len(sample.sources) else None
            start, end = (source.start or {}, source.end or {}) if source else ({}, {})
            for part in start.keys() & end.keys():
                rows = end[part] - start[part]
                read[part] = read.get(part, 0.0) + (max(0.0, rows) if math.isfinite(rows) else 0.0)
        if read:
            yield read


def _sentence(name: str, part: BatchPart, count: int, skewed: tuple[str, float, int] | None) -> str:
    most = f"Most of a batch is {NAMES[name]}: {span(part.seconds)} on average, {part.ratio:.0%} of the time of {count} batches."
    if skewed is None:
        return most
    return f"{most} {skewed[0]} has {skewed[1]:.0%} of the rows of {skewed[2]} partitions."
