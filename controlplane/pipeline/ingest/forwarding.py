"""A batch's events on to the server's store: by `POST /api/v1/events`, in the order that each agent gave them.

Called by `controlplane.pipeline.ingest.ingest_job` on the driver. The agent's own transport sends; the store drops what it has.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from controlplane.errors import ControlPlaneError
from controlplane.lake.folders import LakeFolder
from listeners.delivery.backoff import Backoff
from listeners.delivery.transport import ServerAcknowledgement
from listeners.protocol.errors import TooLarge, TransportError

#: What one request holds at most.
MAX_REQUEST_EVENTS, MAX_REQUEST_BYTES = 1000, 4 * 1024 * 1024
REQUEST_TIMEOUT_SECONDS = 30.0
#: A server that takes nothing for so long fails the batch, which is done again.
TIMEOUT_SECONDS = 120.0
#: Rows of an outbox that are in memory at once.
OUTBOX_ROWS = 500
OUTBOX = pa.schema([("agent", pa.string()), ("seq", pa.int64()), ("line", pa.binary())])


class ServerUnavailable(ControlPlaneError):
    """The server took nothing for too long, or we were told to stop meanwhile: nothing is lost, try again later."""

    status, code = 503, "server_away"


class EventTransport(Protocol):
    """What is asked of the way to the server; `listeners.delivery.transport.HttpTransport` is it."""

    def send(self, lines: Sequence[bytes], timeout: float) -> ServerAcknowledgement: ...


class PendingEvent(NamedTuple):
    """An event on its way; sorts by agent and number."""

    agent: str
    seq: int
    line: bytes


class RejectedEvent(NamedTuple):
    """A line that the server will never take, and why."""

    why: str
    line: bytes


class Forwarder:
    """Sends events until the server has them. `stopping` ends the waiting for it."""

    def __init__(
        self,
        sender: EventTransport,
        stopping: threading.Event,
        patience: float = TIMEOUT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        say: Callable[[str], None] = lambda _: None,
    ):
        self._sender, self._stopping, self._patience, self._clock = sender, stopping, patience, clock
        self._say = say

    def forward(self, waiting: Iterable[PendingEvent]) -> list[RejectedEvent]:
        """Send all of it, in this order; what the server refused for good. ServerAway where it took nothing."""
        refused: list[RejectedEvent] = []
        for lines in _requests(waiting):
            refused += self._deliver(lines)
        return refused

    def _deliver(self, lines: list[bytes]) -> list[RejectedEvent]:
        try:
            answer = self._send(lines)
        except TooLarge as error:
            return self._halved(lines, error)
        return [
            RejectedEvent(why, lines[line - 1] if 0 < line <= len(lines) else b"")
            for line, why in answer.lines
        ]

    def _halved(self, lines: list[bytes], error: TooLarge) -> list[RejectedEvent]:
        if len(lines) == 1:
            return [RejectedEvent(str(error), lines[0])]
        middle = len(lines) // 2
        return self._deliver(lines[:middle]) + self._deliver(lines[middle:])

    def _send(self, lines: list[bytes]) -> ServerAcknowledgement:
        backoff, until, told = Backoff(), self._clock() + self._patience, False
        while True:
            try:
                return self._sender.send(lines, REQUEST_TIMEOUT_SECONDS)
            except TooLarge:
                raise
            except TransportError as error:
                # Only its size is a request's own fault. Any other refusal is something that somebody can put right.
                wait = backoff.next(error.retry_after)
                final = not error.retryable or self._clock() + wait > until
                if not final and not told:
                    self._say(f"the server takes no events, tried for {self._patience:.0f} s: {error}")
                    told = True
                if final or self._stopping.wait(wait):
                    raise ServerUnavailable(f"events cannot be forwarded: {error}") from None


def _requests(waiting: Iterable[PendingEvent]) -> Iterator[list[bytes]]:
    lines: list[bytes] = []
    size = 0
    for one in waiting:
        if lines and (len(lines) >= MAX_REQUEST_EVENTS or size + len(one.line) > MAX_REQUEST_BYTES):
            yield lines
            lines, size = [], 0
        lines.append(one.line)
        size += len(one.line) + 1
    if lines:
        yield lines


# -- outboxes: from the executors to the driver, by way of the lake's staging ------------------------


def write_outbox(folder: LakeFolder, path: str, waiting: list[PendingEvent]) -> None:
    """Write an executor's share, sorted, so that the driver need not hold it as a whole."""
    waiting.sort(key=lambda one: one[:2])
    absolute = folder.absolute(path)
    folder.fs.makedirs(absolute.rpartition("/")[0], exist_ok=True)
    with folder.fs.open(absolute, "wb") as file, pa.ipc.new_stream(file, OUTBOX) as writer:
        for start in range(0, len(waiting), OUTBOX_ROWS):
            columns: Any = zip(*waiting[start : start + OUTBOX_ROWS], strict=True)
            arrays = [pa.array(column, part.type) for column, part in zip(columns, OUTBOX, strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=OUTBOX))


def read_outboxes(folder: LakeFolder, paths: Sequence[str]) -> Iterator[PendingEvent]:
    """All shares as one, in order of agent and number."""
    return heapq.merge(*(_read_outbox(folder, path) for path in paths), key=lambda one: one[:2])


def _read_outbox(folder: LakeFolder, path: str) -> Iterator[PendingEvent]:
    with folder.fs.open(folder.absolute(path), "rb") as file, pa.ipc.open_stream(file) as reader:
        for batch in reader:
            for agent, seq, line in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield PendingEvent(agent, seq, line)
