"""Convert Spark's own JSON to samples. Pure, and the only reader of Spark's formats.

Spark writes a progress report in several forms: offsets as object, number, text or null, rates absent or NaN,
empty maps left out, totals missing in event logs. A value that is missing or of another type becomes None, or
0 for counts. Only the fields that identify a batch are required; a ValueError names the one that is invalid.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from functools import lru_cache
from typing import Any

from controlplane.model import OperatorSample, ProgressSample, RunFacts, SourceSample, StatusSample
from controlplane.records import NO_FACTS
from listeners.protocol import wire
from listeners.protocol.errors import WireError

MAX_WHOLE = 2**63 - 1
MAX_OFFSET_DEPTH = 4
#: How long a driver may need to list and describe its queries, where its agent does not report it.
MAX_PROBE_SECONDS = 60.0
#: Without data, Spark <= 3.4 writes a progress report that repeats the last batch id and has only these
#: phases.
IDLE_PHASES = frozenset(("latestOffset", "getOffset", "setOffsetRange", "getEndOffset", "triggerExecution"))


class Numbers(Mapping[str, float]):
    """An immutable name -> float mapping that shares its names with every other mapping of the same names.

    A window holds a hundred thousand of them: 8 bytes a number instead of a hundred.
    """

    __slots__ = ("_index", "_values")

    def __init__(self, numbers: Mapping[str, float]):
        self._values = array("d", numbers.values())
        self._index = _index(tuple(numbers))

    def __getitem__(self, name: str) -> float:
        return self._values[self._index[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)

    # What `Mapping` does name by name, many times as fast.

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def keys(self) -> KeysView[str]:
        return self._index.keys()

    def values(self) -> ValuesView[float]:
        return dict(zip(self._index, self._values, strict=True)).values()

    def items(self) -> ItemsView[str, float]:
        return dict(zip(self._index, self._values, strict=True)).items()

    def __repr__(self) -> str:
        return f"Numbers({dict(self)})"


@lru_cache(maxsize=4096)
def _index(names: tuple[str, ...]) -> Mapping[str, int]:
    return {name: place for place, name in enumerate(names)}


NOTHING = Numbers({})
PLAIN = frozenset((int, float))


def numbers(value: Any) -> Numbers:
    """The numbers in a JSON object; other values are skipped."""
    found = mapping(value)
    if not found:
        return NOTHING
    try:
        # The sum shows an infinite value, which a number such as 1e400 becomes.
        if PLAIN.issuperset(map(type, found.values())) and math.isfinite(sum(found.values())):
            return Numbers(found)  # the common case, many times faster than one by one
    except OverflowError:
        pass
    return Numbers({name: known for name, inner in found.items() if (known := number(inner)) is not None})


# -- scalars ---------------------------------------------------------------------------------------


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if type(value) is float:  # most values: a report has a hundred numbers
        return value if math.isfinite(value) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        value = float(value)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def whole(value: Any) -> int | None:
    """A whole number that fits 64 bits, or None."""
    if type(value) is int:
        return value if -MAX_WHOLE <= value <= MAX_WHOLE else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MAX_WHOLE:
        return None
    return value


def text(value: Any, max_chars: int | None = None) -> str | None:
    """Non-empty text, cut to `max_chars`, or None."""
    return value[:max_chars] if isinstance(value, str) and value else None


def unix_seconds(value: Any) -> float | None:
    """RFC 3339 text or Unix seconds -> Unix seconds, or None."""
    try:
        return wire.seconds_of(value)
    except (WireError, OverflowError):
        return None


def mapping(value: Any) -> Mapping[str, Any]:
    """A JSON object, or an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[dict[str, Any]]:
    """The objects in a JSON list; other values are skipped."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def identity(data: Mapping[str, Any], key: str) -> str:
    """`data[key]` as an identifier of 1 to 64 characters; ValueError otherwise."""
    value = data.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= 64:
        raise ValueError(f"data.{key} must be text of 1 to 64 characters")
    return sys.intern(value)


def _count(data: Mapping[str, Any], key: str) -> int:
    count = whole(data.get(key))
    return count if count is not None and count > 0 else 0


# -- progress --------------------------------------------------------------------------------------


def sample(data: Mapping[str, Any], at: float) -> ProgressSample:
    """Convert Spark's progress report. `at`: when the agent received it, Unix seconds.

    Raises ValueError if the run, the batch or the trigger's time is invalid.
    """
    batch_id = whole(data.get("batchId"))
    if batch_id is None:
        raise ValueError("data.batchId must be a whole number")
    sources = tuple(_source(item) for item in items(data.get("sources")))
    phases = _phases(data.get("durationMs"))
    sink = mapping(data.get("sink"))
    event_time = mapping(data.get("eventTime"))
    input_rows = whole(data.get("numInputRows"))
    return ProgressSample(
        at=at,
        trigger_at=_trigger_at(data, at),
        run_id=identity(data, "runId"),
        batch_id=batch_id,
        duration=_duration(data, phases),
        phases_ms=phases,
        input_rows=max(0, sum(s.input_rows for s in sources) if input_rows is None else input_rows),
        input_rows_per_second=_rate(data, sources, "inputRowsPerSecond"),
        processed_rows_per_second=_rate(data, sources, "processedRowsPerSecond"),
        sources=sources,
        operators=tuple(_operator(item) for item in items(data.get("stateOperators"))),
        sink=sys.intern(text(sink.get("description"), 1000) or ""),
        output_rows=_known_count(sink.get("numOutputRows")),
        watermark=unix_seconds(event_time.get("watermark")) or None,  # Spark writes 1970 for "none yet"
        event_time=_moments(event_time),
    )


def is_idle(report: ProgressSample) -> bool:
    """Whether this is the report of a trigger without data, which repeats the last batch."""
    return bool(report.phases_ms) and report.input_rows == 0 and IDLE_PHASES.issuperset(report.phases_ms)


def _trigger_at(data: Mapping[str, Any], at: float) -> float:
    stamp = data.get("timestamp")
    if stamp is None:
        return at
    trigger_at = unix_seconds(stamp)
    if trigger_at is None:
        raise ValueError("data.timestamp must be RFC 3339 text, e.g. 2026-11-20T05:30:00.000Z")
    return trigger_at


def _phases(value: Any) -> dict[str, int]:
    found = mapping(value).items()
    return {sys.intern(name): known for name, millis in found if (known := whole(millis)) is not None}


def _duration(data: Mapping[str, Any], phases: Mapping[str, int]) -> float:
    """Seconds; Spark 3 has no batchDuration, its triggerExecution is the same."""
    millis = number(data.get("batchDuration"))
    return max(0.0, phases.get("triggerExecution", 0) if millis is None else millis) / 1000


def _rate(data: Mapping[str, Any], sources: tuple[SourceSample, ...], key: str) -> float | None:
    """Spark's own rate; where it is absent (event logs), the sum over the sources."""
    if key in data or not sources:
        return _reported_rate(data, key)
    name = "input_rows_per_second" if key == "inputRowsPerSecond" else "processed_rows_per_second"
    known = [rate for source in sources if (rate := getattr(source, name)) is not None]
    return sum(known) if known else None


