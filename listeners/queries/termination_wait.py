"""At a program's end the last callback of Spark may still be on its way: wait for it, a little.

Spark tells of a query's end after the program has been told: one that ends right then would leave with a query
that seems to run for ever (seen on Spark 3.4, 3.5).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Callable

from listeners.spark.engine import SparkRun

#: Seconds; what is later than this is not told.
WAIT_SECONDS = 0.5
MAX_RUNS = 1000


def run_with_timeout(act: Callable[[], None], seconds: float) -> bool:
    """Do it on another thread and wait so long: a JVM that hangs must not hold the program. True if it is done.

    RuntimeError where the interpreter ends and starts no thread any more (3.12).
    """
    thread = threading.Thread(target=act, name="controlplane-aside", daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


class TerminationWait:
    """The ends that were heard, of the newest runs."""

    def __init__(self) -> None:
        self._ended: dict[str, None] = {}  # in the order they came
        self._changed = threading.Condition()

    def record(self, run_id: str) -> None:
        with self._changed:
            self._ended[run_id] = None
            if len(self._ended) > MAX_RUNS:
                del self._ended[next(iter(self._ended))]
            self._changed.notify_all()

    def wait(self, runs: Iterable[SparkRun], seconds: float = WAIT_SECONDS) -> bool:
        """Until the end of each run that is over was heard; False if that took too long.

        Whether a run is over is asked aside: a server of Connect may not answer for long.
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
    except Exception:  # its Spark is gone: nobody will tell
        return False
