"""Convert fields of Spark's progress reports to values of the lake's columns. Pure; called by
`controlplane.lake.rows`.

A value that does not fit its column goes to `leftover` under Spark's name and from there to the row's
`extra`. Absent, null and empty values are equivalent, as are NaN and the infinities.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from controlplane.events.progress import MAX_WHOLE, number, offsets, whole
from controlplane.health.offset_units import counts_rows_in
from listeners.protocol import wire
from listeners.protocol.errors import WireError

orjson: Any = None
with contextlib.suppress(
    ImportError
):  # optional: the pipeline extra installs it and runs twice as fast with it; the server works without
    import orjson

Json = Mapping[str, Any]
Leftover = dict[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICRO = timedelta(microseconds=1)
ID_CHARS = 64
#: From the year 1 to the end of 9999, the range of Python's and Arrow's readers.
MIN_MICROS, MAX_MICROS = -62135596800000000, 253402300799999999
#: Upper bound of computed times: a float of seconds can still represent it.
MAX_COMPUTED_MICROS = 253402300799000000
INT_ONLY = {int}
#: Length of an offset of some hundred partitions; longer ones are not cached.
MAX_CACHED_OFFSET_CHARS = 65_536
EVENT_TIME_KEYS = ("watermark", "max", "min", "avg")
#: Rates that are not finite, as Python's JSON and as Jackson write them.
NOT_FINITE = frozenset(("nan", "inf", "-inf", "NaN", "Infinity", "-Infinity"))
SINK_KEYS = frozenset(("description", "numOutputRows"))


def required_id(report: Json, key: str) -> str:
    """An id that must be present. ValueError where it is not text of 1 to 64 characters."""
    value = report.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= ID_CHARS:
        raise ValueError(f"{key} must be text of 1 to {ID_CHARS} characters")
    return value


def trigger_micros(report: Json, at: float | None) -> int:
    """Start of the trigger in microseconds; `at` (Unix seconds) replaces a missing timestamp. ValueError for
    a malformed one.
    """
    stamp = report.get("timestamp")
    moment = to_micros(stamp)
    if moment is None and stamp is None and at is not None:
        return round(at * 1e6)
    if moment is None:
        raise ValueError("timestamp must be RFC 3339 text, e.g. 2026-11-20T05:30:00.000Z")
    return moment


def to_micros(stamp: Any) -> int | None:
    """Convert RFC 3339 text or Unix seconds to microseconds; None where it is neither."""
    if not isinstance(stamp, str):
        seconds = number(stamp)
        return None if seconds is None or not 0 <= seconds < 253402300800 else round(seconds * 1e6)
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    found = ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // MICRO
    return found if found <= MAX_MICROS else None


def count(data: Json, key: str, leftover: Leftover) -> int | None:
    """A non-negative integer of 64 bits; anything else is left over."""
    value = data.get(key)
    if type(value) is int and 0 <= value <= MAX_WHOLE:
        return value
    if value is None:
        return None
    known = whole(value)
    if known is None or known < 0:
        leftover[key] = value
        return None
    return known


def counts(
    data: Json, keys: Sequence[str], getter: Callable[[Json], Sequence[Any]], leftover: Leftover
) -> Sequence[Any]:
    """`count` of each key. `getter`: an itemgetter of all keys, which is faster when all are present."""
    try:
        values = getter(data)
        if set(map(type, values)) == INT_ONLY and min(values) >= 0 and max(values) <= MAX_WHOLE:
            return values
    except KeyError:
        pass
    return [count(data, key, leftover) for key in keys]


def text(data: Json, key: str, leftover: Leftover) -> str | None:
    """A text value, None where it is empty; anything else is left over."""
    value = data.get(key)
    if value is None or isinstance(value, str):
        return value or None
    leftover[key] = value
    return None


def objects(data: Json, key: str, leftover: Leftover) -> list[Json]:
    """The objects in a list; where the list holds anything else, the whole list is left over too."""
    value = data.get(key)
    if not value:
        return []
    known: list[Json] = [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    if not isinstance(value, list) or len(known) < len(value):
        leftover[key] = value
    return known


def integers(data: Json, key: str, leftover: Leftover) -> Mapping[str, int] | None:
    """Integers by name; other values of the object are left over."""
    value = data.get(key)
    if not value:
        return None
    if not isinstance(value, dict):
        leftover[key] = value
        return None
    numbers = value.values()
    if set(map(type, numbers)) == INT_ONLY and max(numbers) <= MAX_WHOLE and min(numbers) >= -MAX_WHOLE:
        return value
    known = {name: found for name, item in value.items() if (found := whole(item)) is not None}
    if len(known) < len(value):
        leftover[key] = {name: item for name, item in value.items() if name not in known}
    return known or None


def strings(data: Json, key: str, leftover: Leftover) -> Mapping[str, str] | None:
    """Values by name as text, converted to JSON where they are not text."""
    value = data.get(key)
    if not value:
        return None
    if not isinstance(value, dict):
        leftover[key] = value
        return None
    known = {
        name: item if isinstance(item, str) else dumps(item)
        for name, item in value.items()
        if item is not None
    }
    return known or None


def duration_ms(report: Json, phases: Mapping[str, int] | None, leftover: Leftover) -> int | None:
    """Duration of the trigger. Spark 3 reports no batchDuration; its triggerExecution is the same."""
    took = count(report, "batchDuration", leftover)
    if took is not None or not phases or "triggerExecution" not in phases:
        return took
    return max(0, phases["triggerExecution"])


def end_micros(trigger_at: int, took: int | None) -> int:
    """End of a trigger that took `took` milliseconds; both times in microseconds."""
    return min(trigger_at + took * 1000, MAX_COMPUTED_MICROS) if took else trigger_at


def rate(
    data: Json,
    key: str,
    rows: int | None,
    leftover: Leftover,
    getter: Sequence[tuple[Any, ...]] = (),
    index: int = 0,
) -> float | None:
    """Rows per second; where the report has no rate (event logs), the sum of its sources' rates.

    The first batch of a run has no previous trigger: Spark reports a rate of 0 for rows that it did read,
    which is treated as absent.
    """
    if key not in data:
        known = [row[index] for row in getter if row[index] is not None]
        return sum(known) if known else None
    value = data[key]
    if type(value) is float and 0.0 < value < math.inf:
        return value
    known_rate = number(value)
    if known_rate is None or (known_rate == 0 and rows):
        if value is not None and str(value) not in NOT_FINITE:
            leftover[key] = value
        return None
    return known_rate


def output_rows(report: Json, leftover: Leftover) -> int | None:
    """Rows written by the sink; None where it does not report them."""
    sink = report.get("sink")
    if not sink:
        return None
    if not isinstance(sink, dict):
        leftover["sink"] = sink
        return None
    if sink.get("numOutputRows") == -1:  # Spark's value for "not known"
        return None
    rest: Leftover = {}
    rows = count(sink, "numOutputRows", rest)
    if rest:
        leftover["sink"] = rest
    return rows


def sink_description(report: Json, leftover: Leftover) -> str | None:
    """The sink's description; other fields of the sink are left over."""
    sink = report.get("sink")
    if not sink or not isinstance(sink, dict):
        return None
    rest: Leftover = leftover.get("sink") or {}
    sink_description = text(sink, "description", rest)
    rest |= {key: value for key, value in sink.items() if key not in SINK_KEYS}
    rest = without_empty(rest)
    if rest:
        leftover["sink"] = rest
    return sink_description


