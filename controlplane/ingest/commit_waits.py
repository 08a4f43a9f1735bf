"""Wait on the event loop for futures that another thread resolves, many of them at a time.

A commit resolves the futures of many requests. Each wake-up of the loop by another thread costs a system call and the
interpreter's lock, so those of one commit share one. Called by `controlplane.api`, so that a request that waits for its
commit holds no thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from controlplane.errors import StoreUnavailable
from controlplane.store.writer import WRITE_TIMEOUT_SECONDS


class CommitWaits:
    """The requests that wait. Used on one event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._resolved: list[asyncio.Future[None]] = []

    async def all(self, futures: Sequence[Future[Any]]) -> None:
        """Return when all futures are resolved, with results or errors; StoreUnavailable after WRITE_TIMEOUT_SECONDS."""
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_SECONDS):
                for future in futures:
                    await self._until(future)
        except TimeoutError:
            raise StoreUnavailable(f"the store did not answer within {WRITE_TIMEOUT_SECONDS:g} s") from None

    async def _until(self, future: Future[Any]) -> None:
        if future.done():
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        future.add_done_callback(lambda _: self._put(waiter, loop))
        await waiter

    def _put(self, waiter: asyncio.Future[None], loop: asyncio.AbstractEventLoop) -> None:
        """Called by the thread that resolves the future. The first since the last wake-up causes the next."""
        with self._lock:
            self._resolved.append(waiter)
            first = len(self._resolved) == 1
        if first:
            loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        with self._lock:
            resolved, self._resolved = self._resolved, []
        for waiter in resolved:
            if not waiter.done():  # its request was cancelled
                waiter.set_result(None)
