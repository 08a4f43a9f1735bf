"""Takes in what agents send: each line read, told apart, stored, and only then answered.

An answer means: all of it is on the disk. A line that cannot be taken is named by its number and
never spoils its neighbours; one that was stored before counts as a duplicate and changes nothing.
Called by the API on its worker threads; calls `controlplane.ingest.write_batcher`, and the window follows its commits.
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
#: Lines that share one submission to the writer.
CHUNK_LINES = 1_000
MAX_REJECTED = 1_000
#: Deeper JSON than Spark ever writes would break those who read it after us.
MAX_DEPTH = 64
#: Halves of surrogate pairs, and NUL.
UNSTORABLE = re.compile(rb"\\u(?:[dD][89a-fA-F]|0000)")
SenderCheck = Callable[[wire.Event], str | None]
EventListener = Callable[[list[wire.Event]], None]
Attempt = tuple[list[PreparedEvent], Future[ChunkOutcome]]


@dataclass(frozen=True)
class IngestResult:
    """What became of a request.

    `acknowledged`: the highest sequence number that need not be sent again; `rejected`: lines that
    will never be taken, `{"line", "error"}`, lines counted from 1.
    """

    acknowledged: int = 0
    stored: int = 0
    duplicates: int = 0
    rejected: list[dict[str, Any]] = field(default_factory=list)


class IngestService:
    """`accept` may be called from any thread. Every listener gets the new events after they are stored."""

    def __init__(self, writer: Writer, window: Window, clock: Callable[[], float] = time.time):
        self._writer = writer
        self._pile = WriteBatcher(writer, window.apply)
        self._clock = clock
        self._clocks = AgentClocks()
        self._lock = threading.Lock()
        self._packer: blobs.Packer | None = None
        self.listeners: list[EventListener] = []
        #: Totals since the start of this process.
        self.stored = self.duplicates = self.rejected = 0

    def accept(self, lines: Iterable[bytes], sent_at: float | None, may_speak: SenderCheck) -> IngestResult:
        """Store a batch; returns after COMMIT. StoreUnavailable when the store cannot take it now.

        `sent_at`: the agent's clock when it sent; `may_speak` says why an event must not come from
        this sender, or None. Forbidden where that goes for every line: it is the token that is wrong, and the
        agent must keep its events until somebody puts that right.
        """
        now = self._clock()
        reading = _Reading(may_speak, self._clocks.note(now, sent_at), self._packing(), now)
        waiting = [(chunk, self._pile.put(chunk, now)) for chunk in _chunks(reading.read(lines))]
        if reading.forbidden is not None and not reading.allowed:
            raise Forbidden(reading.forbidden)
        shares = [self._share(chunk, future, reading) for chunk, future in waiting]
        fresh = [one.told.event for share in shares for one in share.fresh]
        answer = IngestResult(
            acknowledged=reading.high_seq,
            stored=len(fresh),
            duplicates=sum(share.duplicates for share in shares),
            rejected=sorted(reading.rejected, key=lambda rejection: rejection["line"])[:MAX_REJECTED],
        )
        self._count(answer, len(reading.rejected))
        self._tell(fresh)
        return answer

    def refresh_dictionary(self) -> None:
        """Pack with the newest dictionary from now on."""
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

    def _share(
        self, chunk: list[PreparedEvent], future: Future[ChunkOutcome], reading: _Reading
    ) -> ChunkOutcome:
        """Together; what fails then alone; what fails again as it came, not understood; and else it is refused.

        We did not foresee such a line, whichever it is: the others must not be lost with it.
        """
        shares: list[ChunkOutcome] = []
        failed = _settle([(chunk, future)], shares)
        failed = _settle((self._put_alone(one) for one, _ in failed), shares)
        failed = _settle((self._put_alone(_as_it_came(one)) for one, _ in failed), shares)
        for one, error in failed:
            reading.refuse(one.line, f"could not be stored ({type(error).__name__})")
        return ChunkOutcome(
            [one for share in shares for one in share.fresh], sum(s.duplicates for s in shares)
        )

    def _put_alone(self, one: PreparedEvent) -> Attempt:
        return [one], self._pile.put_alone(one, self._clock())

    def _count(self, answer: IngestResult, rejected: int) -> None:
        with self._lock:
            self.stored += answer.stored
            self.duplicates += answer.duplicates
            self.rejected += rejected

    def _tell(self, fresh: list[wire.Event]) -> None:
        for listener in self.listeners if fresh else ():
            try:
                listener(fresh)
            except Exception:
                log.exception("a listener failed; the events are stored")


def _settle(attempts: Iterable[Attempt], shares: list[ChunkOutcome]) -> list[tuple[PreparedEvent, Exception]]:
    """Wait for each attempt and note its share; the events of those that failed, each with the reason."""
    failed: list[tuple[PreparedEvent, Exception]] = []
    for events, future in attempts:
        try:
            shares.append(result_of(future))
        except StoreUnavailable:
            raise
        except Exception as error:
            log.exception(
                "%d events, the first a %s, could not be stored", len(events), events[0].told.event.type
            )
            failed += [(one, error) for one in events]
    return failed


def _as_it_came(one: PreparedEvent) -> PreparedEvent:
    return replace(one, told=ParsedEvent(one.told.event, raw=True))


def _chunks(prepared: Iterator[PreparedEvent]) -> Iterator[list[PreparedEvent]]:
    chunk: list[PreparedEvent] = []
    for one in prepared:
        chunk.append(one)
        if len(chunk) == CHUNK_LINES:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


# -- reading lines ---------------------------------------------------------------------------------


class _MayNot(Exception):
    """This sender may not send this line."""


class _Reading:
    """One request being read."""

    def __init__(self, may_speak: SenderCheck, clock: SenderClock, packer: blobs.Packer, now: float):
        self._may_speak = may_speak
        self._clock = clock
        self._packer = packer
        self._now = now
        self.rejected: list[dict[str, Any]] = []
        self.high_seq = 0
        #: Why a line must not come from this sender, and whether any other may.
        self.forbidden: str | None = None
        self.allowed = False

    def read(self, lines: Iterable[bytes]) -> Iterator[PreparedEvent]:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield self._prepare(number, line)
            except RecursionError:
                self.refuse(number, "not JSON we take: nested too deep")
            except _MayNot as error:
                self.forbidden = str(error)
                self.refuse(number, self.forbidden)
            except (WireError, ValueError) as error:
                self.refuse(number, str(error))

    def refuse(self, line: int, error: str) -> None:
        self.rejected.append({"line": line, "error": error[:500]})

    def _prepare(self, number: int, line: bytes) -> PreparedEvent:
        event = read_line(line)
        self.high_seq = max(self.high_seq, event.seq)
        forbidden = self._may_speak(event)
        if forbidden is not None:
            raise _MayNot(forbidden)
        self.allowed = True
        offset = self._clock.of(event.agent)
        beat_at = self._clock.received(event.at, self._now) if event.type == "heartbeat" else None
        event = replace(event, at=corrected(event.at, offset, self._now))
        told = parse(event)
        kept = without_listing(event.data) if event.type == "inventory" else event.data
        blob = self._packer.pack(blobs.pack_json(kept))
        return PreparedEvent(number, told, offset, self._packer.dictionary, blob, beat_at)


def read_line(line: bytes) -> wire.Event:
    """One line -> event; WireError says what is wrong. Text that no database can hold is made good."""
    if len(line) > MAX_INVENTORY_BYTES:
        raise _too_long(line, MAX_INVENTORY_BYTES)
    if UNSTORABLE.search(line) is not None:
        line = blobs.pack_json(_storable(wire.loads(line)))
    event = wire.decode_event(line)
    if len(line) > MAX_LINE_BYTES and event.type != "inventory":
        raise _too_long(line, MAX_LINE_BYTES)
    if line.count(b"{") + line.count(b"[") > MAX_DEPTH and deeper_than(event.data, MAX_DEPTH):
        raise WireError(f"not JSON we take: nested more than {MAX_DEPTH} deep")
    return event


def _too_long(line: bytes, limit: int) -> WireError:
    return WireError(f"a line may have at most {limit} bytes, not {len(line)}")


def deeper_than(value: Any, levels: int) -> bool:
    """True when there are more than `levels` lists and objects in each other."""
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
