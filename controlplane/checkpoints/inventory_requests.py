"""Inventories that were asked for and have not come: whom we asked, until when, and why none came the last time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

#: So long an agent, or this server, has for an inventory that somebody waits for.
REQUEST_TIMEOUT_SECONDS = 15.0
#: So long an agent may collect: a start waits for 12 s, and the way there and back and the judging take the rest.
AGENT_COLLECT_SECONDS = 10.0
#: What is asked for may have been taken a little before, by a clock that is corrected.
CLOCK_SLACK_SECONDS = 2.0
MAX_TROUBLES = 10_000
MAX_KNOWN = 2_000


@dataclass(frozen=True)
class InventoryRequest:
    """An inventory that was asked for; `by` is `agent` or `server`."""

    id: str
    query_id: str
    by: str
    requested_at: float
    agent: str | None = None
    app: str = ""

    def timed_out(self, now: float) -> bool:
        return now - self.requested_at > REQUEST_TIMEOUT_SECONDS


class InventoryRequests:
    """At most one look a query. Thread-safe. `ended` is told each look that ends, outside the lock."""

    def __init__(self, ended: Callable[[InventoryRequest], None]):
        self._ended = ended
        self._lock = threading.Lock()
        self._open: dict[str, InventoryRequest] = {}
        self._requests: OrderedDict[str, InventoryRequest] = OrderedDict()
        self._troubles: dict[str, str] = {}
        self._unresponsive: set[str] = set()

    def begin(self, request: InventoryRequest) -> InventoryRequest:
        """Note a look; the one that is under way for its query, where there is one."""
        with self._lock:
            existing = self._open.setdefault(request.query_id, request)
            self._requests[existing.id] = existing
            if len(self._requests) > MAX_KNOWN:
                self._requests.popitem(last=False)
            return existing

    def of(self, query_id: str) -> InventoryRequest | None:
        with self._lock:
            return self._open.get(query_id)

    def by_id(self, id: str) -> InventoryRequest | None:
        """A look, under way or lately ended: its result may come after its inventory."""
        with self._lock:
            return self._requests.get(id)

    def trouble(self, query_id: str) -> str | None:
        """Why the last look brought nothing."""
        with self._lock:
            return self._troubles.get(query_id)

    def agent_answered(self, agent: str) -> None:
        """This agent answered a look, or sent an inventory."""
        with self._lock:
            self._unresponsive.discard(agent)

    def is_unresponsive(self, agent: str) -> bool:
        """Whether its last look was never answered, as with agents that know no inventories: no start waits for it."""
        with self._lock:
            return agent in self._unresponsive

    def completed(self, query_id: str, taken_at: float) -> None:
        """An inventory came and is judged."""
        with self._lock:
            self._troubles.pop(query_id, None)
            request = self._open.get(query_id)
            fits = request is not None and taken_at >= request.requested_at - CLOCK_SLACK_SECONDS
            if fits:
                del self._open[query_id]
        if request is not None and fits:
            self._ended(request)

    def failed(self, query_id: str, why: str) -> None:
        """No inventory will come of this look."""
        with self._lock:
            request = self._open.pop(query_id, None)
            if len(self._troubles) < MAX_TROUBLES or query_id in self._troubles:
                self._troubles[query_id] = why
        if request is not None:
            self._ended(request)

    def tick(self, now: float) -> None:
        """End those that took too long."""
        with self._lock:
            timed_out = [request for request in self._open.values() if request.timed_out(now)]
            self._unresponsive.update(request.agent for request in timed_out if request.agent is not None)
        for request in timed_out:
            whom = "its agent" if request.by == "agent" else "this server"
            self.failed(
                request.query_id, f"{whom} brought no inventory within {REQUEST_TIMEOUT_SECONDS:.0f} s"
            )
