"""Attach without a change to the program: `listeners/site/sitecustomize.py` calls this for each new session.

Each application is tried once. If attaching fails, the log has one line about it. If the program detached the
agent, it stays detached.
"""

from __future__ import annotations

import weakref
from typing import Any

from listeners import attach as attaching

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
    return bool(attaching.attach(session))
