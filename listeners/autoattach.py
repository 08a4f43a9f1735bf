"""Attaching without the program's knowledge: what `listeners/site/sitecustomize.py` calls with each new session.

An application is tried once: where attaching is refused the log has one line of it, and where the program
detached the agent it stays out.
"""

from __future__ import annotations

import sys
import weakref
from contextlib import suppress
from types import TracebackType
from typing import Any

from listeners import attach as attaching
from listeners.attachment import Attachment
from listeners.queries.termination_wait import run_with_timeout
from listeners.spark import causes

#: What Spark is given to tell a failure's text: the program ends meanwhile.
EXCEPTION_TEXT_SECONDS = 1.0

_sessions: weakref.WeakSet[Any] = weakref.WeakSet()
_applications: weakref.WeakSet[Any] = weakref.WeakSet()


def joined(session: Any) -> bool:
    """Attach for this session; True if that made the agent of this process. Cheap when asked again."""
    if session in _sessions:
        return False
    _sessions.add(session)
    if attaching.current() is not None:
        attaching.attach(session)
        return False
    application = getattr(session, "_sc", None) or session
    if application in _applications:
        return False
    _applications.add(application)
    made = bool(attaching.attach(session))
    if made:
        record_uncaught_exception()
    return made


def record_uncaught_exception() -> None:
    """An exception that ends the program is told with the program's end; it is printed as ever."""
    previous = sys.excepthook
    if getattr(previous, "controlplane", False):
        return

    def note(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        previous(kind, error, trace)
        attachment = attaching.current()
        if attachment is not None and isinstance(error, Exception):
            attachment.exception = kind.__name__  # where its text cannot be had
            with suppress(RuntimeError):
                run_with_timeout(lambda: _record_exception_text(attachment, error), EXCEPTION_TEXT_SECONDS)

    note.controlplane = True  # type: ignore[attr-defined]
    sys.excepthook = note


def _record_exception_text(attachment: Attachment, error: Exception) -> None:
    with suppress(Exception):  # an exception that has no text either
        attachment.exception = causes.text_of(error)
