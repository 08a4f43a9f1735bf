"""Forward a batch's events to the server's store by `POST /api/v1/events`, in each agent's order.

Called by `controlplane.pipeline.ingest.ingest_job` on the driver. The agent's transport sends; the store
drops duplicates.
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

#: Limits of one request.
MAX_REQUEST_EVENTS, MAX_REQUEST_BYTES = 1000, 4 * 1024 * 1024
REQUEST_TIMEOUT_SECONDS = 30.0
#: A server that accepts nothing for so long fails the batch, which is repeated.
TIMEOUT_SECONDS = 120.0
#: Rows of an outbox in memory at once.
OUTBOX_ROWS = 500
OUTBOX = pa.schema([("agent", pa.string()), ("seq", pa.int64()), ("line", pa.binary())])


class ServerUnavailable(ControlPlaneError):
    """The server accepted nothing for too long, or the job was stopped meanwhile. Nothing is lost; retry
    later.
    """

    status, code = 503, "server_away"


class EventTransport(Protocol):
    """The transport to the server; implemented by `listeners.delivery.transport.HttpTransport`."""

    def send(self, lines: Sequence[bytes], timeout: float) -> ServerAcknowledgement: ...


class PendingEvent(NamedTuple):
    """An event to forward; sorts by agent and sequence number."""

    agent: str
    seq: int
    line: bytes


class RejectedEvent(NamedTuple):
    """An event that the server rejects for good, and why."""

    why: str
    line: bytes


class Forwarder:
    """Sends events until the server has stored them. `stopping` ends the wait."""

    def __init__(
        self,
        sender: EventTransport,
        stopping: threading.Event,
        timeout_seconds: float = TIMEOUT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        log: Callable[[str], None] = lambda _: None,
    ):
        self._sender, self._stopping, self._timeout_seconds, self._clock = (
            sender,
            stopping,
            timeout_seconds,
            clock,
        )
        self._log = log

    def forward(self, pending: Iterable[PendingEvent]) -> list[RejectedEvent]:
        """Send the events in order; return those rejected for good. ServerUnavailable where the server
        accepts nothing.
        """
        rejected: list[RejectedEvent] = []
        for lines in _requests(pending):
            rejected += self._deliver(lines)
        return rejected

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
        half = len(lines) // 2
        return self._deliver(lines[:half]) + self._deliver(lines[half:])

    def _send(self, lines: list[bytes]) -> ServerAcknowledgement:
        backoff, deadline, logged = Backoff(), self._clock() + self._timeout_seconds, False
        while True:
            try:
                return self._sender.send(lines, REQUEST_TIMEOUT_SECONDS)
            except TooLarge:
                raise
            except TransportError as error:
                # Only a request's size is its own fault; any other error can be fixed on the server.
                wait = backoff.next(error.retry_after)
                final = not error.retryable or self._clock() + wait > deadline
                if not final and not logged:
                    self._log(
                        f"the server accepts no events; retrying for {self._timeout_seconds:.0f} s: {error}"
                    )
                    logged = True
                if final or self._stopping.wait(wait):
                    raise ServerUnavailable(f"events cannot be forwarded: {error}") from None


def _requests(pending: Iterable[PendingEvent]) -> Iterator[list[bytes]]:
    lines: list[bytes] = []
    size = 0
    for event in pending:
        if lines and (len(lines) >= MAX_REQUEST_EVENTS or size + len(event.line) > MAX_REQUEST_BYTES):
            yield lines
            lines, size = [], 0
        lines.append(event.line)
        size += len(event.line) + 1
    if lines:
        yield lines


# -- outboxes: from the executors to the driver, through the lake's staging area ------------------------


def write_outbox(folder: LakeFolder, path: str, pending: list[PendingEvent]) -> None:
    """Write an executor's events, sorted, so that the driver need not hold them all in memory."""
    pending.sort(key=lambda event: event[:2])
    absolute = folder.absolute(path)
    folder.fs.makedirs(absolute.rpartition("/")[0], exist_ok=True)
    with folder.fs.open(absolute, "wb") as file, pa.ipc.new_stream(file, OUTBOX) as writer:
        for start in range(0, len(pending), OUTBOX_ROWS):
            columns: Any = zip(*pending[start : start + OUTBOX_ROWS], strict=True)
            arrays = [pa.array(column, part.type) for column, part in zip(columns, OUTBOX, strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=OUTBOX))


def read_outboxes(folder: LakeFolder, paths: Sequence[str]) -> Iterator[PendingEvent]:
    """All outboxes merged, in order of agent and sequence number."""
    return heapq.merge(*(_read_outbox(folder, path) for path in paths), key=lambda event: event[:2])


def _read_outbox(folder: LakeFolder, path: str) -> Iterator[PendingEvent]:
    with folder.fs.open(folder.absolute(path), "rb") as file, pa.ipc.open_stream(file) as reader:
        for batch in reader:
            for agent, seq, line in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield PendingEvent(agent, seq, line)
