"""Disk to server: sends the oldest events, deletes them after the acknowledgement, counts what is refused.

Also takes over what a process of the same application left behind when it died.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Callable

from listeners import spool as spooling
from listeners.errors import TooLarge, TransportError
from listeners.transport import Transport

BATCH_EVENTS = 500
BATCH_BYTES = 4 * 1024 * 1024

#: (kind, message): one line in the log, once per kind and minute.
Warn = Callable[[str, str], None]


class Delivery:
    """Delivers one queue. `lock` keeps the thread that appends to it out while we look or delete."""

    def __init__(
        self,
        transport: Transport,
        queue: spooling.Queue,
        lock: threading.Lock,
        warn: Warn = lambda k, m: None,
    ):
        self._transport, self._queue, self._lock, self._warn = transport, queue, lock, warn
        #: What never got to the server, by reason; the queue counts its own losses.
        self.lost: dict[str, int] = collections.Counter()

    def drain(self, timeout: float) -> None:
        """Send all that waits; TransportError when the server cannot take it now."""
        self._drain(self._queue, timeout)

    def adopt(self, root: Path, owner: Mapping[str, str], timeout: float = 10.0) -> None:
        """Deliver what dead processes of the same owner left, under their own agent ids."""
        for orphan in spooling.orphans(root, dict(owner)):
            try:
                self._drain(orphan, timeout)
            except TransportError:
                orphan.close()
                raise
            self.lost.update(orphan.lost)
            orphan.close(remove=True)

    def _drain(self, queue: spooling.Queue, timeout: float, most: int = BATCH_EVENTS) -> None:
        while True:
            with self._lock:
                batch = queue.peek(most, BATCH_BYTES)
            if not batch:
                return
            try:
                self._send(batch, timeout)
            except TooLarge as error:
                # The one refusal that the events cause. Any other (a proxy's 400, a token, an address)
                # is something that somebody can still put right, and the events wait.
                if len(batch) > 1:
                    return self._drain(queue, timeout, most=max(1, len(batch) // 2))
                self._lose("too_large", 1, f"one event is too large for the server: {error}")
            with self._lock:
                queue.acknowledge(batch[-1][0])

    def _send(self, batch: list[spooling.Record], timeout: float) -> None:
        # An answer settles the whole batch: what is not stored by now never will be.
        answer = self._transport.send([line for _, line in batch], timeout)
        if answer.rejected:
            self._lose("rejected", answer.rejected, f"{answer.rejected} events were rejected: {answer.why}")

    def _lose(self, reason: str, count: int, message: str) -> None:
        self.lost[reason] += count
        self._warn(reason, message)
