"""Ingest events from agents: parse each line, store it, and only then acknowledge it.

An acknowledgement means that all events are on disk. A line that cannot be stored is rejected by its number
and does not affect the other lines; a line that was stored before counts as a duplicate and changes nothing.
Called by the API on its worker threads; calls `controlplane.ingest.write_batcher`, whose commits update the
window.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy.exc import DBAPIError

from controlplane.checkpoints.inventory_events import without_listing
from controlplane.errors import Forbidden, StoreUnavailable
from controlplane.events.clocks import AgentClocks, SenderClock, corrected
from controlplane.events.parsing import ParsedEvent, parse
from controlplane.events.window import Window
from controlplane.ingest.deduplication import PreparedEvent
from controlplane.ingest.write_batcher import ChunkOutcome, WriteBatcher, result_of
from controlplane.store import blobs
from controlplane.store.engine import unavailable
from controlplane.store.tables import storable
from controlplane.store.writer import Writer
from listeners.protocol import wire
from listeners.protocol.errors import WireError

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 1024 * 1024
#: The inventory of a checkpoint holds the contents of its small files.
MAX_INVENTORY_BYTES = 4 * 1024 * 1024
#: Lines in one submission to the writer.
CHUNK_LINES = 1_000
MAX_REJECTED = 1_000
#: JSON nested deeper than Spark ever writes would break later readers.
MAX_DEPTH = 64
#: Halves of surrogate pairs, and NUL.
UNSTORABLE = re.compile(rb"\\u(?:[dD][89a-fA-F]|0000)")
SenderCheck = Callable[[wire.Event], str | None]
EventListener = Callable[[list[wire.Event]], None]
Attempt = tuple[list[PreparedEvent], Future[ChunkOutcome]]


@dataclass(frozen=True)
class IngestResult:
    """The outcome of a request.

    `acknowledged`: the highest sequence number that need not be sent again; `rejected`: lines that will never
    be stored, `{"line", "error"}`, numbered from 1.
    """

    acknowledged: int = 0
    stored: int = 0
    duplicates: int = 0
    rejected: list[dict[str, Any]] = field(default_factory=list)


class IngestService:
    """Accepts batches of lines from any thread. Every listener gets the new events after they are stored."""

    def __init__(self, writer: Writer, window: Window, clock: Callable[[], float] = time.time):
        self._writer = writer
        self._batcher = WriteBatcher(writer, window.apply, clock())
        self._clock = clock
        self._clocks = AgentClocks()
        self._lock = threading.Lock()
        self._packer: blobs.Packer | None = None
        self.listeners: list[EventListener] = []
        #: Totals since the start of this process.
        self.stored = self.duplicates = self.rejected = 0

    def accept(
        self, lines: Iterable[bytes], sent_at: float | None, check_sender: SenderCheck
    ) -> IngestResult:
        """Store a batch and return after COMMIT. StoreUnavailable if the store cannot be written now.

        `sent_at`: the agent's clock at sending; `check_sender` returns why an event must not come from this
        sender, or None. Raises Forbidden if that applies to every line: then the token is wrong, and the
        agent must keep its events until the token is corrected.
        """
        now = self._clock()
        reader = _RequestReader(check_sender, self._clocks.note(now, sent_at), self._packing(), now)
        waiting = [(chunk, self._batcher.put(chunk, now)) for chunk in _chunks(reader.read(lines))]
        if reader.forbidden is not None and not reader.allowed:
            raise Forbidden(reader.forbidden)
        outcomes = [self._outcome(chunk, future, reader) for chunk, future in waiting]
        fresh = [item.parsed.event for outcome in outcomes for item in outcome.fresh]
        answer = IngestResult(
            acknowledged=reader.high_seq,
            stored=len(fresh),
            duplicates=sum(outcome.duplicates for outcome in outcomes),
            rejected=sorted(reader.rejected, key=lambda rejection: rejection["line"])[:MAX_REJECTED],
        )
        self._count(answer, len(reader.rejected))
        self._notify(fresh)
        return answer

    def refresh_dictionary(self) -> None:
        """Use the newest compression dictionary from now on."""
        with self._lock:
            self._packer = None

    def _packing(self) -> blobs.Packer:
        with self._lock:
            if self._packer is None:
                self._packer = self._newest_packer()
            return self._packer

    def _newest_packer(self) -> blobs.Packer:
        try:
            with self._writer.engine.connect() as connection:
                return blobs.newest_packer(connection)
        except DBAPIError as error:
            raise unavailable(error) from error

    def _outcome(
        self, chunk: list[PreparedEvent], future: Future[ChunkOutcome], reader: _RequestReader
    ) -> ChunkOutcome:
        """Store the chunk in one transaction; retry each event of a failed chunk.

        A retried event is stored alone, then raw, and is rejected if that fails too: an unexpected error in one
        event must not lose the others.
        """
        outcomes: list[ChunkOutcome] = []
        failed = _collect([(chunk, future)], outcomes)
        failed = _collect((self._put_alone(item) for item, _ in failed), outcomes)
        failed = _collect((self._put_alone(_unparsed(item)) for item, _ in failed), outcomes)
        for item, error in failed:
            reader.refuse(item.line, f"could not be stored ({type(error).__name__})")
        return ChunkOutcome(
            [item for outcome in outcomes for item in outcome.fresh], sum(s.duplicates for s in outcomes)
        )

    def _put_alone(self, item: PreparedEvent) -> Attempt:
        return [item], self._batcher.put_alone(item, self._clock())

    def _count(self, answer: IngestResult, rejected: int) -> None:
        with self._lock:
            self.stored += answer.stored
            self.duplicates += answer.duplicates
            self.rejected += rejected

    def _notify(self, fresh: list[wire.Event]) -> None:
        for listener in self.listeners if fresh else ():
            try:
                listener(fresh)
            except Exception:
                log.exception("an event listener failed; the events are stored")


def _collect(
    attempts: Iterable[Attempt], outcomes: list[ChunkOutcome]
) -> list[tuple[PreparedEvent, Exception]]:
    """Wait for each attempt and collect its outcome; returns the events of failed attempts, each with its error."""
    failed: list[tuple[PreparedEvent, Exception]] = []
    for events, future in attempts:
        try:
            outcomes.append(result_of(future))
        except StoreUnavailable:
            raise
        except Exception as error:
            log.exception(
                "%d events, the first a %s, could not be stored", len(events), events[0].parsed.event.type
            )
            failed += [(item, error) for item in events]
    return failed


def _unparsed(item: PreparedEvent) -> PreparedEvent:
    return replace(item, parsed=ParsedEvent(item.parsed.event, raw=True))


def _chunks(prepared: Iterator[PreparedEvent]) -> Iterator[list[PreparedEvent]]:
    chunk: list[PreparedEvent] = []
    for item in prepared:
        chunk.append(item)
        if len(chunk) == CHUNK_LINES:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


# -- reader lines ---------------------------------------------------------------------------------


class _SenderNotAllowed(Exception):
    """This sender must not send this line."""


class _RequestReader:
    """Parses the lines of one request."""

    def __init__(self, check_sender: SenderCheck, clock: SenderClock, packer: blobs.Packer, now: float):
        self._check_sender = check_sender
        self._clock = clock
        self._packer = packer
        self._now = now
        self.rejected: list[dict[str, Any]] = []
        self.high_seq = 0
        #: Why a line must not come from this sender, and whether any other line may.
        self.forbidden: str | None = None
        self.allowed = False

    def read(self, lines: Iterable[bytes]) -> Iterator[PreparedEvent]:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield self._prepare(number, line)
            except RecursionError:
                self.refuse(number, "JSON nested too deep")
            except _SenderNotAllowed as error:
                self.forbidden = str(error)
                self.refuse(number, self.forbidden)
            except (WireError, ValueError) as error:
                self.refuse(number, str(error))

    def refuse(self, line: int, error: str) -> None:
        self.rejected.append({"line": line, "error": error[:500]})

    def _prepare(self, number: int, line: bytes) -> PreparedEvent:
        event = read_line(line)
        self.high_seq = max(self.high_seq, event.seq)
        forbidden = self._check_sender(event)
        if forbidden is not None:
            raise _SenderNotAllowed(forbidden)
        self.allowed = True
        offset = self._clock.of(event.agent)
        heartbeat_at = self._clock.received(event.at, self._now) if event.type == "heartbeat" else None
        at = corrected(event.at, offset, self._now)
        parsed = parse(replace(event, at=at), at - event.at)
        kept = without_listing(event.data) if event.type == "inventory" else event.data
        blob = self._packer.pack(blobs.pack_json(kept))
        return PreparedEvent(number, parsed, offset, self._packer.dictionary, blob, heartbeat_at)


def read_line(line: bytes) -> wire.Event:
    """Decode one line; WireError names the error. Text that a database cannot store is replaced."""
    if len(line) > MAX_INVENTORY_BYTES:
        raise _too_long(line, MAX_INVENTORY_BYTES)
    if UNSTORABLE.search(line) is not None:
        line = blobs.pack_json(_storable(wire.loads(line)))
    event = wire.decode_event(line)
    if len(line) > MAX_LINE_BYTES and event.type != "inventory":
        raise _too_long(line, MAX_LINE_BYTES)
    if line.count(b"{") + line.count(b"[") > MAX_DEPTH and deeper_than(event.data, MAX_DEPTH):
        raise WireError(f"JSON nested more than {MAX_DEPTH} levels deep")
    return event


def _too_long(line: bytes, limit: int) -> WireError:
    return WireError(f"a line may have at most {limit} bytes, not {len(line)}")


def deeper_than(value: Any, levels: int) -> bool:
    """Whether more than `levels` lists and objects are nested in each other."""
    layer = [value]
    for _ in range(levels + 1):
        inner = (v.values() if isinstance(v, dict) else v for v in layer if isinstance(v, (dict, list)))
        layer = [w for v in inner for w in v]
        if not layer:
            return False
    return True


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(name): _storable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_storable(inner) for inner in value]
    return value
