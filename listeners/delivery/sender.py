"""Deliver spooled events: send the oldest, delete them after the acknowledgement, count what is rejected.

Also delivers the spools that dead processes left behind.
"""

from __future__ import annotations

import collections
import math
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Callable

from listeners.delivery import orphans
from listeners.delivery.segments import Record
from listeners.delivery.spool import Queue, Spool
from listeners.delivery.transport import Transport
from listeners.protocol.errors import NoAnswer, TooLarge, TransportError

BATCH_EVENTS = 500
BATCH_BYTES = 4 * 1024 * 1024

#: (kind, message): log a warning, at most once a minute for each kind.
Warn = Callable[[str, str], None]


class EventSender:
    """Delivers one queue. `lock` serializes its reads and deletions with the thread that appends."""

    def __init__(
        self,
        transport: Transport,
        queue: Queue,
        lock: threading.Lock,
        warn: Warn = lambda k, m: None,
    ):
        self._transport, self._queue, self._lock, self._warn = transport, queue, lock, warn
        #: Events rejected by the server or too large for it, by reason; the queue counts its own losses.
        self.lost: dict[str, int] = collections.Counter()

    def drain(self, timeout: float, until: float = math.inf) -> None:
        """Send all queued events, until the monotonic time `until`; `timeout` is in seconds for each request.

        TransportError if the server does not accept them now, SpoolError if the disk cannot be read.
        """
        self._drain(self._queue, timeout, until)

    def adopt(
        self, root: Path, owner: Mapping[str, str], timeout: float = 10.0, until: float = math.inf
    ) -> bool:
        """Deliver the events of dead processes of the same server under their own agent ids.

        Losses that they could not report are reported by this agent. Its own application comes first. Where
        the server refuses the events of another one, they stay for an agent of that application, whose token
        may be bound to it. False if `until` passed first. TransportError ends it where the server does not answer.
        """
        app = owner.get("app")
        for orphan in orphans.orphans(root, owner.get("server"), app):
            try:
                self.deliver(orphan.spool, timeout, until)
            except TransportError as error:
                if isinstance(error, NoAnswer) or orphan.owner.get("app") == app:
                    raise
                self._warn("adopt", f"events of {orphan.owner.get('app')} are kept: {error}")
            if time.monotonic() >= until:
                return False
        return True

    def deliver(self, orphan: Spool, timeout: float = 10.0, until: float = math.inf) -> None:
        """Deliver an orphan and release it. TransportError if the server does not accept its events now."""
        losses = collections.Counter(orphan.saved_losses())
        try:
            self._drain(orphan, timeout, until)
        finally:
            losses.update(orphan.lost)
            self._release_orphan(orphan, losses)

    def _release_orphan(self, orphan: Spool, losses: Mapping[str, int]) -> None:
        """Take over the losses of a delivered orphan; save them if it has not been delivered completely."""
        if orphan.events:
            orphan.save_losses(losses)
            orphan.close()
            return
        for reason, count in losses.items():
            self.lost[reason] += count
        orphan.close(remove=True)

    def _drain(self, queue: Queue, timeout: float, until: float) -> None:
        max_events = BATCH_EVENTS
        while (left := until - time.monotonic()) > 0:
            with self._lock:
                batch = queue.peek(max_events, BATCH_BYTES)
            if not batch:
                return
            try:
                self._send(batch, min(timeout, left))
                max_events = min(BATCH_EVENTS, max_events * 2)
            except TooLarge as error:
                # Only 413 is caused by the events. Any other refusal (a proxy's 400, a token, an address) can
                # still be fixed, so the events are kept.
                if len(batch) > 1:
                    max_events = len(batch) // 2
                    continue
                self._count_lost("too_large", 1, f"one event is too large for the server: {error}")
            with self._lock:
                queue.acknowledge(batch[-1][0])

    def _send(self, batch: list[Record], timeout: float) -> None:
        answer = self._transport.send([line for _, line in batch], timeout)
        if answer.rejected:  # what is not stored by now never will be
            rejected = min(answer.rejected, len(batch))
            self._count_lost("rejected", rejected, f"{rejected} events were rejected: {answer.why}")
        elif answer.seq < batch[-1][0]:
            raise TransportError(f"the server acknowledged {answer.seq} of {batch[-1][0]}")

    def _count_lost(self, reason: str, count: int, message: str) -> None:
        self.lost[reason] += count
        self._warn(reason, message)
