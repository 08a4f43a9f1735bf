"""Finding the lines that tell of streaming queries among all lines of an event log, and nothing else of it.

A search for bytes in chunks of a megabyte: only lines that hold the marker are looked at, and only those whose
own event it is are parsed. Pure over chunks; called by `controlplane.pipeline.eventlogs.split_reader`.
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
#: A line of this many bytes is passed over: nothing that we look for is so long.
MAX_LINE_BYTES = 64 << 20
#: So far behind a line times of its neighbours are looked for.
NEARBY_BYTES = 64 << 10
#: Of an application's name, its id and Spark's version: they stand in every row.
MAX_CHARS = MAX_APP_CHARS
#: Within these first bytes Spark says which application it is.
MAX_HEADER_BYTES = 16 << 20
_FIRST_KEY = b'{"Event":"'
_STREAMING_EVENT = _FIRST_KEY + EVENT_CLASS_PREFIX.encode()
_TIME = re.compile(
    rb'"(?:Timestamp|time|Submission Time|Launch Time|Finish Time|Completion Time)":(\d{12,14})\b'
)


@dataclass
class ScanState:
    """What was met on the way through the lines, besides those handed out."""

    read: int = 0
    too_long: int = 0
    #: What came after the last end of a line, at the end of the file: a line that is not whole.
    torn: bytes = b""


#: A line that may tell of a query, the bytes that it was found in, and its place in these. A bare tuple: it is made
#: for every line.
Line = tuple[bytes, bytes, int]


def nearest_time(around: bytes, at: int) -> float | None:
    """The time that the events before a line tell, Unix seconds; None where none is near."""
    told = _TIME.findall(around, max(0, at - NEARBY_BYTES), at)
    return int(told[-1]) / 1000 if told else None


def scan_lines(
    chunks: Iterable[bytes], walk: ScanState, base: int = 0, start: int = 0, stop: int | None = None
) -> Iterator[Line]:
    """The lines with the marker whose first byte is at `start` or later and before `stop`.

    `base`: where in the file the chunks begin; with `start` before it they may begin within a line.
    """
    kept: list[bytes] = []  # what there is of a line whose end was not read yet
    size, begun, skipping = 0, base == 0, False
    for chunk in chunks:
        walk.read += len(chunk)
        if skipping or not begun:  # a line that is too long, or that belongs to whoever has its begin
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
            walk.too_long += base >= start
            base += size
            kept, size, skipping = [], 0, True
    walk.torn = b"".join(kept) if begun and base >= start else b""


def _marked_lines(buffer: bytes, whole: int, base: int, start: int, stop: int | None) -> Iterator[Line]:
    """Of a buffer whose first `whole` bytes are whole lines."""
    first, last = start - base, whole if stop is None else stop - base
    done = 0
    while True:
        ours = buffer.startswith(_STREAMING_EVENT, done, whole)  # they mostly come one after the other
        if ours:
            begin = done
        elif (found := buffer.find(MARKER, done, whole)) >= 0:
            begin = buffer.rfind(b"\n", done, found) + 1 or done
            # Jackson writes the kind of an event first: most lines that only quote the marker are known by that.
            ours = not buffer.startswith(_FIRST_KEY, begin) or buffer.startswith(_STREAMING_EVENT, begin)
        else:
            return
        end = buffer.find(b"\n", begin, whole)
        done = end + 1
        if ours and first <= begin < last:
            yield buffer[begin:end], buffer, begin


@dataclass(frozen=True)
class LogHeader:
    """What the first lines of a log say. `started_at`: Unix seconds."""

    spark_version: str | None = None
    app: str | None = None
    app_id: str | None = None
    started_at: float | None = None


class NotAnEventLog(Exception):
    """What is read is no event log; one sentence."""


def read_header(chunks: Iterable[bytes]) -> LogHeader:
    """Of the first file of a log. Foreign when its first line is none of Spark's; what is not told is None."""
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
            raise NotAnEventLog("it is no event log: its first line is none of Spark's")
        if read > MAX_HEADER_BYTES:
            break
    if not read:
        raise NotAnEventLog("nothing of it can be decoded")
    if first and not (kept and _FIRST_KEY.startswith(kept[: len(_FIRST_KEY)])):
        raise NotAnEventLog("it is no event log: its first line is none of Spark's")
    return found


def _header_line(found: LogHeader, line: bytes, first: bool) -> LogHeader:
    if first:
        document = _object(line)
        if document is None or not isinstance(document.get("Event"), str):
            raise NotAnEventLog("it is no event log: its first line is none of Spark's")
    if b'"SparkListenerLogStart"' in line[:200]:
        version = (_object(line) or {}).get("Spark Version")
        return LogHeader(version[:MAX_CHARS] if isinstance(version, str) else None)
    if b'"SparkListenerApplicationStart"' in line[:200]:
        told = _object(line) or {}
        name, app_id, at = told.get("App Name"), told.get("App ID"), told.get("Timestamp")
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
