"""Find the lines about streaming queries among all lines of an event log.

A byte search in chunks of a megabyte: only lines with the marker are examined, and only those whose own event
it is are parsed. Pure over chunks; called by `split_reader`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from controlplane.pipeline.eventlogs.event_parser import EVENT_CLASS_PREFIX
from listeners.protocol.wire import MAX_APP_CHARS

MARKER = b"StreamingQueryListener$Query"
#: Longer lines are skipped: no relevant event is that long.
MAX_LINE_BYTES = 64 << 20
#: Distance before a line within which times of its neighbors are searched.
NEARBY_BYTES = 64 << 10
#: Limit of application name, id and Spark version: every row contains them.
MAX_CHARS = MAX_APP_CHARS
#: Spark writes the application's event within these first bytes.
MAX_HEADER_BYTES = 16 << 20
_FIRST_KEY = b'{"Event":"'
_STREAMING_EVENT = _FIRST_KEY + EVENT_CLASS_PREFIX.encode()
_TIME = re.compile(
    rb'"(?:Timestamp|time|Submission Time|Launch Time|Finish Time|Completion Time)":(\d{12,14})\b'
)


@dataclass
class ScanState:
    """Counters of a scan."""

    read: int = 0
    too_long: int = 0
    #: Data after the last newline at the end of the file: an incomplete line.
    torn: bytes = b""


#: A line that may concern a query, the buffer that contains it, and its position there. A plain tuple for
#: speed.
Line = tuple[bytes, bytes, int]


def nearest_time(around: bytes, at: int) -> float | None:
    """The time of the events before a line, Unix seconds; None where none is near."""
    times = _TIME.findall(around, max(0, at - NEARBY_BYTES), at)
    return int(times[-1]) / 1000 if times else None


def scan_lines(
    chunks: Iterable[bytes], state: ScanState, base: int = 0, start: int = 0, stop: int | None = None
) -> Iterator[Line]:
    """Yield lines with the marker whose first byte is at `start` or later and before `stop`.

    `base`: offset of the first chunk in the file; where it is before `start`, the chunks may start within a
    line.
    """
    kept: list[bytes] = []  # parts of a line whose end was not read yet
    size, begun, skipping = 0, base == 0, False
    for chunk in chunks:
        state.read += len(chunk)
        if (
            skipping or not begun
        ):  # the rest of a line that is too long, or that belongs to the previous split
            end = chunk.find(b"\n") + 1
            base += end or len(chunk)
            if not end:
                if stop is not None and base >= stop:
                    return
                continue
            begun, skipping = True, False
        else:
            end = 0
        fresh = chunk[end:] if end else chunk
        whole = fresh.rfind(b"\n") + 1
        if whole:
            buffer = b"".join((*kept, fresh)) if size else fresh
            whole += size
            yield from _marked_lines(buffer, whole, base, start, stop)
            base += whole
            fresh, kept, size = buffer[whole:], [], 0
        kept.append(fresh)
        size += len(fresh)
        if stop is not None and base >= stop:
            return
        if size > MAX_LINE_BYTES:
            state.too_long += base >= start
            base += size
            kept, size, skipping = [], 0, True
    state.torn = b"".join(kept) if begun and base >= start else b""


def _marked_lines(buffer: bytes, whole: int, base: int, start: int, stop: int | None) -> Iterator[Line]:
    """Marked lines of a buffer whose first `whole` bytes are complete lines."""
    first, last = start - base, whole if stop is None else stop - base
    done = 0
    while True:
        ours = buffer.startswith(_STREAMING_EVENT, done, whole)  # they are mostly consecutive
        if ours:
            begin = done
        elif (found := buffer.find(MARKER, done, whole)) >= 0:
            begin = buffer.rfind(b"\n", done, found) + 1 or done
            # Jackson writes the event class first: this identifies most lines that only quote the marker.
            ours = not buffer.startswith(_FIRST_KEY, begin) or buffer.startswith(_STREAMING_EVENT, begin)
        else:
            return
        end = buffer.find(b"\n", begin, whole)
        done = end + 1
        if ours and first <= begin < last:
            yield buffer[begin:end], buffer, begin


@dataclass(frozen=True)
class LogHeader:
    """Contents of the first lines of a log. `started_at`: Unix seconds."""

    spark_version: str | None = None
    app: str | None = None
    app_id: str | None = None
    started_at: float | None = None


class NotAnEventLog(Exception):
    """The file is not an event log; one sentence."""


def read_header(chunks: Iterable[bytes]) -> LogHeader:
    """Read the header of a log's first file. NotAnEventLog when the first line is not Spark's; absent values
    are None.
    """
    kept, read, found, first = b"", 0, LogHeader(), True
    for chunk in chunks:
        read += len(chunk)
        *lines, kept = (kept + chunk).split(b"\n")
        for line in lines:
            found = _header_line(found, line, first)
            first = False
            if found.app_id is not None:
                return found
        if first and read > NEARBY_BYTES and not kept.startswith(b"{"):
            raise NotAnEventLog("not an event log: the first line is not an event of Spark")
        if read > MAX_HEADER_BYTES:
            break
    if not read:
        raise NotAnEventLog("no data can be decoded")
    if first and not (kept and _FIRST_KEY.startswith(kept[: len(_FIRST_KEY)])):
        raise NotAnEventLog("not an event log: the first line is not an event of Spark")
    return found


def _header_line(found: LogHeader, line: bytes, first: bool) -> LogHeader:
    if first:
        document = _object(line)
        if document is None or not isinstance(document.get("Event"), str):
            raise NotAnEventLog("not an event log: the first line is not an event of Spark")
    if b'"SparkListenerLogStart"' in line[:200]:
        version = (_object(line) or {}).get("Spark Version")
        return LogHeader(version[:MAX_CHARS] if isinstance(version, str) else None)
    if b'"SparkListenerApplicationStart"' in line[:200]:
        event = _object(line) or {}
        name, app_id, at = event.get("App Name"), event.get("App ID"), event.get("Timestamp")
        return LogHeader(
            found.spark_version,
            name[:MAX_CHARS] if isinstance(name, str) else None,
            app_id[:MAX_CHARS] if isinstance(app_id, str) else "",
            at / 1000 if isinstance(at, int) else None,
        )
    return found


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        document = orjson.loads(line)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
