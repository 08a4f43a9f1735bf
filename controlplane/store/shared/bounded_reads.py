"""Short reads of the store, limited in number, so that a store that hangs does not hold every thread of the API."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from controlplane.errors import StoreDamaged, StoreUnavailable
from controlplane.runtime import read_budget
from controlplane.store.engine import unavailable

#: Of the API's 40 threads; the others serve what is in memory.
MAX_READS = 24
WAIT_SECONDS = 2.0
#: For an answer of the database, so that a page answers within 5 s.
ANSWER_SECONDS = 4.2


class BoundedReads:
    """Opens read transactions of one engine. Thread-safe."""

    def __init__(self, engine: Engine, count: int = MAX_READS, wait_seconds: float = WAIT_SECONDS):
        self._engine, self._wait_seconds = engine, wait_seconds
        self._free = threading.BoundedSemaphore(count)
        #: What a read has found: pages that are only read may be damaged while writes succeed.
        self.damage: tuple[str, ...] = ()

    @contextlib.contextmanager
    def open(self, answer_seconds: float | None = ANSWER_SECONDS) -> Iterator[Connection]:
        """A short read transaction. StoreUnavailable if the database fails, if it does not answer within
        `answer_seconds` (None: only the limits of each answer hold), or if too many others wait for it."""
        with read_budget.within(answer_seconds), self._place(), self._engine.connect() as connection:
            yield connection

    @contextlib.contextmanager
    def _place(self) -> Iterator[None]:
        if not self._free.acquire(timeout=self._wait_seconds):
            raise StoreUnavailable("too many reads are waiting for the store")
        try:
            yield
        except DBAPIError as error:
            failure = unavailable(error)
            if isinstance(failure, StoreDamaged):
                self.damage = (failure.reason,)
            raise failure from error
        except PoolTimeout:
            raise StoreUnavailable("all connections to the store are in use") from None
        finally:
            self._free.release()