def _reported_rate(data: Mapping[str, Any], key: str) -> float | None:
    """The rate; None for the first batch of a run, for which Spark writes 0 although it read rows."""
    rate = number(data.get(key))
    return None if not rate and _count(data, "numInputRows") > 0 else rate


def _known_count(value: Any) -> int | None:
    count = whole(value)
    return None if count is None or count < 0 else count


def _moments(event_time: Mapping[str, Any]) -> Mapping[str, float]:
    known = {}
    for name in ("avg", "max", "min"):
        stamp = unix_seconds(event_time.get(name)) if name in event_time else None
        if stamp is not None:
            known[name] = stamp
    return Numbers(known) if known else NOTHING


def _source(data: Mapping[str, Any]) -> SourceSample:
    return SourceSample(
        description=sys.intern(text(data.get("description"), 1000) or ""),
        start=offsets(data.get("startOffset")),
        end=offsets(data.get("endOffset")),
        latest=offsets(data.get("latestOffset")),
        input_rows=_count(data, "numInputRows"),
        input_rows_per_second=_reported_rate(data, "inputRowsPerSecond"),
        processed_rows_per_second=_reported_rate(data, "processedRowsPerSecond"),
        metrics={
            sys.intern(name): value if isinstance(value, str) else wire.dumps(value)
            for name, value in mapping(data.get("metrics")).items()
            if value is not None
        },
    )


