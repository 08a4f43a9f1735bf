"""Notice how the program ends, so that the agent can report it: an uncaught exception, Ctrl-C, or SIGTERM.

Kubernetes, systemd and `kill` end a process by SIGTERM, for which Python's default ends the process without
running anything. The handler installed here reports the end first and then ends the process in the same way, with
the same exit status. A handler of the program stays: such a program ends by itself. Used by `listeners.attach`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any, Callable, Optional, Protocol

from listeners.spark import causes
from listeners.spark.guard import REPORT_SECONDS, run_with_timeout

#: Limit for reading a failure's text from Spark while the program is ending.
EXCEPTION_TEXT_SECONDS = 1.0


class EndingProgram(Protocol):
    """The attachment, as far as it is set here."""

    exception: Optional[str]
    interrupted: bool


Current = Callable[[], Optional[EndingProgram]]


def record_uncaught_exception(current: Current) -> None:
    """Note an uncaught exception or Ctrl-C in the `current` attachment; it is still printed as before."""
    previous = sys.excepthook
    if getattr(previous, "controlplane", False):
        return

    def note(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        previous(kind, error, trace)
        if _is_interactive():
            return  # the prompt comes back: the program goes on
        ending = current()
        if ending is not None and isinstance(error, Exception):
            ending.exception = kind.__name__  # in case its text cannot be read
            with suppress(RuntimeError):
                run_with_timeout(lambda: _record_exception_text(ending, error), EXCEPTION_TEXT_SECONDS)
        elif ending is not None and isinstance(error, KeyboardInterrupt):
            ending.interrupted = True

    note.controlplane = True  # type: ignore[attr-defined]
    sys.excepthook = note


def _is_interactive() -> bool:
    return bool(sys.flags.interactive) or hasattr(sys, "ps1")


def _record_exception_text(ending: EndingProgram, error: Exception) -> None:
    with suppress(Exception):  # the exception may not have a text
        ending.exception = causes.text_of(error)


class SigtermReport:
    """Calls `report` before SIGTERM ends this process. Signal handlers belong to the main thread."""

    def __init__(self, report: Callable[[], None]):
        self._report = report
        self._process = 0

    def install(self) -> bool:
        """Handle SIGTERM if it has Python's default; False where that is not possible."""
        if threading.current_thread() is not threading.main_thread() or os.name == "nt":
            return False
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return False
        self._process = os.getpid()
        signal.signal(signal.SIGTERM, self._handle)
        return True

    def remove(self) -> None:
        """Restore the default, unless the program has set a handler of its own since."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) == self._handle:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _handle(self, number: int, frame: Any) -> None:
        if signal.getsignal(number) != self._handle:
            return  # called by the program's own handler, which decides whether the program ends
        # `timeout`, a shell's loop or a supervisor send it twice: the report, which takes seconds at most, goes on.
        signal.signal(number, _is_ending)
        try:
            if os.getpid() == self._process:
                with suppress(Exception):  # the process must end all the same
                    # On another thread: the main thread may hold a lock that the report needs.
                    run_with_timeout(self._report, REPORT_SECONDS)
        finally:  # Ctrl-C may interrupt the wait
            signal.signal(number, signal.SIG_DFL)
            _end_process(number)


def _is_ending(number: int, frame: Any) -> None:
    """A further SIGTERM while the first is being reported."""


def _end_process(number: int) -> None:
    # For the first process of a container the kernel discards a signal without a handler.
    if os.getpid() == 1:
        os._exit(128 + number)
    os.kill(os.getpid(), number)