def event_times(report: Json, leftover: Leftover) -> tuple[int | None, int | None, int | None, int | None]:
    """Watermark, max, min and avg event time in microseconds."""
    getter = report.get("eventTime")
    if not getter:
        return None, None, None, None
    if not isinstance(getter, dict):
        leftover["eventTime"] = getter
        return None, None, None, None
    found = {key: to_micros(getter.get(key)) for key in EVENT_TIME_KEYS}
    found["watermark"] = found["watermark"] or None  # Spark reports 1970 when there is no watermark yet
    rest = {key: value for key, value in getter.items() if found.get(key) is None and value is not None}
    if rest:
        leftover["eventTime"] = rest
    return found["watermark"], found["max"], found["min"], found["avg"]


def column_sum(rows: Sequence[Sequence[Any]], index: int) -> int | None:
    """The sum of a column over the rows that have it; None when none does."""
    if len(rows) == 1:
        alone: int | None = rows[0][index]
        return alone
    known = [row[index] for row in rows if row[index] is not None]
    return min(sum(known), MAX_WHOLE) if known else None


def extra_json(data: Json, known: frozenset[str], leftover: Leftover) -> str | None:
    """JSON of the unknown keys and the leftover values; None when there are none."""
    if data.keys() <= known:
        return dumps(leftover) if leftover else None
    return json_or_none(
        without_empty({key: value for key, value in data.items() if key not in known} | leftover)
    )


