"""Batches that Spark ran and nobody reported: holes in the ids of a query's reports. Pure.

Called by `controlplane.events.lifecycle` for each report, by `controlplane.events.run_resolution` for what has stood long enough.
A batch that comes again is no hole, a report that comes late closes one; nothing is assumed below the first
report heard of (the one thing that hangs on the order of arrival). Why: decision 28.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from controlplane.records import Gap, ReportedBatches

#: Beyond this a query's oldest gaps are forgotten: first those that count already, then the others count at once.
MAX_GAPS = 50
#: A spool that a dead driver left needs this long to be found and sent; then the gap counts for good.
GRACE_SECONDS = 120.0
CONTINUOUS = "continuous"


def record_report(known: ReportedBatches, run_id: str, batch_id: int, now: float) -> ReportedBatches:
    """What is known after a report of this batch."""
    high = known.high
    if high is None:
        return replace(known, high=batch_id)
    if batch_id > high:
        hole = (Gap(run_id, high + 1, batch_id - 1, now),) if batch_id > high + 1 else ()
        return _bounded(replace(known, high=batch_id, gaps=known.gaps + hole))
    if any(gap.first <= batch_id <= gap.last for gap in known.gaps):
        return _bounded(replace(known, gaps=tuple(_without(known.gaps, batch_id))))
    return known


def _bounded(known: ReportedBatches) -> ReportedBatches:
    excess = len(known.gaps) - MAX_GAPS
    if excess <= 0:
        return known
    gone = sorted(known.gaps, key=lambda gap: not gap.counted)[:excess]  # stable: the oldest of each kind
    uncounted = sum(gap.size for gap in gone if not gap.counted)
    kept = tuple(gap for gap in known.gaps if gap not in gone)
    return replace(known, gaps=kept, forgotten=known.forgotten + uncounted)


def _without(gaps: tuple[Gap, ...], batch_id: int) -> Iterator[Gap]:
    for gap in gaps:
        if not gap.first <= batch_id <= gap.last:
            yield gap
            continue
        if gap.first < batch_id:
            yield replace(gap, last=batch_id - 1)
        if batch_id < gap.last:
            yield replace(gap, first=batch_id + 1)


def count_overdue(known: ReportedBatches, now: float, trigger: str | None) -> tuple[ReportedBatches, int]:
    """Gaps that have stood for the grace become counted; how many batches that adds. Never taken back.

    `trigger`: that of the newest run, as its facts tell it; in continuous mode there are no gaps.
    """
    if trigger == CONTINUOUS:
        return replace(known, gaps=(), forgotten=0), 0
    late = [gap for gap in known.gaps if not gap.counted and now - gap.seen_at >= GRACE_SECONDS]
    if not late and not known.forgotten:
        return known, 0
    gaps = tuple(replace(gap, counted=True) if gap in late else gap for gap in known.gaps)
    return replace(known, gaps=gaps, forgotten=0), sum(gap.size for gap in late) + known.forgotten
