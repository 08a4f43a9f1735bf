"""How long a read may wait for a database that does not answer, counted over all it waits for.

A read checks its pooled connection, opens another if that one is dead, and sends statements; each of these waits has a
limit of its own, whose sum is more than a page may take. An answer starts the count anew: slow is not hanging.
Set by `controlplane.store.shared.bounded_reads`, kept by `controlplane.store.answer_deadline`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar


class ReadBudget:
    """Seconds that a read may still wait without an answer."""

    def __init__(self, seconds: float, monotonic: Callable[[], float] = time.monotonic):
        self.seconds, self._monotonic = seconds, monotonic
        self._until = monotonic() + seconds

    def left(self) -> float:
        """Seconds; 0 if none is left."""
        return max(0.0, self._until - self._monotonic())

    def answered(self) -> None:
        """The database answers: count anew."""
        self._until = self._monotonic() + self.seconds


_current: ContextVar[ReadBudget | None] = ContextVar("read_budget", default=None)


def current() -> ReadBudget | None:
    """The budget of the read in progress; None outside reads and where a read has none."""
    return _current.get()


@contextlib.contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Give what runs inside `seconds`; None: no budget."""
    before = _current.get()
    _current.set(None if seconds is None else ReadBudget(seconds))
    try:
        yield
    finally:
        _current.set(before)  # not `reset`: a generator may end in another context
