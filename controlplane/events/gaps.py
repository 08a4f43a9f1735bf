"""Batches that Spark ran but no agent reported: gaps in the batch ids of a query. Pure.

`controlplane.events.lifecycle` records each report; `controlplane.events.run_resolution` counts gaps after a
grace period. A repeated batch is no gap, and a late report closes one. Nothing is assumed about batches below
the first report received, the only result that depends on the order of arrival. Why: decision 28.
"""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.records import Gap, ReportedBatches, changed

#: Beyond this, a query's oldest gaps are dropped: first those already counted; the others are counted at
#: once.
MAX_GAPS = 50
#: Time in which the spool of a dead driver is found and sent; after it the gap is counted for good.
GRACE_SECONDS = 120.0
CONTINUOUS = "continuous"


def record_report(known: ReportedBatches, run_id: str, batch_id: int, now: float) -> ReportedBatches:
    """Record a report of this batch. `now`: Unix seconds."""
    high = known.high
    if high is None:
        return changed(known, high=batch_id)
    if batch_id > high:
        gap = (Gap(run_id, high + 1, batch_id - 1, now),) if batch_id > high + 1 else ()
        return _bounded(changed(known, high=batch_id, gaps=known.gaps + gap))
    if any(gap.first <= batch_id <= gap.last for gap in known.gaps):
        return _bounded(changed(known, gaps=tuple(_without(known.gaps, batch_id))))
    return known


def _bounded(known: ReportedBatches) -> ReportedBatches:
    excess = len(known.gaps) - MAX_GAPS
    if excess <= 0:
        return known
    dropped = sorted(known.gaps, key=lambda gap: not gap.counted)[:excess]  # stable: the oldest of each kind
    uncounted = sum(gap.size for gap in dropped if not gap.counted)
    kept = tuple(gap for gap in known.gaps if gap not in dropped)
    return changed(known, gaps=kept, dropped_uncounted=known.dropped_uncounted + uncounted)


def _without(gaps: tuple[Gap, ...], batch_id: int) -> Iterator[Gap]:
    for gap in gaps:
        if not gap.first <= batch_id <= gap.last:
            yield gap
            continue
        if gap.first < batch_id:
            yield changed(gap, last=batch_id - 1)
        if batch_id < gap.last:
            yield changed(gap, first=batch_id + 1)


def count_overdue(known: ReportedBatches, now: float, trigger: str | None) -> tuple[ReportedBatches, int]:
    """Count the gaps older than the grace period; returns the number of batches added. Never revoked.

    `trigger`: that of the newest run; continuous processing has no gaps.
    """
    if trigger == CONTINUOUS:
        return changed(known, gaps=(), dropped_uncounted=0), 0
    late = [gap for gap in known.gaps if not gap.counted and now - gap.seen_at >= GRACE_SECONDS]
    if not late and not known.dropped_uncounted:
        return known, 0
    gaps = tuple(changed(gap, counted=True) if gap in late else gap for gap in known.gaps)
    return changed(known, gaps=gaps, dropped_uncounted=0), sum(
        gap.size for gap in late
    ) + known.dropped_uncounted
