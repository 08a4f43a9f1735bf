"""Wait briefly at the program's end for Spark's last termination events.

Spark sends `onQueryTerminated` after it has released the program's `awaitTermination`. A program that exits
right then would leave a query that seems to run forever (seen on Spark 3.4, 3.5).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from listeners.spark.engine import SparkRun
from listeners.spark.guard import run_with_timeout

#: Maximum wait; later events are not sent.
WAIT_SECONDS = 0.5
MAX_RUNS = 1000


class TerminationWait:
    """The runs whose end was recorded, up to MAX_RUNS."""

    def __init__(self) -> None:
        self._ended: dict[str, None] = {}  # in order of arrival
        self._changed = threading.Condition()

    def record(self, run_id: str) -> None:
        """Record the end of a run."""
        with self._changed:
            self._ended[run_id] = None
            if len(self._ended) > MAX_RUNS:
                del self._ended[next(iter(self._ended))]
            self._changed.notify_all()

    def wait(self, runs: Iterable[SparkRun], seconds: float = WAIT_SECONDS) -> bool:
        """Wait until the end of each inactive run was recorded; False if that took longer than `seconds`.

        Spark is asked on another thread: a Connect server may take long to answer.
        """
        deadline = time.monotonic() + seconds
        ended_runs: list[str] = []
        queried = list(runs)
        try:
            answered = run_with_timeout(lambda: self._collect_ended(queried, ended_runs), seconds)
        except RuntimeError:
            return False
        with self._changed:
            remaining = max(0.0, deadline - time.monotonic())
            in_time = self._changed.wait_for(
                lambda: all(run_id in self._ended for run_id in ended_runs), remaining
            )
        return in_time and answered

    def _collect_ended(self, runs: Iterable[SparkRun], ended_runs: list[str]) -> None:
        for run in runs:
            if run.run_id not in self._ended and _has_ended(run):
                ended_runs.append(run.run_id)


def _has_ended(run: SparkRun) -> bool:
    try:
        return not run.is_active()
    except Exception:  # Spark is gone, so no event will come
        return False
