"""What a job prints while Spark works: its steps at once, and a line whenever nothing was printed for a while."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.pipeline.runtime.job_progress import JobProgress, StageProgress, describe, running_stages


class Tracker:
    """Spark's status tracker with one running stage, and one that has just ended."""

    def getActiveStageIds(self) -> list[int]:
        return [4, 5]

    def getStageInfo(self, stage: int) -> Any:
        if stage == 5:
            return None
        return SimpleNamespace(stageId=4, numTasks=200, numCompletedTasks=45, numActiveTasks=2)


SPARK: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=Tracker))


def test_a_silent_step_is_repeated_with_the_running_stage() -> None:
    lines: list[str] = []
    repeated = threading.Event()

    def print_line(text: str) -> None:
        lines.append(text)
        if "so far" in text:
            repeated.set()

    with JobProgress(print_line, interval=0.01, clock=lambda: 70.0) as progress:
        progress.watch(SPARK)
        progress.step("reading days")
        assert repeated.wait(30)
    assert lines[0] == "0s: reading days"
    assert lines[1] == "0s: reading days, 0s so far; stage 4: 45 of 200 tasks completed, 2 running"


def test_nothing_is_repeated_before_the_first_step_and_after_the_end() -> None:
    lines: list[str] = []
    with JobProgress(lines.append, interval=0.001):
        pass
    assert lines == []
    assert not [thread for thread in threading.enumerate() if thread.name == "job progress"]


def test_times_count_from_the_beginning_of_the_job_and_of_the_step() -> None:
    now = iter((0.0, 5.0, 5.0, 95.0, 95.0))
    lines: list[str] = []
    progress = JobProgress(lines.append, clock=lambda: next(now))
    progress.step("reading days")
    progress.log(progress.line())
    assert lines == ["5s: reading days", "1m35s: reading days, 1m30s so far; Spark runs no task"]


def test_an_error_ends_the_thread_and_passes_through() -> None:
    with pytest.raises(ValueError, match="boom"), JobProgress(lambda text: None):
        raise ValueError("boom")
    assert not [thread for thread in threading.enumerate() if thread.name == "job progress"]


def test_stages_are_read_from_spark_and_a_dead_session_has_none() -> None:
    assert running_stages(SPARK) == [StageProgress(4, 200, 45, 2)]
    assert running_stages(None) == []
    assert running_stages(SimpleNamespace()) == []


def test_two_stages_are_on_one_line() -> None:
    assert describe([StageProgress(1, 2, 0, 1), StageProgress(2, 8, 8, 0)]) == (
        "stage 1: 0 of 2 tasks completed, 1 running; stage 2: 8 of 8 tasks completed, 0 running"
    )
