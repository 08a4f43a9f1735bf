"""So many at a time: evaluations take the processor, so a few run and the others wait their turn.

They wait as coroutines: waiting in a thread would take the threads that ingest needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class LimiterTimeout(Exception):
    """All were taken for too long."""


class EvaluationLimiter:
    """`count` seats; who gets none within `patience` seconds is turned away with NoSeat."""

    def __init__(self, count: int, patience: float):
        self._seats = asyncio.Semaphore(count)
        self._patience = patience

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._patience):
                await self._seats.acquire()
        except TimeoutError:
            raise LimiterTimeout from None
        try:
            yield
        finally:
            self._seats.release()
