"""How the program ends: uncaught exceptions, Ctrl-C, and SIGTERM in a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from listeners import program_end
from tests.paths import ROOT


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "excepthook", lambda *failure: None)
    return SimpleNamespace(exception=None, interrupted=False)


def test_uncaught_exception_is_recorded_and_printed(ending: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[Any] = []
    monkeypatch.setattr(sys, "excepthook", lambda *failure: printed.append(failure[1]))
    program_end.record_uncaught_exception(lambda: ending)
    error = ValueError("poison")
    sys.excepthook(ValueError, error, None)
    assert printed == [error] and ending.exception == "ValueError: poison" and not ending.interrupted


def test_ctrl_c_is_recorded_as_an_interrupt(ending: Any) -> None:
    program_end.record_uncaught_exception(lambda: ending)
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert ending.exception is None and ending.interrupted


def test_error_at_an_interactive_prompt_is_no_end_of_the_program(
    ending: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    program_end.record_uncaught_exception(lambda: ending)
    sys.excepthook(NameError, NameError("typo"), None)
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert ending.exception is None and not ending.interrupted


class TextlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_exception_without_a_text_is_recorded_by_its_name(ending: Any) -> None:
    program_end.record_uncaught_exception(lambda: ending)
    sys.excepthook(TextlessError, TextlessError(), None)
    assert ending.exception == "TextlessError"


def test_exception_whose_text_hangs_is_printed_without_delay(
    ending: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed, released = threading.Event(), threading.Event()

    def hangs(error: BaseException) -> str:
        assert printed.is_set() and released.wait(20)
        return "late"

    monkeypatch.setattr(sys, "excepthook", lambda *failure: printed.set())
    monkeypatch.setattr(program_end.causes, "text_of", hangs)
    monkeypatch.setattr(program_end, "EXCEPTION_TEXT_SECONDS", 0.05)
    program_end.record_uncaught_exception(lambda: ending)
    sys.excepthook(ValueError, ValueError("poison"), None)
    assert ending.exception == "ValueError"
    released.set()


def test_two_applications_of_one_process_share_one_hook(ending: Any) -> None:
    program_end.record_uncaught_exception(lambda: ending)
    hook = sys.excepthook
    program_end.record_uncaught_exception(lambda: None)
    assert sys.excepthook is hook


# -- SIGTERM ---------------------------------------------------------------------------------------


def ended(body: str, **environment: str) -> tuple[int, str]:
    """Run a program that installs a report and then `body`; send SIGTERM once it prints `ready`."""
    program = f"""
import os, signal, sys, threading, time
from listeners.program_end import SigtermReport
report = SigtermReport(lambda: print("reported", flush=True))
{body}
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    while first not in ("ready\n", ""):
        first = process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    return process.returncode, output


WAIT = "print('ready', flush=True)\ntime.sleep(60)"


def test_sigterm_is_reported_and_ends_the_process_as_without_the_agent() -> None:
    assert ended(f"report.install()\n{WAIT}") == (-signal.SIGTERM, "reported\n")


def test_a_second_sigterm_does_not_cut_the_report() -> None:
    slow = "def tell():\n    os.kill(os.getpid(), signal.SIGTERM)\n    time.sleep(0.2)\n    print('reported', flush=True)"
    assert ended(f"{slow}\nreport._report = tell\nreport.install()\n{WAIT}") == (
        -signal.SIGTERM,
        "reported\n",
    )


def test_handler_of_the_program_is_left_alone() -> None:
    own = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\nassert not report.install()"
    assert ended(f"{own}\n{WAIT}") == (7, "")


def test_handler_that_the_program_sets_later_stays() -> None:
    own = "report.install()\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\nreport.remove()"
    assert ended(f"{own}\n{WAIT}") == (7, "")


def test_handler_of_the_program_that_calls_the_previous_one_decides_how_the_program_ends() -> None:
    own = "def end(*signal):\n    previous(*signal)\n    print('own', flush=True)\n    os._exit(7)"
    chained = f"report.install()\n{own}\nprevious = signal.signal(signal.SIGTERM, end)"
    assert ended(f"{chained}\n{WAIT}") == (7, "own\n")


def test_first_process_of_a_container_ends_though_the_kernel_discards_its_signal() -> None:
    first = "os.getpid, os.kill = lambda: 1, lambda *signal: None\nreport.install()"
    assert ended(f"{first}\n{WAIT}") == (128 + signal.SIGTERM, "reported\n")


def test_ctrl_c_during_the_report_does_not_keep_the_process() -> None:
    interrupted = "report._report = lambda: (os.kill(os.getpid(), signal.SIGINT), time.sleep(60))"
    survived = "try:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('survived', flush=True)"
    program = f"{interrupted}\nreport.install()\nprint('ready', flush=True)\n{survived}"
    assert ended(program) == (-signal.SIGTERM, "")


def test_removed_report_leaves_the_default() -> None:
    assert ended(f"report.install()\nreport.remove()\n{WAIT}") == (-signal.SIGTERM, "")


def test_report_that_hangs_or_raises_does_not_keep_the_process() -> None:
    hanging = (
        "import listeners.program_end as p\np.REPORT_SECONDS = 0.1\nreport._report = lambda: time.sleep(60)"
    )
    assert ended(f"{hanging}\nreport.install()\n{WAIT}") == (-signal.SIGTERM, "")
    raising = "report._report = lambda: 1 / 0\nthreading.excepthook = lambda *_: None"
    assert ended(f"{raising}\nreport.install()\n{WAIT}") == (-signal.SIGTERM, "")


def test_report_needs_no_lock_that_the_main_thread_holds_for_the_process_to_end() -> None:
    held = (
        "import listeners.program_end as p\np.REPORT_SECONDS = 0.1\nlock = threading.Lock()\nlock.acquire()"
    )
    blocked = "report._report = lambda: lock.acquire()"
    assert ended(f"{held}\n{blocked}\nreport.install()\n{WAIT}") == (-signal.SIGTERM, "")


def test_forked_child_ends_without_a_report() -> None:
    forked = "report.install()\nchild = os.fork()\nif child:\n    os.waitpid(child, 0)\n    print('over', flush=True)"
    child = "\nelse:\n    os.kill(os.getpid(), signal.SIGTERM)\n    time.sleep(60)\n"
    assert ended(f"{forked}{child}{WAIT}")[0] == -signal.SIGTERM


def test_no_handler_is_installed_outside_the_main_thread() -> None:
    made: list[bool] = []
    report = program_end.SigtermReport(lambda: None)
    thread = threading.Thread(target=lambda: made.append(report.install()))
    thread.start()
    thread.join()
    assert made == [False]
