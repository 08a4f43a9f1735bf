"""Requests for inventories that have not arrived: who collects, until when, and why the last request failed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

#: The time that an agent, or this server, has to deliver a requested inventory.
REQUEST_TIMEOUT_SECONDS = 15.0
#: The time that an agent may spend collecting. A start waits 12 s; transfer and analysis take the rest.
AGENT_COLLECT_SECONDS = 10.0
#: Tolerance for the time of an inventory, which comes from a corrected clock.
CLOCK_SLACK_SECONDS = 2.0
MAX_TROUBLES = 10_000
MAX_KNOWN = 2_000


@dataclass(frozen=True)
class InventoryRequest:
    """A requested inventory. `by`: who collects it, `agent` or `server`."""

    id: str
    query_id: str
    by: str
    requested_at: float
    agent: str | None = None
    app: str = ""

    def timed_out(self, now: float) -> bool:
        """Whether the request is older than REQUEST_TIMEOUT_SECONDS."""
        return now - self.requested_at > REQUEST_TIMEOUT_SECONDS


class InventoryRequests:
    """At most one open request per query. Thread-safe. Calls `ended`, outside the lock, for each request that ends."""

    def __init__(self, ended: Callable[[InventoryRequest], None]):
        self._ended = ended
        self._lock = threading.Lock()
        self._open: dict[str, InventoryRequest] = {}
        self._requests: OrderedDict[str, InventoryRequest] = OrderedDict()
        self._troubles: dict[str, str] = {}
        self._unresponsive: set[str] = set()

    def begin(self, request: InventoryRequest) -> InventoryRequest:
        """Record a request; returns the open one of the same query where there is one."""
        with self._lock:
            existing = self._open.setdefault(request.query_id, request)
            self._requests[existing.id] = existing
            if len(self._requests) > MAX_KNOWN:
                self._requests.popitem(last=False)
            return existing

    def of(self, query_id: str) -> InventoryRequest | None:
        """The open request of a query."""
        with self._lock:
            return self._open.get(query_id)

    def by_id(self, id: str) -> InventoryRequest | None:
        """An open or recently ended request; its result may arrive after its inventory."""
        with self._lock:
            return self._requests.get(id)

    def trouble(self, query_id: str) -> str | None:
        """Why the last request of a query failed; None where it did not."""
        with self._lock:
            return self._troubles.get(query_id)

    def agent_answered(self, agent: str) -> None:
        """Record that this agent answered a request or sent an inventory."""
        with self._lock:
            self._unresponsive.discard(agent)

    def is_unresponsive(self, agent: str) -> bool:
        """Whether the agent ignored its last request, as agents without inventories do; starts do not wait for it."""
        with self._lock:
            return agent in self._unresponsive

    def completed(self, query_id: str, taken_at: float) -> None:
        """Record that an inventory taken at `taken_at` was received and analyzed."""
        with self._lock:
            self._troubles.pop(query_id, None)
            request = self._open.get(query_id)
            fits = request is not None and taken_at >= request.requested_at - CLOCK_SLACK_SECONDS
            if fits:
                del self._open[query_id]
        if request is not None and fits:
            self._ended(request)

    def failed(self, query_id: str, why: str) -> None:
        """End the open request of a query, which will bring no inventory, with the reason `why`."""
        with self._lock:
            request = self._open.pop(query_id, None)
            if len(self._troubles) < MAX_TROUBLES or query_id in self._troubles:
                self._troubles[query_id] = why
        if request is not None:
            self._ended(request)

    def tick(self, now: float) -> None:
        """End the requests that timed out."""
        with self._lock:
            timed_out = [request for request in self._open.values() if request.timed_out(now)]
            self._unresponsive.update(request.agent for request in timed_out if request.agent is not None)
        for request in timed_out:
            collector = "its agent" if request.by == "agent" else "this server"
            self.failed(
                request.query_id, f"{collector} delivered no inventory within {REQUEST_TIMEOUT_SECONDS:.0f} s"
            )