def without_empty(data: Json) -> Leftover:
    """The entries that are not null or empty."""
    return {key: value for key, value in data.items() if value is not None and value != {} and value != []}


def json_or_none(value: Any) -> str | None:
    """Compact JSON; None for empty values."""
    return dumps(value) if value else None


def _plain_dumps(value: Any) -> str:
    try:
        return _encode(value)
    except ValueError:
        return wire.dumps(value)


_encode: Callable[[Any], str] = json.JSONEncoder(
    separators=(",", ":"), allow_nan=False, ensure_ascii=False
).encode


def dumps(value: Any) -> str:
    """Compact JSON; NaN and infinities become null."""
    if orjson is None:
        return _plain_dumps(value)
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # integers of more than 64 bits, unpaired surrogates
        return _plain_dumps(value)


# -- offsets ---------------------------------------------------------------------------------------

Offset = tuple[str | None, float | None, dict[str, float] | None]
NO_OFFSET: Offset = (None, None, None)


def parse_offset(value: Any) -> Offset:
    """Return an offset as JSON text, the sum of its numbers, and the numbers by path."""
    if value is None:
        return NO_OFFSET
    if type(value) is int and abs(value) <= MAX_WHOLE:
        return str(value), float(value), {"offset": float(value)}
    return parse_offset_text(value if isinstance(value, str) else dumps(value))


def parse_offset_text(text: str | None) -> Offset:
    """`parse_offset` of text, cached: a batch starts where the previous one ended, so most offsets occur
    several times.
    """
    if text is None:
        return NO_OFFSET
    return _offset(text) if len(text) <= MAX_CACHED_OFFSET_CHARS else _offset.__wrapped__(text)


@lru_cache(maxsize=512)
def _offset(text: str) -> Offset:
    try:
        value = wire.loads(text)
    except WireError:
        return dumps(text), None, None
    if isinstance(value, str) or any(map(str.isspace, text)):
        text = dumps(value)
    if value is None:
        return NO_OFFSET
    found = offsets(value)
    flat = dict(found) if found else None
    return text, sum(flat.values()) if flat else None, flat


def lag_rows(
    description: str | None,
    starts: Json | None,
    ends: Json | None,
    heads: Json | None,
    input_rows: int | None,
) -> int | None:
    """Backlog over the partitions; None where the source reports no latest offset, or offsets do not count rows."""
    if heads is None or ends is None:
        return None
    if not counts_rows_in(description or "", starts, ends, input_rows or 0):
        return None
    if ends is heads:  # equal offsets are mostly the same cached object (`parse_offset_text`)
        return 0
    behind = 0.0
    for part, head in heads.items():
        if (waiting := head - ends.get(part, 0.0)) > 0.0:
            behind += waiting
    return int(behind) if behind <= MAX_WHOLE else None
