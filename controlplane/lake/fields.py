"""Fields of Spark's reports -> values of the lake's columns. Pure; called by `controlplane.lake.rows`, field by field.

What does not fit its column goes to `left`, by the name that Spark has for it, and from there to the row's `extra_json`.
Absent, null and empty are one, and so are NaN and infinities.
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
from listeners.protocol import wire
from listeners.protocol.errors import WireError

orjson: Any = None
with contextlib.suppress(ImportError):  # the pipeline has it, and is twice as fast by it; the server need not
    import orjson

Json = Mapping[str, Any]
Leftover = dict[str, Any]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICRO = timedelta(microseconds=1)
ID_CHARS = 64
#: From the year 1 to the end of 9999: no reader knows other times.
MIN_MICROS, MAX_MICROS = -62135596800000000, 253402300799999999
#: What is reckoned to be later is put here: seconds as a float hold it, too.
MAX_COMPUTED_MICROS = 253402300799000000
INT_ONLY = {int}
#: Characters of an offset of some hundred partitions; longer ones are not remembered.
MAX_CACHED_OFFSET_CHARS = 65_536
EVENT_TIME_KEYS = ("watermark", "max", "min", "avg")
#: Rates that are none, as JSON's readers and as Jackson call them.
NOT_FINITE = frozenset(("nan", "inf", "-inf", "NaN", "Infinity", "-Infinity"))
SINK_KEYS = frozenset(("description", "numOutputRows"))


def required_id(report: Json, key: str) -> str:
    value = report.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= ID_CHARS:
        raise ValueError(f"{key} must be text of 1 to {ID_CHARS} characters")
    return value


def trigger_micros(report: Json, at: float | None) -> int:
    stamp = report.get("timestamp")
    moment = to_micros(stamp)
    if moment is None and stamp is None and at is not None:
        return round(at * 1e6)
    if moment is None:
        raise ValueError("timestamp must be RFC 3339 text, e.g. 2026-11-20T05:30:00.000Z")
    return moment


def to_micros(stamp: Any) -> int | None:
    """RFC 3339 text or Unix seconds -> microseconds, or None."""
    if not isinstance(stamp, str):
        seconds = number(stamp)
        return None if seconds is None or not 0 <= seconds < 253402300800 else round(seconds * 1e6)
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    found = ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // MICRO
    return found if found <= MAX_MICROS else None


def count(data: Json, key: str, left: Leftover) -> int | None:
    value = data.get(key)
    if type(value) is int and 0 <= value <= MAX_WHOLE:
        return value
    if value is None:
        return None
    known = whole(value)
    if known is None or known < 0:
        left[key] = value
        return None
    return known


def counts(
    data: Json, keys: Sequence[str], told: Callable[[Json], Sequence[Any]], left: Leftover
) -> Sequence[Any]:
    """`count` of each key. `told`: an itemgetter of them all, which is faster where a report has them all."""
    try:
        values = told(data)
        if set(map(type, values)) == INT_ONLY and min(values) >= 0 and max(values) <= MAX_WHOLE:
            return values
    except KeyError:
        pass
    return [count(data, key, left) for key in keys]


def text(data: Json, key: str, left: Leftover) -> str | None:
    value = data.get(key)
    if value is None or isinstance(value, str):
        return value or None
    left[key] = value
    return None


def objects(data: Json, key: str, left: Leftover) -> list[Json]:
    """The objects of a list; where it holds anything else, all of it is left over too."""
    value = data.get(key)
    if not value:
        return []
    known: list[Json] = [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
    if not isinstance(value, list) or len(known) < len(value):
        left[key] = value
    return known


def integers(data: Json, key: str, left: Leftover) -> Mapping[str, int] | None:
    """Whole numbers by name. Anything else in the object is left over."""
    value = data.get(key)
    if not value:
        return None
    if not isinstance(value, dict):
        left[key] = value
        return None
    numbers = value.values()
    if set(map(type, numbers)) == INT_ONLY and max(numbers) <= MAX_WHOLE and min(numbers) >= -MAX_WHOLE:
        return value
    known = {name: found for name, one in value.items() if (found := whole(one)) is not None}
    if len(known) < len(value):
        left[key] = {name: one for name, one in value.items() if name not in known}
    return known or None


def strings(data: Json, key: str, left: Leftover) -> Mapping[str, str] | None:
    value = data.get(key)
    if not value:
        return None
    if not isinstance(value, dict):
        left[key] = value
        return None
    known = {
        name: one if isinstance(one, str) else dumps(one) for name, one in value.items() if one is not None
    }
    return known or None


def duration_ms(report: Json, phases: Mapping[str, int] | None, left: Leftover) -> int | None:
    """Spark 3 has no batchDuration, its triggerExecution is the same."""
    took = count(report, "batchDuration", left)
    if took is not None or not phases or "triggerExecution" not in phases:
        return took
    return max(0, phases["triggerExecution"])


def end_micros(trigger_at: int, took: int | None) -> int:
    """When a trigger was over that took so many milliseconds; both times in microseconds."""
    return min(trigger_at + took * 1000, MAX_COMPUTED_MICROS) if took else trigger_at


def rate(
    data: Json,
    key: str,
    rows: int | None,
    left: Leftover,
    told: Sequence[tuple[Any, ...]] = (),
    place: int = 0,
) -> float | None:
    """Rows a second; where a report gives none (event logs) the sum of its sources' rates.

    The first batch of a run has no trigger before it: Spark says 0 a second of rows that it did read.
    """
    if key not in data:
        known = [row[place] for row in told if row[place] is not None]
        return sum(known) if known else None
    value = data[key]
    if type(value) is float and 0.0 < value < math.inf:
        return value
    known_rate = number(value)
    if known_rate is None or (known_rate == 0 and rows):
        if value is not None and str(value) not in NOT_FINITE:
            left[key] = value
        return None
    return known_rate


def output_rows(report: Json, left: Leftover) -> int | None:
    sink = report.get("sink")
    if not sink:
        return None
    if not isinstance(sink, dict):
        left["sink"] = sink
        return None
    if sink.get("numOutputRows") == -1:  # Spark's word for "not known"
        return None
    spare: Leftover = {}
    rows = count(sink, "numOutputRows", spare)
    if spare:
        left["sink"] = spare
    return rows


def sink_description(report: Json, left: Leftover) -> str | None:
    """The sink's description; what else the sink tells is left over."""
    sink = report.get("sink")
    if not sink or not isinstance(sink, dict):
        return None
    spare: Leftover = left.get("sink") or {}
    sink_description = text(sink, "description", spare)
    spare |= {key: value for key, value in sink.items() if key not in SINK_KEYS}
    spare = without_empty(spare)
    if spare:
        left["sink"] = spare
    return sink_description


