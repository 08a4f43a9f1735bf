"""Limiter of concurrent PromQL evaluations, which are CPU-bound.

Requests wait as coroutines, as waiting threads would block the thread pool that ingest needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class LimiterTimeout(Exception):
    """No slot became free in time."""


class EvaluationLimiter:
    """At most `count` evaluations at a time; others wait up to `wait_seconds`."""

    def __init__(self, count: int, wait_seconds: float):
        self._semaphore = asyncio.Semaphore(count)
        self._wait_seconds = wait_seconds

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[None]:
        """Hold a slot; LimiterTimeout if none becomes free in time."""
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._semaphore.acquire()
        except TimeoutError:
            raise LimiterTimeout from None
        try:
            yield
        finally:
            self._semaphore.release()
