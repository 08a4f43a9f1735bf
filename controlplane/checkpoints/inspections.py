"""Which checkpoints the server has inspected without being asked: outdated ones of which no inventory comes.

Decides only. Called by `controlplane.checkpoints.service`, which asks the agent, or reads the checkpoint itself where
no agent can and a checkpoint root allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controlplane.health.checkpoint_verdict import is_outdated, is_stale, newest_reading
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import QueryView

#: A checkpoint is inspected at most this often, and this many of them in a pass.
INSPECTION_SECONDS = 300.0
MAX_INSPECTIONS = 2
#: Time between two passes over the fleet.
PASS_SECONDS = 15.0
#: How long after a run's start or end its agent may take to send an inventory by itself.
AGENT_SECONDS = 120.0
#: Age of the newest reading from which a living agent is asked; in a driver of many queries readings are rare.
OLD_SECONDS = 1800.0


class Inspections:
    """Remembers when each checkpoint was last inspected, successfully or not. Not thread-safe."""

    def __init__(self) -> None:
        self._passed_at = float("-inf")
        self._inspected_at: dict[str, float] = {}

    def due(self, fleet: Callable[[], Iterable[QueryView]], now: float) -> list[QueryView]:
        """The checkpoints to inspect now, those longest not inspected first; empty between two passes."""
        if now - self._passed_at < PASS_SECONDS:
            return []
        self._passed_at = now
        wanted = {view.query_id: view for view in fleet() if is_wanted(view, now)}
        self._inspected_at = {
            query_id: at for query_id, at in self._inspected_at.items() if query_id in wanted
        }
        ready = [name for name in wanted if now - self._last(name) >= INSPECTION_SECONDS]
        chosen = sorted(ready, key=self._last)[:MAX_INSPECTIONS]
        self._inspected_at.update(dict.fromkeys(chosen, now))
        return [wanted[name] for name in chosen]

    def _last(self, query_id: str) -> float:
        return self._inspected_at.get(query_id, float("-inf"))


def is_wanted(view: QueryView, now: float) -> bool:
    """Whether the checkpoint's verdict is unknown, or has been outdated for longer than its agent needs."""
    facts = view.facts
    if view.retired_at is not None or not facts.checkpoint or facts.checkpoint_is_temporary:
        return False
    if not _lives(view, now):
        return view.checkpoint is None or is_outdated(view)
    run, seen = view.run, view.checkpoint
    changed_at = max(run.started_at, run.ended_at or 0.0) if run is not None else view.first_seen_at
    old = seen is None or (now - newest_reading(seen).at > OLD_SECONDS and is_stale(view, now))
    return old and now - changed_at > AGENT_SECONDS


def _lives(view: QueryView, now: float) -> bool:
    agent = view.agent
    if agent is None or agent.ended_at is not None:
        return False
    return now - agent.last_contact_at <= DEFAULTS.silent_seconds
