"""When a source deletes rows that the query has not read, by the retention that the label `retention` declares. Pure.

The oldest unread row comes closer to its deletion by a second a second, less what the query reads. A query that reads
nothing has the whole rest; what was written later has more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from controlplane.capacity import trends
from controlplane.capacity.declared import retention
from controlplane.capacity.model import RetentionRunway
from controlplane.health import lag
from controlplane.health.context import QueryContext
from controlplane.health.formatting import span
from controlplane.model import ProgressSample

#: Below this many seconds a second the oldest unread row counts as not ageing.
MIN_AGEING = 0.01


def retention_runway(context: QueryContext) -> RetentionRunway | None:
    """None where no retention is declared."""
    seconds = retention(context.view.labels)
    if seconds is None:
        return None
    oldest = context.lag_seconds
    if oldest is None or not math.isfinite(oldest):
        unknown = "The age of the oldest unread row is unknown: the source reports no latest offset."
        return RetentionRunway(seconds, None, None, unknown)
    left = _left(context, seconds, oldest)
    return RetentionRunway(seconds, oldest, left, _sentence(seconds, oldest, left))


def _left(context: QueryContext, seconds: float, oldest: float) -> float | None:
    if oldest >= seconds:
        return 0.0
    if oldest <= 0:
        return None
    ageing = ageing_rate(context)
    return (seconds - oldest) / ageing if ageing > MIN_AGEING else None


def ageing_rate(context: QueryContext) -> float:
    """Seconds a second by which the oldest unread row gets older: 1 for a query that reads nothing."""
    batches = lag.trend_window(context.batches, context.limits) if context.active else []
    points = [(s.at, age) for s in batches if (age := _age(context, s)) is not None]
    found = trends.slope(points)
    return 1.0 if found is None else min(1.0, found.value)


def _age(context: QueryContext, sample: ProgressSample) -> float | None:
    """The age of the oldest unread row at the end of a batch."""
    until = _until(context.view.progress, sample)
    return lag.lag_seconds(replace(context.view, progress=until, idle_at=None), sample.at)


def _until(progress: Sequence[ProgressSample], sample: ProgressSample) -> tuple[ProgressSample, ...]:
    return tuple(progress[: next(i for i, each in enumerate(progress) if each is sample) + 1])


def _sentence(seconds: float, oldest: float, left: float | None) -> str:
    finding = f"The oldest unread row is {span(oldest)} old; the source keeps rows for {span(seconds)}"
    if oldest <= 0:
        return f"All rows are read; the source keeps rows for {span(seconds)}."
    if left == 0:
        return f"{finding}. Rows may have been deleted unread."
    if left is None:
        return f"{finding}. At the present rate none is deleted unread."
    return f"{finding}. At the present rate unread rows are deleted in {span(left)}."
