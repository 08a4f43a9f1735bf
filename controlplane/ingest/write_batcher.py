"""Store chunks that arrive while the writer is busy together, in one transaction.

A store's cost is per statement and per commit, not per event: one event each of forty agents costs hardly
more than one event. Each sender still gets the outcome of its own chunk.
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

#: Events in one submission: enough to share its cost, few enough for short transactions and statements.
MAX_BATCH_EVENTS = 5_000


@dataclass(frozen=True)
class ChunkOutcome:
    """The outcome of one chunk: its new events, and the number of duplicates."""

    fresh: list[PreparedEvent]
    duplicates: int


@dataclass(frozen=True)
class _PendingChunk:
    """A chunk that waits for the writer, and the future of its outcome."""

    chunk: Sequence[PreparedEvent]
    now: float
    future: Future[ChunkOutcome]


class WriteBatcher:
    """Batches chunks for the writer.

    `follow` gets the changes of each commit, in order, on the writer's thread. `listening_since`: when this server
    started, Unix seconds.
    """

    def __init__(self, writer: Writer, follow: Callable[[Changes], None], listening_since: float = 0.0):
        self._writer, self._listening_since = writer, listening_since
        self._follow = follow
        self._lock = threading.Lock()
        self._pending: list[_PendingChunk] = []

    def put(self, chunk: Sequence[PreparedEvent], now: float) -> Future[ChunkOutcome]:
        """Store a chunk together with the others that wait; the future resolves after COMMIT."""
        pending = _PendingChunk(chunk, now, Future())
        with self._lock:
            self._pending.append(pending)
            first = len(self._pending) == 1
        if first:
            self._submit(self._take)
        return pending.future

    def put_alone(self, event: PreparedEvent, now: float) -> Future[ChunkOutcome]:
        """Store one event in a transaction of its own, so that its failure affects no other event."""
        pending = _PendingChunk([event], now, Future())
        self._submit(lambda: [pending])
        return pending.future

    def _submit(self, take: Callable[[], list[_PendingChunk]]) -> None:
        taken: list[_PendingChunk] = []

        def work(connection: Connection) -> StoredChunk:
            taken.extend(take())
            together = [event for pending in taken for event in pending.chunk]
            return store(connection, together, max(pending.now for pending in taken), self._listening_since)

        def deliver(future: Future[StoredChunk]) -> None:
            error = future.exception()
            if error is None:
                _deliver(taken, future.result())
            for pending in (taken or take()) if error is not None else ():
                pending.future.set_exception(error)

        future = self._writer.submit(work, lambda outcome: self._follow(outcome.changes))
        future.add_done_callback(deliver)

    def _take(self) -> list[_PendingChunk]:
        """Take the oldest pending chunks, up to MAX_BATCH_EVENTS events; the next submission takes the rest."""
        taken: list[_PendingChunk] = []
        with self._lock:
            while self._pending and sum(len(pending.chunk) for pending in taken) < MAX_BATCH_EVENTS:
                taken.append(self._pending.pop(0))
            left = bool(self._pending)
        if left:
            self._submit(self._take)
        return taken


def _deliver(pending_chunks: Sequence[_PendingChunk], outcome: StoredChunk) -> None:
    new = {id(event) for event in outcome.fresh}
    for pending in pending_chunks:
        fresh = [event for event in pending.chunk if id(event) in new]
        pending.future.set_result(ChunkOutcome(fresh, len(pending.chunk) - len(fresh)))


def result_of(future: Future[ChunkOutcome]) -> ChunkOutcome:
    """The outcome of a chunk; StoreUnavailable if it does not arrive within WRITE_TIMEOUT."""
    try:
        return future.result(WRITE_TIMEOUT_SECONDS)
    except TimeoutError:
        raise StoreUnavailable(f"the store did not answer within {WRITE_TIMEOUT_SECONDS:g} s") from None
