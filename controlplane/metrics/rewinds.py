"""Batches and rows that a query processes a second time, because its position has gone back. Pure.

A batch normally begins where the one before it ended. It begins earlier where a topic was created anew, or where the
checkpoint was rolled back or lost a part. Called by `controlplane.metrics.samples`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, takewhile

from controlplane.model import ProgressSample, SourceSample
from listeners.protocol.catalogue import PREFIX

#: Seconds for which a step back is reported, or until the next batch: longer than a slot of the grid.
VISIBLE_SECONDS = 30.0
METRICS = frozenset((PREFIX + "rewound_batches", PREFIX + "source_rewound_rows"))
Step = tuple[ProgressSample, ProgressSample]


def recent_steps(progress: Sequence[ProgressSample], batches: Sequence[ProgressSample]) -> list[Step]:
    """The last batches of the newest run (`batches`), newest first, each with the one before it.

    The first batch of a run follows the last batch of earlier runs; `progress` is that of all runs, oldest first.
    """
    last = batches[-1]
    recent = list(takewhile(lambda sample: sample.at >= last.at - VISIBLE_SECONDS, reversed(batches)))
    if len(recent) < len(batches):
        return list(pairwise([*recent, batches[-len(recent) - 1]]))
    others = (sample for sample in reversed(progress) if sample.run_id != last.run_id)
    return list(pairwise([*recent, *(sample for sample in [next(others, None)] if sample)]))


def rewound_batches(steps: Sequence[Step]) -> int:
    """How many ids of batches the query has gone back; 0 if none."""
    return max((0, *(before.batch_id - after.batch_id for after, before in steps)))


def rewound_offsets(steps: Sequence[Step], index: int) -> float:
    """By how many offsets a batch began before the end of the batch before it, over all partitions; 0.0 if it did not.

    `index`: the position of the source in the newest batch.
    """
    return max((sum(_overlaps(*pair)) for pair in _pairs(steps, index)), default=0.0)


def _pairs(steps: Sequence[Step], index: int) -> Iterator[tuple[SourceSample, SourceSample]]:
    """The source in both batches of each step; another run may have had other sources."""
    for after, before in steps:
        if index < min(len(after.sources), len(before.sources)):
            now, then = after.sources[index], before.sources[index]
            if now.name == then.name:
                yield now, then


def _overlaps(after: SourceSample, before: SourceSample) -> Iterator[float]:
    starts: Mapping[str, float] = after.start or {}
    ends: Mapping[str, float] = before.end or {}
    return (ends[part] - start for part, start in starts.items() if start < ends.get(part, start))
