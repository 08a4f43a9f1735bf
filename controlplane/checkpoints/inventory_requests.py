"""Inventories that were asked for and have not come: whom we asked, until when, and why none came the last time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

#: So long an agent, or this server, has for an inventory that somebody waits for.
LOOK_SECONDS = 15.0
#: So long an agent may collect: a start waits for 12 s, and the way there and back and the judging take the rest.
AGENT_SECONDS = 10.0
#: What is asked for may have been taken a little before, by a clock that is corrected.
SLACK_SECONDS = 2.0
MOST_TROUBLES = 10_000
MOST_KNOWN = 2_000


@dataclass(frozen=True)
class InventoryRequest:
    """An inventory that was asked for; `by` is `agent` or `server`."""

    id: str
    query_id: str
    by: str
    asked_at: float
    agent: str | None = None
    app: str = ""

    def late(self, now: float) -> bool:
        return now - self.asked_at > LOOK_SECONDS


class InventoryRequests:
    """At most one look a query. Thread-safe. `ended` is told each look that ends, outside the lock."""

    def __init__(self, ended: Callable[[InventoryRequest], None]):
        self._ended = ended
        self._lock = threading.Lock()
        self._open: dict[str, InventoryRequest] = {}
        self._known: OrderedDict[str, InventoryRequest] = OrderedDict()
        self._troubles: dict[str, str] = {}
        self._mute: set[str] = set()

    def begin(self, look: InventoryRequest) -> InventoryRequest:
        """Note a look; the one that is under way for its query, where there is one."""
        with self._lock:
            begun = self._open.setdefault(look.query_id, look)
            self._known[begun.id] = begun
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
            return begun

    def of(self, query_id: str) -> InventoryRequest | None:
        with self._lock:
            return self._open.get(query_id)

    def by_id(self, id: str) -> InventoryRequest | None:
        """A look, under way or lately ended: its result may come after its inventory."""
        with self._lock:
            return self._known.get(id)

    def trouble(self, query_id: str) -> str | None:
        """Why the last look brought nothing."""
        with self._lock:
            return self._troubles.get(query_id)

    def spoke(self, agent: str) -> None:
        """This agent answered a look, or sent an inventory."""
        with self._lock:
            self._mute.discard(agent)

    def is_mute(self, agent: str) -> bool:
        """Whether its last look was never answered, as with agents that know no inventories: no start waits for it."""
        with self._lock:
            return agent in self._mute

    def came(self, query_id: str, taken_at: float) -> None:
        """An inventory came and is judged."""
        with self._lock:
            self._troubles.pop(query_id, None)
            look = self._open.get(query_id)
            fits = look is not None and taken_at >= look.asked_at - SLACK_SECONDS
            if fits:
                del self._open[query_id]
        if look is not None and fits:
            self._ended(look)

    def failed(self, query_id: str, why: str) -> None:
        """No inventory will come of this look."""
        with self._lock:
            look = self._open.pop(query_id, None)
            if len(self._troubles) < MOST_TROUBLES or query_id in self._troubles:
                self._troubles[query_id] = why
        if look is not None:
            self._ended(look)

    def tick(self, now: float) -> None:
        """End those that took too long."""
        with self._lock:
            late = [look for look in self._open.values() if look.late(now)]
            self._mute.update(look.agent for look in late if look.agent is not None)
        for look in late:
            whom = "its agent" if look.by == "agent" else "this server"
            self.failed(look.query_id, f"{whom} brought no inventory within {LOOK_SECONDS:.0f} s")