def _operator(data: Mapping[str, Any]) -> OperatorSample:
    return OperatorSample(
        name=sys.intern(text(data.get("operatorName"), 200) or ""),
        rows_total=_count(data, "numRowsTotal"),
        rows_updated=_count(data, "numRowsUpdated"),
        rows_removed=_count(data, "numRowsRemoved"),
        rows_dropped_by_watermark=_count(data, "numRowsDroppedByWatermark"),
        memory_bytes=_count(data, "memoryUsedBytes"),
        commit_ms=_count(data, "commitTimeMs"),
        shuffle_partitions=_known_count(data.get("numShufflePartitions")),
        metrics=numbers(data.get("customMetrics")),
    )


def offsets(value: Any) -> Numbers | None:
    """The numbers in any source's offset by path (`topic/0`; `offset` for a bare number); None without any.

    In event logs the offset is JSON text. Values that are not numbers (ids, flags) are skipped.
    """
    if isinstance(value, str):
        try:
            value = wire.loads(value)
        except WireError:
            return None
    found: dict[str, float] = {}
    _collect(value, "", found, MAX_OFFSET_DEPTH)
    return Numbers(found) if found else None


def _collect(value: Any, path: str, found: dict[str, float], depth: int) -> None:
    if isinstance(value, dict) and depth:
        for name, inner in value.items():
            _collect(inner, f"{path}/{name}" if path else name, found, depth - 1)
        return
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    amount = number(value)
    if amount is not None:
        found[sys.intern(path) if path else "offset"] = amount


# -- polled status ---------------------------------------------------------------------------------


def status(data: Mapping[str, Any], at: float, shift: float = 0.0) -> StatusSample:
    """Convert one entry of a status event; ValueError if it has no run id.

    `at`: the event's time; `shift`: seconds to add to the times in `data`, which are by the agent's clock.
    """
    return StatusSample(
        at=at if (asked_at := _moment(data, "at", shift)) is None else min(at, asked_at),
        run_id=identity(data, "runId"),
        message=text(data.get("message"), 500) or "",
        data_available=data.get("isDataAvailable") is True,
        trigger_active=data.get("isTriggerActive") is True,
        tasks_active=_known_count(data.get("tasksActive")),
        tasks_completed=_known_count(data.get("tasksCompleted")),
        last_task_at=_moment(data, "lastTaskAt", shift),
        tasks_at=_moment(data, "tasksAt", shift),
        tasks_since=_moment(data, "tasksSince", shift),
    )


def _moment(data: Mapping[str, Any], key: str, shift: float) -> float | None:
    """A time in an agent's data, corrected by `shift`; None if it is unknown."""
    at = unix_seconds(data.get(key))
    return None if at is None else max(0.0, at + shift)


def listed_at(data: Mapping[str, Any], at: float, shift: float = 0.0) -> float | None:
    """When the agent of a status event listed its queries; None if a session did not answer.

    An agent that does not report this time may have needed `MAX_PROBE_SECONDS` since then.
    """
    if data.get("partial") is True:
        return None
    listed = _moment(data, "listedAt", shift)
    return max(0.0, at - MAX_PROBE_SECONDS) if listed is None else min(at, listed)


def facts(data: Any) -> RunFacts:
    """Convert the `facts` of a status entry; missing or invalid values are None."""
    reported = mapping(data)
    if not reported:  # as in most status events
        return NO_FACTS
    temporary = reported.get("checkpointIsTemporary")
    return RunFacts(
        trigger=text(reported.get("trigger"), 100),
        trigger_interval=number(reported.get("triggerInterval")),
        checkpoint=text(reported.get("checkpoint"), 4000),
        checkpoint_is_temporary=temporary if isinstance(temporary, bool) else None,
        output_mode=text(reported.get("outputMode"), 100),
        sink=text(reported.get("sink"), 1000),
        restart=text(reported.get("restart"), 100),
        restart_reason=text(reported.get("restartReason"), 1000),
        watermark_delay=number(reported.get("watermarkDelay")),
    )


def samples(reports: Iterable[tuple[Mapping[str, Any], float]]) -> list[ProgressSample]:
    """Convert stored reports, each (Spark's JSON, corrected time), in the same order."""
    return [sample(data, at) for data, at in reports]


def sample_order(sample: ProgressSample) -> tuple[float, float, int]:
    """The order of samples in time."""
    return sample.at, sample.trigger_at, sample.batch_id


def sample_identity(sample: ProgressSample) -> tuple[object, ...]:
    """What only the same report has."""
    return sample.run_id, *sample_order(sample)
