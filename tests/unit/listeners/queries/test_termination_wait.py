"""Waiting for the last termination events at the program's end."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from listeners.queries.termination_wait import TerminationWait


class Run:
    def __init__(self, run_id: str, active: bool | Exception = False):
        self.run_id, self._active = run_id, active

    def is_active(self) -> bool:
        if isinstance(self._active, Exception):
            raise self._active
        return self._active


@pytest.mark.parametrize("runs", [[], [Run("runs", True)], [Run("gone", ConnectionError("no JVM"))]])
def test_no_wait_while_every_run_is_active(runs: list[Any]) -> None:
    assert TerminationWait().wait(runs, seconds=5.0)


def test_recorded_end_is_not_waited_for() -> None:
    termination_wait = TerminationWait()
    termination_wait.record("a")
    assert termination_wait.wait([Run("a")], seconds=5.0)


def test_end_within_the_timeout_is_waited_for() -> None:
    termination_wait, asked = TerminationWait(), threading.Event()

    class Late(Run):
        def is_active(self) -> bool:
            asked.set()
            return False

    recorder = threading.Thread(target=lambda: (asked.wait(), termination_wait.record("a")))
    recorder.start()
    assert termination_wait.wait([Late("a")], seconds=60.0)
    recorder.join()


def test_exiting_interpreter_without_threads_is_not_waited_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert not TerminationWait().wait([Run("a")], seconds=5.0)


def test_missing_end_is_given_up() -> None:
    assert not TerminationWait().wait([Run("a")], seconds=0.01)


def test_unresponsive_spark_is_waited_for_within_the_timeout() -> None:
    released = threading.Event()

    class Hanging(Run):
        def is_active(self) -> bool:
            assert released.wait(20)
            return False

    assert not TerminationWait().wait([Hanging("a")], seconds=0.1)
    released.set()
