"""Which checkpoints the server reads itself: outdated ones that no agent can read. Decides only.

Called by `controlplane.checkpoints.service` where checkpoint roots are configured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controlplane.health.checkpoint_verdict import is_outdated
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import QueryView

#: A checkpoint is read at most this often, and this many of them in a pass.
INSPECTION_SECONDS = 300.0
MAX_INSPECTIONS = 2
#: Time between two passes over the fleet.
PASS_SECONDS = 15.0
#: How long after a start the agent may take to send its inventory.
AGENT_SECONDS = 120.0


class ServerInspections:
    """Remembers when each checkpoint was last read, or could not be read. Not thread-safe."""

    def __init__(self) -> None:
        self._passed_at = float("-inf")
        self._read_at: dict[str, float] = {}

    def due(self, fleet: Callable[[], Iterable[QueryView]], now: float) -> list[QueryView]:
        """The checkpoints to read now, those longest not read first; empty between two passes."""
        if now - self._passed_at < PASS_SECONDS:
            return []
        self._passed_at = now
        wanted = {view.query_id: view for view in fleet() if is_wanted(view, now)}
        self._read_at = {query_id: at for query_id, at in self._read_at.items() if query_id in wanted}
        ready = [name for name in wanted if now - self._last(name) >= INSPECTION_SECONDS]
        chosen = sorted(ready, key=self._last)[:MAX_INSPECTIONS]
        self._read_at.update(dict.fromkeys(chosen, now))
        return [wanted[name] for name in chosen]

    def _last(self, query_id: str) -> float:
        return self._read_at.get(query_id, float("-inf"))


def is_wanted(view: QueryView, now: float) -> bool:
    """Whether the checkpoint's verdict is unknown or outdated, and no agent will send an inventory."""
    facts = view.facts
    if view.retired_at is not None or not facts.checkpoint or facts.checkpoint_is_temporary:
        return False
    return (view.checkpoint is None or is_outdated(view)) and not _agent_reads(view, now)


def _agent_reads(view: QueryView, now: float) -> bool:
    """Whether the query's agent lives, and sends inventories or may still send its first."""
    agent, run, seen = view.agent, view.run, view.checkpoint
    if agent is None or run is None or agent.ended_at is not None:
        return False
    if now - agent.last_seen_at > DEFAULTS.silent_seconds:
        return False
    sends = seen is not None and not (seen.collector or "").startswith("server")
    return sends or now - max(run.started_at, run.ended_at or 0.0) <= AGENT_SECONDS
