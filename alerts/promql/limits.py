"""Limits of one evaluation, and the budget that enforces them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from alerts.promql.errors import LimitExceeded


@dataclass(frozen=True, slots=True)
class Limits:
    """`samples`: read from the source, and held by any one intermediate result. `points`: steps of a range
    query, as in Prometheus. `seconds`: checked between operations, each of which is short within the other
    limits."""

    samples: int = 5_000_000
    series: int = 200_000
    points: int = 11_000
    seconds: float = 30.0


DEFAULT_LIMITS = Limits()


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

    def _bound(self, what: str, found: int, limit: int) -> None:
        if found > limit:
            raise LimitExceeded(f"too many {what}: {found}, the limit is {limit}")
