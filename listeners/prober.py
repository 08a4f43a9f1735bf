"""What events cannot tell: every few seconds, which queries are active and whether their tasks finish.

A healthy long batch emits no event, a hung one neither, and a query can vanish without a word. So we
ask `spark.streams.active` and `query.status` of every session, and for a trigger that lasts longer
than one round, the task counts of the query's jobs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Callable

from listeners import classic, restarting
from listeners.registry import Registry


@dataclass
class _Seen:
    """What the last rounds saw of one run."""

    trigger_rounds: int = 0
    tasks_completed: int | None = None
    last_task_at: float | None = None
    #: What the facts that were sent depend on; they are sent again when it changes.
    facts_of: tuple[bool, int] | None = None


class Prober:
    """`sessions()` gives the sessions to visit; one status document a round."""

    def __init__(
        self,
        registry: Registry,
        sessions: Callable[[], Iterable[Any]],
        clock: Callable[[], float] = time.time,
    ):
        self._registry, self._sessions, self._clock = registry, sessions, clock
        self._seen: dict[str, _Seen] = {}

    def probe(self) -> dict[str, Any]:
        """The `data` of a status event. Raises when a session could not be asked: then nothing is claimed."""
        found: list[dict[str, Any]] = []
        for session in self._sessions():
            for query in classic.active(session):
                found.append(self._describe(session, query))
        alive = {query["runId"] for query in found}
        self._seen = {run_id: seen for run_id, seen in self._seen.items() if run_id in alive}
        return {"queries": found}

    def _describe(self, session: Any, query: classic.Listed) -> dict[str, Any]:
        seen = self._seen.setdefault(query.run_id, _Seen())
        document: dict[str, Any] = {
            "id": query.id,
            "runId": query.run_id,
            "name": query.name,
            "message": query.message,
            "isDataAvailable": query.data_available,
            "isTriggerActive": query.trigger_active,
        }
        document.update(self._tasks(session, query, seen))
        if not query.message.startswith("Initializing"):
            document.update(self._facts(query, seen))
        return document

    def _tasks(self, session: Any, query: classic.Listed, seen: _Seen) -> dict[str, Any]:
        seen.trigger_rounds = seen.trigger_rounds + 1 if query.trigger_active else 0
        if seen.trigger_rounds < 2:
            seen.tasks_completed = None
            return {"lastTaskAt": seen.last_task_at}
        running, completed = classic.tasks(session, query.run_id)
        if seen.tasks_completed is not None and completed != seen.tasks_completed:
            seen.last_task_at = self._clock()
        seen.tasks_completed = completed
        return {"tasksActive": running, "tasksCompleted": completed, "lastTaskAt": seen.last_task_at}

    def _facts(self, query: classic.Listed, seen: _Seen) -> dict[str, Any]:
        entry = self._registry.entry(query.id)
        writer = entry.start.writer if entry is not None and entry.start is not None else None
        depends = (
            self._registry.factory(query.name) is not None,
            self._registry.generation(writer) if writer is not None else 0,
        )
        if seen.facts_of == depends:
            return {}
        seen.facts_of = depends
        found = restarting.way(self._registry, entry, query.name)
        return {
            "facts": dict(classic.facts(query.jsq), restart=found.how, restartReason=found.reason),
        }
