"""Store chunks that arrive while the writer is busy together, in one transaction.

A store's cost is per statement and per commit, not per event: one event each of forty agents costs hardly
more than one event. Each sender still gets the outcome of its own chunk.

Chunks of apps that send many events are written apart from those of the others, at a pace of their own and in short
transactions, so that the others wait neither for their commits nor for their events.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest

from sqlalchemy.engine import Connection

from controlplane.errors import StoreUnavailable
from controlplane.health.listening import ListeningTime
from controlplane.ingest.deduplication import AgentOf, PreparedEvent, StoredChunk, nothing_known, store
from controlplane.records import Changes
from controlplane.store.writer import WRITE_TIMEOUT_SECONDS, CommitPace, Writer

#: Events in one submission: enough to share its cost, few enough for short transactions and statements.
MAX_BATCH_EVENTS = 1_000
#: A submission ends at the chunk that is expected to take it beyond this: who comes next waits for it.
BATCH_SECONDS = 0.1
#: Of it, the share of an app that sends much, while others send too.
BUSY_APP_SECONDS = 0.02
#: An app sends much when it has sent more events than this lately: counts are halved each COUNT_SECONDS. A chunk
#: costs as much as CHUNK_EVENTS more.
BUSY_APP_EVENTS, CHUNK_EVENTS, COUNT_SECONDS = 200, 10, 1.0


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

    @property
    def app(self) -> str:
        return self.chunk[0].parsed.event.app.name


@dataclass
class _Queue:
    """Chunks that are written at one pace."""

    pace: CommitPace
    pending: list[_PendingChunk] = field(default_factory=list)
    seconds_per_event: float = 0.0  # of the last submission


class WriteBatcher:
    """Batches chunks for the writer.

    `follow` gets the changes of each commit, in order, on the writer's thread; `agent_of`: see `store`.
    """

    def __init__(
        self,
        writer: Writer,
        follow: Callable[[Changes], None],
        listening: ListeningTime | None = None,
        agent_of: AgentOf = nothing_known,
    ):
        self._writer, self._listening = writer, listening or ListeningTime()
        self._follow, self._agent_of = follow, agent_of
        self._lock = threading.Lock()
        self._calm, self._busy = _Queue(CommitPace()), _Queue(CommitPace(joins=False))
        self._sent: Counter[str] = Counter()  # events of each app lately
        self._counted_at = self._calm_at = 0.0  # of time.monotonic()

    @property
    def waiting(self) -> int:
        """Events that the writer has not taken yet."""
        with self._lock:
            return sum(len(pending.chunk) for queue in (self._calm, self._busy) for pending in queue.pending)

    def put(self, chunk: Sequence[PreparedEvent], now: float) -> Future[ChunkOutcome]:
        """Store a chunk together with the others that wait; the future resolves after COMMIT."""
        pending = _PendingChunk(chunk, now, Future())
        with self._lock:
            queue = self._queue_of(pending)
            queue.pending.append(pending)
            first = len(queue.pending) == 1
        if first:
            self._submit(partial(self._take, queue), queue)
        return pending.future

    def _queue_of(self, pending: _PendingChunk) -> _Queue:
        """The queue of its app. An app that was busy stays so while its chunks wait: they keep their order."""
        elapsed = time.monotonic()
        if elapsed - self._counted_at > COUNT_SECONDS:
            self._counted_at = elapsed
            waiting = {chunk.app: BUSY_APP_EVENTS for chunk in self._busy.pending}
            self._sent = Counter(
                {app: count // 2 for app, count in self._sent.items() if count > 1}
            ) | Counter(waiting)
        self._sent[pending.app] += len(pending.chunk) + CHUNK_EVENTS
        if self._sent[pending.app] > BUSY_APP_EVENTS:
            return self._busy
        self._calm_at = elapsed
        return self._calm

    def put_alone(self, event: PreparedEvent, now: float) -> Future[ChunkOutcome]:
        """Store one event in a transaction of its own, so that its failure affects no other event."""
        pending = _PendingChunk([event], now, Future())
        self._submit(lambda: [pending], _Queue(CommitPace()))
        return pending.future

    def _submit(self, take: Callable[[], list[_PendingChunk]], queue: _Queue) -> None:
        taken: list[_PendingChunk] = []

        def work(connection: Connection) -> StoredChunk:
            taken.extend(take())
            together = [event for pending in taken for event in pending.chunk]
            now = max(pending.now for pending in taken)
            began = time.perf_counter()
            since = self._listening.since(now)
            stored = store(connection, together, now, self._writer.rows, since, self._agent_of)
            queue.seconds_per_event = (time.perf_counter() - began) / len(together)
            return stored

        def deliver(future: Future[StoredChunk]) -> None:
            error = future.exception()
            if error is None:
                _deliver(taken, future.result())
            for pending in (taken or take()) if error is not None else ():
                pending.future.set_exception(error)

        future = self._writer.submit(work, self._committed, queue.pace)
        future.add_done_callback(deliver)

    def _committed(self, outcome: StoredChunk) -> None:
        outcome.keep()
        self._follow(outcome.changes)

    def _take(self, queue: _Queue) -> list[_PendingChunk]:
        """Take pending chunks, of each app in turn, up to a limit; the next submission takes the rest."""
        taken: list[_PendingChunk] = []
        events = 0
        with self._lock:
            waiting = deque(_by_turns(queue.pending))
            seconds = self._seconds_of(queue)
            while waiting and events < MAX_BATCH_EVENTS and events * queue.seconds_per_event < seconds:
                taken.append(waiting.popleft())
                events += len(taken[-1].chunk)
            queue.pending = list(waiting)
        if waiting:
            self._submit(partial(self._take, queue), queue)
        return taken

    def _seconds_of(self, queue: _Queue) -> float:
        """How long a submission may take: a share of each busy app while others send."""
        if queue is self._calm or time.monotonic() - self._calm_at > COUNT_SECONDS:
            return BATCH_SECONDS
        return min(BATCH_SECONDS, BUSY_APP_SECONDS * len({pending.app for pending in queue.pending}))


def _by_turns(pending_chunks: Sequence[_PendingChunk]) -> Iterator[_PendingChunk]:
    """The oldest chunk of each app, then the next of each: one app's many do not delay another's."""
    queues: dict[str, list[_PendingChunk]] = {}
    for pending in pending_chunks:
        queues.setdefault(pending.app, []).append(pending)
    for turn in zip_longest(*queues.values()):
        yield from filter(None, turn)


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
