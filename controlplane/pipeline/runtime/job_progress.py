"""Print what a job is doing: each step when it begins, then a line at least every ten seconds.

The commands of the history group use it around their Spark jobs, so that no minute is silent on a busy machine.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple

from alerts.durations import format_duration

INTERVAL_SECONDS = 10.0


class StageProgress(NamedTuple):
    """Tasks of one stage that Spark runs now: all, completed, running."""

    stage: int
    tasks: int
    completed: int
    running: int


class JobProgress:
    """Context manager: until its end a thread repeats the current step, with the running stages of Spark."""

    def __init__(
        self,
        print_line: Callable[[str], None],
        interval: float = INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ):
        """`interval`: seconds without a line after which the thread prints one."""
        self._print, self._interval, self._clock = print_line, interval, clock
        self._began = clock()
        self._step, self._step_began = "", self._began
        self._spark: Any = None
        self._stopped = threading.Event()
        self._printed = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="job progress", daemon=True)

    def __enter__(self) -> JobProgress:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopped.set()
        self._printed.set()
        self._thread.join()

    def step(self, text: str) -> None:
        """Begin a step and print it."""
        self._step, self._step_began = text, self._clock()
        self.log(text)

    def log(self, text: str) -> None:
        """Print a line with the time since the job began."""
        self._print(f"{format_duration(round(self._clock() - self._began))}: {text}")
        self._printed.set()

    def watch(self, spark: Any) -> None:
        """Add the running stages of this Spark session to the lines."""
        self._spark = spark

    def _repeat(self) -> None:
        while not self._stopped.is_set():
            if self._printed.wait(self._interval):
                self._printed.clear()
            elif self._step:
                self.log(self.line())
                self._printed.clear()

    def line(self) -> str:
        """The current step, how long it has run, and the tasks that Spark runs for it."""
        taken = format_duration(round(self._clock() - self._step_began))
        return f"{self._step}, {taken} so far; {describe(running_stages(self._spark))}"


def running_stages(spark: Any) -> list[StageProgress]:
    """The stages that Spark runs now; empty without a session, and where Spark does not answer."""
    if spark is None:
        return []
    try:
        tracker = spark.sparkContext.statusTracker()
        found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:  # the session ends: the line is not worth an error
        return []
    return [
        StageProgress(s.stageId, s.numTasks, s.numCompletedTasks, s.numActiveTasks)
        for s in found
        if s is not None
    ]


def describe(stages: Sequence[StageProgress]) -> str:
    """`stage 4: 45 of 200 tasks completed, 2 running`."""
    if not stages:
        return "Spark runs no task"
    texts = (
        f"stage {s.stage}: {s.completed} of {s.tasks} tasks completed, {s.running} running" for s in stages
    )
    return "; ".join(texts)
