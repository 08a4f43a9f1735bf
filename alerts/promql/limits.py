"""Limits of one evaluation, and the budget that enforces them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from alerts.promql.errors import LimitExceeded

Item = TypeVar("Item")


def never() -> bool:
    """Default for `abandoned`."""
    return False


@dataclass(frozen=True, slots=True)
class Limits:
    """`samples`: read from the source, and held by any one intermediate result. `points`: steps of a range
    query, as in Prometheus. `seconds`: checked between operations, each of which is short within the other
    limits. `abandoned`: whether nobody waits for the result any more."""

    samples: int = 5_000_000
    series: int = 200_000
    points: int = 11_000
    seconds: float = 30.0
    abandoned: Callable[[], bool] = never


DEFAULT_LIMITS = Limits()
#: A loop in Python checks the deadline after so many rounds.
TICK_EVERY = 1024


class EvaluationBudget:
    """Adds up the cost of one evaluation; TooCostly as soon as a limit is passed."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic):
        self._limits, self._clock = limits, clock
        self._read = 0
        self._deadline = clock() + limits.seconds

    def read(self, series: int, samples: int) -> None:
        """Account for series and samples read from the source."""
        self._read += samples
        self._bound("series", series, self._limits.series)
        self._bound("samples read", self._read, self._limits.samples)

    def hold(self, rows: int, steps: int) -> None:
        """Account for an intermediate result of `rows` × `steps` before it is allocated."""
        self._bound("series", rows, self._limits.series)
        self._bound("samples held at once", rows * steps, self._limits.samples)

    def tick(self) -> None:
        """Check the deadline."""
        if self._clock() > self._deadline:
            raise LimitExceeded(f"the query took longer than {self._limits.seconds:g} s")
        if self._limits.abandoned():
            raise LimitExceeded("the client has closed the connection")

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this the budget of `paced` loops in this thread."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def _bound(self, what: str, found: int, limit: int) -> None:
        if found > limit:
            raise LimitExceeded(f"too many {what}: {found}, the limit is {limit}")


_CURRENT: ContextVar[EvaluationBudget | None] = ContextVar("current budget", default=None)


def paced(items: Iterable[Item]) -> Iterator[Item]:
    """The items; a source's long loop over them ends with LimitExceeded at the deadline of the current evaluation."""
    budget = _CURRENT.get()
    if budget is None:
        yield from items
        return
    for index, item in enumerate(items):
        if not index % TICK_EVERY:
            budget.tick()
        yield item
