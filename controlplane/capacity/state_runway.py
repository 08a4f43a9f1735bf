"""When the state of a query reaches its limit, with an interval. Pure.

The limit is declared by a label, or is the driver's heap where the state is on it. A limit that is further away than
`MAX_REACH` times the observed time is not predicted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from controlplane.capacity import trends
from controlplane.capacity.model import Slope, StateLimit, StateRunway
from controlplane.capacity.trends import Point
from controlplane.health.formatting import number, span
from controlplane.model import OperatorSample, ProgressSample

#: Predictions reach at most so many times as long as what they are based on.
MAX_REACH = 20.0
#: Size of RocksDB's files; its reported memory is that of its caches.
SST_BYTES = "rocksdbSstFileSize"
_SIZES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def state_runways(samples: Sequence[ProgressSample], limits: Iterable[StateLimit]) -> list[StateRunway]:
    """Of rows and of bytes; empty for a query without state. `samples`: oldest first, of one run or several."""
    stateful = [s for s in samples if s.operators and math.isfinite(s.at)]
    if not stateful:
        return []
    lowest = {limit.unit: limit for limit in sorted(limits, key=lambda limit: -limit.value)}
    found = [_runway(unit, points(stateful, unit), lowest.get(unit)) for unit in ("rows", "bytes")]
    return [runway for runway in found if runway.size is not None or runway.limit is not None]


def points(samples: Sequence[ProgressSample], unit: str) -> list[Point]:
    """(time, size of the state); empty where no report has one."""
    found = [(s.at, float(sum(operator_size(op, unit) for op in s.operators))) for s in samples]
    return found if any(size > 0 for _, size in found) else []


def operator_size(operator: OperatorSample, unit: str) -> float:
    """Rows, or bytes: those of RocksDB's files, else the reported memory."""
    if unit == "rows":
        return operator.rows_total
    files = operator.metrics.get(SST_BYTES, 0.0)
    return files if math.isfinite(files) and files > 0 else operator.memory_bytes


def _runway(unit: str, known: Sequence[Point], limit: StateLimit | None) -> StateRunway:
    size = known[-1][1] if known else None
    growth = trends.growth(known) if known else None
    if limit is None or growth is None or size is None or size >= limit.value:
        return StateRunway(unit, size, growth, limit, None, None, _sentence(unit, known, growth, limit))
    seconds, reach = known[-1][0] - known[0][0], MAX_REACH * (known[-1][0] - known[0][0])
    earliest, latest = (limit.value - size) / growth.high, (limit.value - size) / growth.low
    grows = _growing(unit, growth, seconds)
    if earliest > reach:
        sentence = f"{grows}. Its limit of {amount(limit.value, unit)} ({limit.origin}) is more than {span(reach)} away."
        return StateRunway(unit, size, growth, limit, None, None, sentence)
    first, last = span(earliest), span(latest)
    about = f"in {first}" if first == last else f"between {first} and {last}"
    sentence = f"{grows}, and reaches its limit of {amount(limit.value, unit)} ({limit.origin}) {about}."
    return StateRunway(unit, size, growth, limit, earliest, latest, sentence)


def _sentence(unit: str, known: Sequence[Point], growth: Slope | None, limit: StateLimit | None) -> str:
    if not known:
        return f"The size of the state in {unit} is not reported."
    size, seconds = known[-1][1], known[-1][0] - known[0][0]
    if limit is not None and size >= limit.value:
        stated = f"its limit of {amount(limit.value, unit)} ({limit.origin})"
        return f"The state has {amount(size, unit)} and has reached {stated}."
    if growth is not None:
        return f"{_growing(unit, growth, seconds)}. No limit is stated: set the label state_limit_{unit}."
    if not trends.is_enough(known):
        needed = f"{trends.MIN_POINTS} reports over {span(trends.MIN_SECONDS)} are needed"
        return f"The state has {amount(size, unit)}. A trend is unknown: {needed}."
    low, high = (pick(y for _, y in known) for pick in (min, max))
    return (
        f"No trend: over {span(seconds)} the state had {amount(low, unit)} to {amount(high, unit)}, "
        f"now {amount(size, unit)}."
    )


def _growing(unit: str, growth: Slope, seconds: float) -> str:
    each = dict.fromkeys(amount(60 * value, unit) for value in (growth.low, growth.high))
    return f"The state grows by {' to '.join(each)} a minute, as over the last {span(seconds)}"


def amount(value: float, unit: str) -> str:
    """`1,200 rows`, `3.4 GB`."""
    if unit == "rows":
        return f"{value:.2g} rows" if 0 < value < 10 else f"{number(value)} rows"
    power, name = next(((p, n) for p, n in _SIZES if value >= p), (1.0, "B"))
    return f"{value / power:.3g} {name}"
