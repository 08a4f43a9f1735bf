"""How busy a query is, how many rows a second it can sustain, and when it has read its backlog. Pure.

The duration of a batch is taken as a fixed part and a part for each row, fitted to the recent batches where their rows
differ enough. Otherwise the recent batches show only a lower bound: larger ones share the fixed part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from controlplane.capacity import trends
from controlplane.capacity.model import Throughput
from controlplane.health import lag, terminal_status
from controlplane.health.context import QueryContext, percentile
from controlplane.health.formatting import rows, span
from controlplane.health.offset_units import lag_rows, offsets_read
from controlplane.model import ProgressSample

#: Nothing is claimed from fewer batches.
MIN_BATCHES = 5
#: The batches of so many seconds, and at least so many of them, count as recent.
RECENT_SECONDS, MIN_RECENT = 900.0, 10
#: A fit needs batches of different sizes: the 90th percentile over the 10th. It holds for batches at most so many
#: times as large as the largest.
MIN_SPREAD, MAX_GROWTH = 2.0, 4.0
#: A query that is less busy while its backlog grows is held back by what a batch reads, not by its speed.
HELD_RATIO = 0.8
#: Triggers whose durations show no load: batches that end by themselves, or that last as long as they are set to.
UNMEASURED = {"continuous": "continuous", "real_time": "real-time"}


def recent(context: QueryContext) -> list[ProgressSample]:
    """The recent batches of the newest run, without its first, which starts up and reads what has waited."""
    run = context.run
    first = run.first_batch_id if run is not None else None
    known = [s for s in context.batches if s.batch_id != first and _is_finite(s)]
    since = known[-1].at - RECENT_SECONDS if known else 0.0
    return known[next((i for i, s in enumerate(known) if s.at >= since or len(known) - i <= MIN_RECENT), 0) :]


def _is_finite(sample: ProgressSample) -> bool:
    return math.isfinite(sample.at) and math.isfinite(sample.duration) and sample.duration >= 0


def unmeasured(context: QueryContext, batches: Sequence[ProgressSample]) -> str | None:
    """Why nothing is known about the load of the query; None where it is."""
    trigger = context.view.facts.trigger or ""
    if not context.active or terminal_status.disappeared(context) is not None:
        return "The query does not run."
    if context.silent or context.outage is not None:
        return "Its driver does not answer."
    if context.ends_by_itself:
        return "Its trigger ends by itself: such a run is as busy as it can be, and has no headroom."
    if trigger in UNMEASURED:
        return f"A {UNMEASURED[trigger]} query reports no batch durations that show its load."
    if len(batches) < MIN_BATCHES:
        count = {0: "No batch", 1: "Only 1 batch"}.get(len(batches), f"Only {len(batches)} batches")
        return f"{count} after the first of this run; {MIN_BATCHES} are needed."
    return None


def throughput(
    context: QueryContext,
    batches: Sequence[ProgressSample],
    limit: tuple[str, float] | None = None,
    as_it_reads: bool = True,
) -> Throughput | None:
    """Load and headroom; None where time does not pass between the batches.

    `batches`: at least MIN_BATCHES (`recent`). `limit`: the option that caps the rows of a batch, and its value. Not
    `as_it_reads`: what it could sustain if batches read all that waits.
    """
    counted, seconds = _period(context, batches)
    if seconds <= 0:
        return None
    read = [batch_rows(context, sample) for sample in counted]
    rate = sum(read) / seconds
    demand, origin = _demand(context, batches, rate)
    found = _capacity(read, [s.duration for s in counted], context.interval, limit)
    capacity, lower, capped = found or (None, False, False)
    busy = min(1.0, sum(s.duration for s in counted) / seconds)
    held = as_it_reads and not capped and busy < HELD_RATIO and _falls_behind(context, counted, demand, rate)
    if held and capacity is not None and rate < capacity:
        capacity, lower = rate, False
    catch_up = _catch_up(context)
    values = (busy, demand, origin, capacity, lower, limit[0] if limit and capped else None, catch_up)
    if not all(math.isfinite(v) for v in (busy, demand, capacity or 0.0, catch_up or 0.0)):
        return None
    return Throughput(len(counted), seconds, *values, _sentence(seconds, *values, held))


def _falls_behind(
    context: QueryContext, batches: Sequence[ProgressSample], demand: float, rate: float
) -> bool:
    """Whether fewer rows are read than arrive, and some waited behind every batch."""
    waiting = [lag_rows(sample, context.row_sources) or 0.0 for sample in batches]
    return demand > rate and min(waiting) > 0 and waiting[-1] > waiting[0]


def _period(
    context: QueryContext, batches: Sequence[ProgressSample]
) -> tuple[Sequence[ProgressSample], float]:
    """The batches that count, and the seconds in which they are all that ran."""
    began = lag.triggered_at(batches[0])
    idle_at = context.last_idle_at
    if idle_at is not None and math.isfinite(idle_at):
        return batches, min(idle_at, context.now) - began
    return batches[:-1], lag.triggered_at(batches[-1]) - began


def batch_rows(context: QueryContext, sample: ProgressSample) -> float:
    """Rows of a batch: offsets read where they count rows, as a query may read its source several times."""
    read = [offsets_read(s.start, s.end) for s in sample.sources if s.name in context.row_sources]
    known = [rows for rows in read if rows is not None and rows >= 0]
    every = bool(sample.sources) and len(known) == len(sample.sources)
    return sum(known) if every else float(max(0, sample.input_rows))


def _demand(context: QueryContext, batches: Sequence[ProgressSample], read: float) -> tuple[float, str]:
    first, last = batches[0], batches[-1]
    seconds = lag.triggered_at(last) - lag.triggered_at(first)
    if seconds <= 0 or not last.sources or len(first.sources) != len(last.sources):
        return read, "input"
    grown = 0.0
    for before, after in zip(first.sources, last.sources, strict=True):
        old, new = before.latest or {}, after.latest or {}
        if after.name not in context.row_sources or not new or old.keys() != new.keys():
            return read, "input"
        grown += sum(new.values()) - sum(old.values())
    return (grown / seconds, "arrival") if math.isfinite(grown) and grown >= 0 else (read, "input")


def _capacity(
    read: Sequence[float], durations: Sequence[float], interval: float, limit: tuple[str, float] | None
) -> tuple[float, bool, bool] | None:
    """Rows a second, whether that is a lower bound, and whether the limit caps it."""
    known = [(n, d) for n, d in zip(read, durations, strict=True) if n > 0 and d > 0]
    if len(known) < MIN_BATCHES:
        return None
    largest = max(n for n, _ in known)
    fixed, each, reach = _fitted(known, largest) or (0.0, median(d / n for n, d in known), math.inf)
    size = (interval - fixed) / each if interval > 0 else MAX_GROWTH * largest
    size = min(max(size, largest), reach)
    capped = limit is not None and limit[1] < size
    size = limit[1] if limit is not None and capped else size
    rate = size / max(interval, fixed + each * size)
    return rate, not capped and (math.isinf(reach) or size >= reach), capped


def _fitted(known: Sequence[tuple[float, float]], largest: float) -> tuple[float, float, float] | None:
    """Fixed seconds, seconds a row, and the largest batch for which they hold; None where the rows do not show it."""
    sizes = [n for n, _ in known]
    if percentile(sizes, 0.9) < MIN_SPREAD * percentile(sizes, 0.1):
        return None
    found = trends.slope(known)
    if found is None or found.low <= 0:
        return None
    return max(0.0, median(d - found.value * n for n, d in known)), found.value, MAX_GROWTH * largest


def _catch_up(context: QueryContext) -> float | None:
    batches = lag.lag_batches(context.batches)
    if not batches or batches <= 1:
        return None
    return lag.catch_up_seconds(
        lag.lag_points(lag.trend_window(context.batches, context.limits) or context.batches)
    )


def _sentence(
    seconds: float,
    busy: float,
    demand: float,
    origin: str,
    capacity: float | None,
    lower: bool,
    option: str | None,
    catch_up: float | None,
    held: bool,
) -> str:
    arrives = "arrive" if origin == "arrival" else "are read"
    load = f"Busy {busy:.0%} of the last {span(seconds)}; {_rate(demand)} {arrives}"
    if capacity is None:
        return f"{load}. Too few batches read rows to state a headroom."
    cap = (
        f" ({option} allows no more)"
        if option
        else " (no batch reads more, although rows wait)"
        if held
        else ""
    )
    sustained = f"{'at least ' if lower else ''}{_rate(capacity)} can be sustained{cap}"
    spare = capacity - demand
    headroom = f"a headroom of {_rate(spare)}" if spare >= 0 else f"{_rate(-spare)} fewer than that"
    ends = f" At its present rate the backlog is read in {span(catch_up)}." if catch_up is not None else ""
    return f"{load}, {sustained}: {headroom}.{ends}"


def _rate(value: float) -> str:
    small = f"{value:.2g} rows" if 0 < value < 10 else rows(value)
    return f"{small} a second"
