"""Takes in what agents send: each line read, told apart, stored, and only then answered.

An answer means: all of it is on the disk. A line that cannot be taken is named by its number and
never spoils its neighbours; one that was stored before counts as a duplicate and changes nothing.
Called by the API on its worker threads; calls `controlplane.lifecycle`, the store and the window.
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

from controlplane.clocks import Clock, Clocks, corrected
from controlplane.errors import StoreUnavailable
from controlplane.store import blobs
from controlplane.store.engine import unavailable
from controlplane.store.intake import Prepared
from controlplane.store.pile import Pile, Share, settled
from controlplane.store.tables import storable
from controlplane.store.writer import Writer
from controlplane.told import Told, read
from controlplane.window import Window
from listeners import wire
from listeners.errors import WireError

log = logging.getLogger(__name__)

MAX_LINE = 1024 * 1024
#: Lines that share one submission to the writer.
CHUNK = 1_000
MAX_REJECTED = 1_000
#: Deeper JSON than Spark ever writes would break those who read it after us.
MAX_DEPTH = 64
#: Halves of surrogate pairs, and NUL.
UNSTORABLE = re.compile(rb"\\u(?:[dD][89a-fA-F]|0000)")
MaySpeak = Callable[[wire.Event], str | None]
Listener = Callable[[list[wire.Event]], None]


@dataclass(frozen=True)
class Answer:
    """What became of a request.

    `acknowledged`: the highest sequence number that need not be sent again; `rejected`: lines that
    will never be taken, `{"line", "error"}`, lines counted from 1.
    """

    acknowledged: int = 0
    stored: int = 0
    duplicates: int = 0
    rejected: list[dict[str, Any]] = field(default_factory=list)


class Ingest:
    """`accept` may be called from any thread. Every listener gets the new events after they are stored."""

    def __init__(self, writer: Writer, window: Window, clock: Callable[[], float] = time.time):
        self._writer = writer
        self._pile = Pile(writer, window.apply)
        self._clock = clock
        self._clocks = Clocks()
        self._lock = threading.Lock()
        self._packer: blobs.Packer | None = None
        self.listeners: list[Listener] = []
        #: Totals since the start of this process.
        self.stored = self.duplicates = self.rejected = 0

    def accept(self, lines: Iterable[bytes], sent_at: float | None, may_speak: MaySpeak) -> Answer:
        """Store a batch; returns after COMMIT. StoreUnavailable when the store cannot take it now.

        `sent_at`: the agent's clock when it sent; `may_speak` says why an event must not come from
        this sender, or None.
        """
        now = self._clock()
        reading = _Reading(may_speak, self._clocks.note(now, sent_at), self._packing(), now)
        waiting = [(chunk, self._pile.put(chunk, now)) for chunk in _chunks(reading.read(lines))]
        shares = [self._share(chunk, future, reading) for chunk, future in waiting]
        fresh = [one.told.event for share in shares for one in share.fresh]
        answer = Answer(
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
                return blobs.newest(connection)
        except DBAPIError as error:
            raise unavailable(error) from error

    def _share(self, chunk: list[Prepared], future: Future[Share], reading: _Reading) -> Share:
        try:
            return settled(future)
        except StoreUnavailable:
            raise
        except Exception:
            # We did not foresee this line, whichever it is: the others must not be lost with it.
            log.exception("a batch of %d events could not be stored; trying one by one", len(chunk))
        shares = [share for one in chunk if (share := self._alone(one, reading)) is not None]
        return Share([one for share in shares for one in share.fresh], sum(s.duplicates for s in shares))

    def _alone(self, one: Prepared, reading: _Reading) -> Share | None:
        try:
            return settled(self._pile.put_alone(one, self._clock()))
        except StoreUnavailable:
            raise
        except Exception:
            log.exception("an event of type %s is kept as it came, not understood", one.told.event.type)
        return self._as_it_came(one, reading)

    def _as_it_came(self, one: Prepared, reading: _Reading) -> Share | None:
        raw = replace(one, told=Told(one.told.event, raw=True))
        try:
            return settled(self._pile.put_alone(raw, self._clock()))
        except StoreUnavailable:
            raise
        except Exception as error:
            reading.refuse(one.line, f"could not be stored ({type(error).__name__})")
            return None

    def _count(self, answer: Answer, rejected: int) -> None:
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


def _chunks(prepared: Iterator[Prepared]) -> Iterator[list[Prepared]]:
    chunk: list[Prepared] = []
    for one in prepared:
        chunk.append(one)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


# -- reading lines ---------------------------------------------------------------------------------


class _Reading:
    """One request being read."""

    def __init__(self, may_speak: MaySpeak, clock: Clock, packer: blobs.Packer, now: float):
        self._may_speak = may_speak
        self._clock = clock
        self._packer = packer
        self._now = now
        self.rejected: list[dict[str, Any]] = []
        self.high_seq = 0

    def read(self, lines: Iterable[bytes]) -> Iterator[Prepared]:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield self._prepare(number, line)
            except RecursionError:
                self.refuse(number, "not JSON we take: nested too deep")
            except (WireError, ValueError) as error:
                self.refuse(number, str(error))

    def refuse(self, line: int, error: str) -> None:
        self.rejected.append({"line": line, "error": error[:500]})

    def _prepare(self, number: int, line: bytes) -> Prepared:
        event = read_line(line)
        self.high_seq = max(self.high_seq, event.seq)
        forbidden = self._may_speak(event)
        if forbidden is not None:
            raise ValueError(forbidden)
        offset = self._clock.of(event.agent)
        event = replace(event, at=corrected(event.at, offset, self._now))
        told = read(event)
        blob = self._packer.pack(blobs.pack_json(event.data))
        return Prepared(number, told, offset, self._packer.dictionary, blob)


def read_line(line: bytes) -> wire.Event:
    """One line -> event; WireError says what is wrong. Text that no database can hold is made good."""
    if len(line) > MAX_LINE:
        raise WireError(f"a line may have at most {MAX_LINE} bytes, not {len(line)}")
    if UNSTORABLE.search(line) is not None:
        line = blobs.pack_json(_storable(wire.loads(line)))
    event = wire.decode_event(line)
    if line.count(b"{") + line.count(b"[") > MAX_DEPTH and deeper_than(event.data, MAX_DEPTH):
        raise WireError(f"not JSON we take: nested more than {MAX_DEPTH} deep")
    return event


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
