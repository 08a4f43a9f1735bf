"""Ingest events from agents: parse each line, store it, and only then acknowledge it.

An acknowledgement means that all events are on disk. A line that cannot be stored is rejected by its number
and does not affect the other lines; a line that was stored before counts as a duplicate and changes nothing.
The API calls `receive`, waits for the receipt's futures without a thread, then calls `answer`. Calls
`controlplane.ingest.write_batcher`, whose commits update the window.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
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
from controlplane.health.listening import ListeningTime
from controlplane.ingest.deduplication import PreparedEvent
from controlplane.ingest.lines import masked, read_line
from controlplane.ingest.quotas import Quotas
from controlplane.ingest.write_batcher import ChunkOutcome, WriteBatcher, result_of
from controlplane.settings import Settings
from controlplane.store import blobs
from controlplane.store.engine import unavailable
from controlplane.store.writer import Writer
from listeners.protocol import wire
from listeners.protocol.errors import WireError

log = logging.getLogger(__name__)

#: Lines in one submission to the writer.
CHUNK_LINES = 25
MAX_REJECTED = 1_000
#: Events that no listener works on, unless an action of their driver is open.
QUIET = frozenset({"progress", "heartbeat"})
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
    """Takes batches of lines from any thread. Every listener gets the new events after they are stored."""

    def __init__(
        self,
        writer: Writer,
        window: Window,
        clock: Callable[[], float] = time.time,
        limits: Settings | None = None,
        listening: ListeningTime | None = None,
    ):
        self._writer = writer
        self._batcher = WriteBatcher(writer, window.apply, listening, window.agent)
        self._clock = clock
        self._clocks = AgentClocks()
        self._lock = threading.Lock()
        self._packer: blobs.Packer | None = None
        self.quotas = Quotas(window, limits or Settings(), clock)
        self.listeners: list[EventListener] = []
        #: Totals since the start of this process.
        self.stored = self.duplicates = self.rejected = 0

    @property
    def waiting(self) -> int:
        """Events received and not yet taken by the writer."""
        return self._batcher.waiting

    def figures(self) -> dict[str, Any]:
        """Values of `ServerMetrics`."""
        return {
            "events_stored": self.stored,
            "events_duplicate": self.duplicates,
            "events_rejected": self.rejected,
            "quota_refused": self.quotas.refused,
            "ingest_waiting": self.waiting,
        }

    def receive(self, lines: Iterable[bytes], sent_at: float | None, check_sender: SenderCheck) -> Receipt:
        """Parse a batch and give it to the writer; `answer` returns the outcome. StoreUnavailable if the store cannot
        be read now.

        `sent_at`: the agent's clock at sending; `check_sender` returns why an event must not come from this
        sender, or None, and raises WireError for a line that nobody may send. Raises Forbidden if that applies
        to every line: then the token is wrong, and the agent must keep its events until the token is corrected.
        TooManyEvents if an app in it sends too fast.
        """
        now = self._clock()
        sender_clock = self._clocks.note(now, sent_at)
        reader = _RequestReader(check_sender, self.quotas, sender_clock, self._packing(), now)
        try:
            waiting = [(chunk, self._batcher.put(chunk, now)) for chunk in _chunks(reader.read(lines))]
        finally:
            self.quotas.charge(reader.sent.items())
        if reader.forbidden is not None and not reader.allowed:
            raise Forbidden(reader.forbidden)
        return Receipt(reader, waiting)

    def answer(self, receipt: Receipt) -> IngestResult:
        """The outcome of a batch after COMMIT, for which it waits. StoreUnavailable if the store cannot be written."""
        reader = receipt.reader
        outcomes = [self._outcome(chunk, future, reader) for chunk, future in receipt.waiting]
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
        packer = self._newest_packer()
        with self._lock:
            self._packer = packer

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


@dataclass(frozen=True)
class Receipt:
    """A batch that was given to the writer: its chunks, each with the future of its outcome."""

    reader: _RequestReader
    waiting: list[Attempt]

    @property
    def futures(self) -> list[Future[ChunkOutcome]]:
        """They resolve after COMMIT, or with an error."""
        return [future for _, future in self.waiting]

    @property
    def is_quick(self) -> bool:
        """Whether `answer` neither waits nor has more to do than to count: all is stored, and is only reports."""
        return all(
            future.done()
            and future.exception() is None
            and all(item.parsed.event.type in QUIET for item in chunk)
            for chunk, future in self.waiting
        )


class _RequestReader:
    """Parses the lines of one request."""

    def __init__(
        self, check_sender: SenderCheck, quotas: Quotas, clock: SenderClock, packer: blobs.Packer, now: float
    ):
        self._check_sender = check_sender
        self._quotas = quotas
        self._clock = clock
        self._packer = packer
        self._now = now
        self.rejected: list[dict[str, Any]] = []
        #: Events of each app in this request.
        self.sent: Counter[str] = Counter()
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
        event = masked(read_line(line), line)
        self.high_seq = max(self.high_seq, event.seq)
        forbidden = self._check_sender(event)
        if forbidden is not None:
            raise _SenderNotAllowed(forbidden)
        self.allowed = True
        if event.app.name not in self.sent:
            self._quotas.check_rate(event.app.name)
        self.sent[event.app.name] += 1
        offset = self._clock.of(event.agent)
        heartbeat_at = self._clock.received(event.at, self._now) if event.type == "heartbeat" else None
        at = corrected(event.at, offset, self._now)
        dated = event if at == event.at else replace(event, at=at)
        parsed = self._quotas.admitted(parse(dated, at - event.at))
        kept = without_listing(event.data) if event.type == "inventory" else event.data
        blob = self._packer.pack(blobs.pack_json(kept))
        return PreparedEvent(number, parsed, offset, self._packer.dictionary, blob, heartbeat_at)