def event_times(report: Json, left: Leftover) -> tuple[int | None, int | None, int | None, int | None]:
    """Watermark, max, min, avg in microseconds."""
    told = report.get("eventTime")
    if not told:
        return None, None, None, None
    if not isinstance(told, dict):
        left["eventTime"] = told
        return None, None, None, None
    found = {key: to_micros(told.get(key)) for key in EVENT_TIME_KEYS}
    found["watermark"] = found["watermark"] or None  # Spark says 1970 for "none yet"
    spare = {key: value for key, value in told.items() if found.get(key) is None and value is not None}
    if spare:
        left["eventTime"] = spare
    return found["watermark"], found["max"], found["min"], found["avg"]


def column_sum(rows: Sequence[Sequence[Any]], place: int) -> int | None:
    """The sum of a column over the rows that tell it; None when none does."""
    if len(rows) == 1:
        alone: int | None = rows[0][place]
        return alone
    known = [row[place] for row in rows if row[place] is not None]
    return min(sum(known), MAX_WHOLE) if known else None


def extra_json(data: Json, known: frozenset[str], left: Leftover) -> str | None:
    if data.keys() <= known:
        return dumps(left) if left else None
    return json_or_none(without_empty({key: value for key, value in data.items() if key not in known} | left))


def without_empty(data: Json) -> Leftover:
    """Without what is absent in other words."""
    return {key: value for key, value in data.items() if value is not None and value != {} and value != []}


def json_or_none(value: Any) -> str | None:
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
    except TypeError:  # whole numbers of more than 64 bits, half a surrogate pair
        return _plain_dumps(value)


# -- offsets ---------------------------------------------------------------------------------------

Offset = tuple[str | None, float | None, dict[str, float] | None]
NO_OFFSET: Offset = (None, None, None)


def parse_offset(value: Any) -> Offset:
    """An offset as JSON text, the sum of its numbers, and these by path."""
    if value is None:
        return NO_OFFSET
    if type(value) is int and abs(value) <= MAX_WHOLE:
        return str(value), float(value), {"offset": float(value)}
    return parse_offset_text(value if isinstance(value, str) else dumps(value))


def parse_offset_text(text: str | None) -> Offset:
    """The same of text. A batch begins where the one before it ended, so most are asked for several times."""
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


def lag_rows(ends: Json | None, heads: Json | None) -> int | None:
    """Rows that wait, over the partitions; None where the source tells no head."""
    if heads is None or ends is None:
        return None
    if ends is heads:  # equal offsets are mostly one (`parse_offset_text`)
        return 0
    behind = 0.0
    for part, head in heads.items():
        if (waiting := head - ends.get(part, 0.0)) > 0.0:
            behind += waiting
    return int(behind) if behind <= MAX_WHOLE else None
