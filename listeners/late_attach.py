"""Attach when a query starts, where Spark did not answer before: a program may be up before its Connect server.

PySpark itself connects at the first call and waits minutes for the server, so a program runs on where attaching
failed. Used by `listeners.attach`.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Optional

from listeners.attachment import Attachment
from listeners.spark.guard import guarded
from listeners.spark.patching import Patches
from listeners.spark.sessions import engine_of

#: Attaches to a session; None if Spark does not answer.
Attach = Callable[[Any], Optional[Attachment]]


class LateAttach:
    """Wraps the methods that start a query until `attach` succeeds in one of them."""

    def __init__(self, attach: Attach):
        self._attach = attach
        self._lock = threading.Lock()
        self._patches: Patches | None = None

    def arm(self, session: Any) -> None:
        """Wrap the session's writer class; calling it again does nothing."""
        with self._lock:
            if self._patches is None:
                self._patches = Patches()
                writer = engine_of(session).classes()["writer"]
                for name in ("start", "toTable"):
                    self._patches.wrap(writer, name, self._start)

    def disarm(self) -> None:
        """Restore the methods."""
        with self._lock:
            patches, self._patches = self._patches, None
        if patches is not None:
            patches.undo()

    def _start(self, original: Callable[..., Any], writer: Any, *args: Any, **kwargs: Any) -> Any:
        """Attach before the start, else after it: PySpark has waited for the server then."""
        if self._try(writer) is not None:
            return getattr(writer, original.__name__)(*args, **kwargs)  # the agent has wrapped it now
        query = original(writer, *args, **kwargs)
        attachment = self._try(writer)
        if attachment is not None:
            guarded(lambda: attachment.started_before(original, writer, args, kwargs, query))
        return query

    def _try(self, writer: Any) -> Attachment | None:
        made: list[Attachment | None] = [None]

        def attach() -> None:
            made[0] = self._attach(writer._session)

        self.disarm()  # first, so that the agent wraps and later restores PySpark's own methods
        guarded(attach)
        if made[0] is None:
            self.arm(writer._session)
        return made[0]
