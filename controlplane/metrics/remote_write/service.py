"""Remote write to every receiver of the configuration; follows the configuration when it is reloaded.

Started and stopped by `controlplane.app`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from controlplane.metrics.remote_write.sending import (
    NamedSample,
    RemoteWriteQueue,
    RemoteWriteStats,
    RemoteWriteTarget,
    RemoteWriteThreads,
)

#: How often a new configuration is looked for.
CHECK_SECONDS = 1.0


class RemoteWriteService:
    """`targets`: the receivers of the current configuration; `live`: all current samples at a time (Unix seconds).

    `may_send`: whether this server is the one that sends, where two share a store.
    """

    def __init__(
        self,
        targets: Callable[[], tuple[RemoteWriteTarget, ...]],
        live: Callable[[float], Iterable[NamedSample]],
        clock: Callable[[], float],
        may_send: Callable[[], bool] = lambda: True,
    ):
        self._targets, self._live, self._clock, self._may_send = targets, live, clock, may_send
        self._stopping = threading.Event()
        self._current: tuple[RemoteWriteTarget, ...] = ()
        self._running: tuple[RemoteWriteThreads, ...] = ()
        self._before = RemoteWriteStats()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start sending."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name="remote write", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop sending; what is queued is dropped."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(CHECK_SECONDS * 2)
        self._replace(())

    def _run(self) -> None:
        while not self._stopping.is_set():
            if (targets := self._targets()) is not self._current:
                self._replace(targets)
            self._stopping.wait(CHECK_SECONDS)

    def _replace(self, targets: tuple[RemoteWriteTarget, ...]) -> None:
        for running in self._running:
            running.stop()
        self._before = self.totals()
        former = {running.queue.target.url: running.queue for running in self._running}
        queues = [RemoteWriteQueue(target) for target in targets]
        for queue in queues:
            if (known := former.pop(queue.target.url, None)) is not None:
                queue.take_over(known)
        self._current = targets
        self._running = tuple(
            RemoteWriteThreads(queue, self._live, self._clock, self._may_send) for queue in queues
        )

    def totals(self) -> RemoteWriteStats:
        """Totals over all receivers since the start of this process; `error`: the first of those that fail now."""
        stats = [running.queue.stats for running in self._running]
        return RemoteWriteStats(
            self._before.sent + sum(item.sent for item in stats),
            self._before.dropped + sum(item.dropped for item in stats),
            sum(item.pending for item in stats),
            next((item.error for item in stats if item.error is not None), None),
        )
