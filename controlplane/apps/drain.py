"""Stop the queries of an application after their running batch, before its driver is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable

from controlplane.actions.service import ActionService
from controlplane.actions.transitions import NewAction
from controlplane.errors import ControlPlaneError
from controlplane.events.window import Window
from controlplane.model import QueryView

POLL_SECONDS = 0.5


class QueryDrain:
    """Requests the stops and waits for them."""

    def __init__(
        self, window: Window, actions: ActionService, monotonic: Callable[[], float] = time.monotonic
    ):
        self._window, self._actions, self._monotonic = window, actions, monotonic

    def drain(self, app: str, actor: str, via: str, seconds: float) -> list[str]:
        """Stop the running queries of an app within `seconds`; the names of those that still run."""
        reason = f"the application {app} is being stopped"
        wanted = NewAction("stop", actor, via, drain=True, reason=reason)
        for view in self._running(app):
            try:
                self._actions.request(view, wanted)
            except ControlPlaneError:
                continue  # reported as still running
        until = self._monotonic() + seconds
        while self._open(app) and self._monotonic() < until:
            time.sleep(POLL_SECONDS)
        return [view.name or view.query_id for view in self._running(app)]

    def _running(self, app: str) -> list[QueryView]:
        views = (view for view in self._window.fleet() if view.app == app)
        return [view for view in views if view.run is not None and view.run.ended_at is None]

    def _open(self, app: str) -> bool:
        return any(view.action is not None for view in self._running(app))
