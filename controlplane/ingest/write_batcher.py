"""What comes in while the writer is busy piles up and is stored together.

A store pays per statement and per commit, not per event: forty agents that send one event each cost
hardly more than one. Each sender still gets its own share of the outcome.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from controlplane.errors import StoreUnavailable
from controlplane.ingest.deduplication import PreparedEvent, StoredChunk, store
from controlplane.records import Changes
from controlplane.store.writer import WRITE_TIMEOUT_SECONDS, Writer

#: Events in one submission: enough to share the costs, few enough for short transactions and statements.
MAX_BATCH_EVENTS = 5_000


@dataclass(frozen=True)
class ChunkOutcome:
    """What became of one chunk: the events that were new, and how many were not."""

    fresh: list[PreparedEvent]
    duplicates: int


@dataclass(frozen=True)
class _PendingChunk:
    chunk: Sequence[PreparedEvent]
    now: float
    future: Future[ChunkOutcome]


class WriteBatcher:
    """`follow` gets the changes of each commit, in order, in the writer's thread."""

    def __init__(self, writer: Writer, follow: Callable[[Changes], None]):
        self._writer = writer
        self._follow = follow
        self._lock = threading.Lock()
        self._parcels: list[_PendingChunk] = []

    def put(self, chunk: Sequence[PreparedEvent], now: float) -> Future[ChunkOutcome]:
        """Store a chunk, with whatever else is waiting; resolves after COMMIT."""
        parcel = _PendingChunk(chunk, now, Future())
        with self._lock:
            self._parcels.append(parcel)
            first = len(self._parcels) == 1
        if first:
            self._submit(self._take)
        return parcel.future

    def put_alone(self, one: PreparedEvent, now: float) -> Future[ChunkOutcome]:
        """Store one event with no other: what is wrong with it stays its own."""
        parcel = _PendingChunk([one], now, Future())
        self._submit(lambda: [parcel])
        return parcel.future

    def _submit(self, take: Callable[[], list[_PendingChunk]]) -> None:
        taken: list[_PendingChunk] = []

        def work(connection: Connection) -> StoredChunk:
            taken.extend(take())
            together = [one for parcel in taken for one in parcel.chunk]
            return store(connection, together, max(parcel.now for parcel in taken))

        def deliver(future: Future[StoredChunk]) -> None:
            error = future.exception()
            if error is None:
                _deliver(taken, future.result())
            for parcel in (taken or take()) if error is not None else ():
                parcel.future.set_exception(error)

        future = self._writer.submit(work, lambda outcome: self._follow(outcome.changes))
        future.add_done_callback(deliver)

    def _take(self) -> list[_PendingChunk]:
        """The parcels that came first, up to MOST_TOGETHER events; the rest is the next submission's."""
        taken: list[_PendingChunk] = []
        with self._lock:
            while self._parcels and sum(len(parcel.chunk) for parcel in taken) < MAX_BATCH_EVENTS:
                taken.append(self._parcels.pop(0))
            left = bool(self._parcels)
        if left:
            self._submit(self._take)
        return taken


def _deliver(parcels: Sequence[_PendingChunk], outcome: StoredChunk) -> None:
    new = {id(one) for one in outcome.fresh}
    for parcel in parcels:
        fresh = [one for one in parcel.chunk if id(one) in new]
        parcel.future.set_result(ChunkOutcome(fresh, len(parcel.chunk) - len(fresh)))


def result_of(future: Future[ChunkOutcome]) -> ChunkOutcome:
    """The result of a submission; StoreUnavailable when it does not come in time."""
    try:
        return future.result(WRITE_TIMEOUT_SECONDS)
    except TimeoutError:
        raise StoreUnavailable(f"the store did not answer within {WRITE_TIMEOUT_SECONDS:g} s") from None
