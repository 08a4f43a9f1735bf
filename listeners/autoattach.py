"""Attach without a change to the program: `listeners/site/sitecustomize.py` calls this for each new session.

Each application is tried once. If attaching fails, the log has one line about it. If the program detached the
agent, it stays detached.
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

#: Limit for reading a failure's text from Spark while the program is ending.
EXCEPTION_TEXT_SECONDS = 1.0

_sessions: weakref.WeakSet[Any] = weakref.WeakSet()
_applications: weakref.WeakSet[Any] = weakref.WeakSet()


def joined(session: Any) -> bool:
    """Attach for this session; True if this created the agent of this process. Cheap to call again."""
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
    """Report an uncaught exception with the end of the program; it is still printed as before."""
    previous = sys.excepthook
    if getattr(previous, "controlplane", False):
        return

    def note(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        previous(kind, error, trace)
        attachment = attaching.current()
        if attachment is not None and isinstance(error, Exception):
            attachment.exception = kind.__name__  # in case its text cannot be read
            with suppress(RuntimeError):
                run_with_timeout(lambda: _record_exception_text(attachment, error), EXCEPTION_TEXT_SECONDS)

    note.controlplane = True  # type: ignore[attr-defined]
    sys.excepthook = note


def _record_exception_text(attachment: Attachment, error: Exception) -> None:
    with suppress(Exception):  # the exception may not have a text
        attachment.exception = causes.text_of(error)
