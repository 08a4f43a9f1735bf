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
from listeners.registry import Entry, Registry
from listeners.shape import shape_of


@dataclass
class _Seen:
    """What the last rounds saw of one run."""

    trigger_rounds: int = 0
    tasks_completed: int | None = None
    last_task_at: float | None = None
    told: tuple[Any, ...] | None = None


class Prober:
    """`sessions()` gives the sessions to visit; one status document a round. `redact` masks secrets in texts."""

    def __init__(
        self,
        registry: Registry,
        sessions: Callable[[], Iterable[Any]],
        clock: Callable[[], float] = time.time,
        redact: Callable[[str], str] | None = None,
    ):
        self._registry, self._sessions, self._clock, self._redact = registry, sessions, clock, redact
        self._seen: dict[str, _Seen] = {}
        #: Executors and heap as of the last round, for the next heartbeat, which must not wait for the JVM.
        self.driver: dict[str, Any] = {}

    def probe(self) -> dict[str, Any]:
        """The `data` of a status event. Raises when a session could not be asked: then nothing is claimed."""
        self.driver = {}
        sessions = list(self._sessions())
        found = [self._describe(session, query) for session in sessions for query in classic.active(session)]
        self.driver = self._driver_figures(sessions)
        alive = {query["runId"] for query in found}
        self._seen = {run_id: seen for run_id, seen in self._seen.items() if run_id in alive}
        found += [self._of_ended(entry) for entry in self._ended_untold(alive)]
        self._registry.trim()
        return {"queries": found}

    def _driver_figures(self, sessions: list[Any]) -> dict[str, Any]:
        """Of any session, they share the driver; a Spark that does not tell must not cost us the status."""
        try:
            return classic.driver_figures(sessions[0]) if sessions else {}
        except Exception:
            return {}

    def _ended_untold(self, alive: set[str]) -> list[Entry]:
        """Runs that ended before any round saw them: what they were can still be told."""
        entries = [entry for entry in self._registry.entries() if entry.run_id not in alive]
        return [e for e in entries if (e.told is None or e.told[0] != e.run_id) and not e.is_active()]

    def _of_ended(self, entry: Entry) -> dict[str, Any]:
        told, entry.told = entry.told, self._depends(entry, entry.name, entry.run_id)
        return {
            "id": entry.query_id,
            "runId": entry.run_id,
            "name": entry.name,
            "active": False,
            "facts": self._facts(entry, entry.name, entry.jsq, told, entry.run_id),
        }

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
            document.update(self._facts_if_new(query, seen))
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

    def _facts_if_new(self, query: classic.Listed, seen: _Seen) -> dict[str, Any]:
        entry = self._registry.entry(query.id)
        keeper = entry if entry is not None else seen
        depends = self._depends(entry, query.name, query.run_id)
        if keeper.told == depends:
            return {}
        told, keeper.told = keeper.told, depends
        return {"facts": self._facts(entry, query.name, query.jsq, told, query.run_id)}

    def _depends(self, entry: Entry | None, name: str | None, run_id: str) -> tuple[Any, ...]:
        """The facts change only with these; they are told again when one does."""
        writer = entry.start.writer if entry is not None and entry.start is not None else None
        generation = self._registry.generation(writer) if writer is not None else 0
        return run_id, self._registry.factory(name) is not None, generation

    def _facts(
        self, entry: Entry | None, name: str | None, jsq: Any, told: tuple[Any, ...] | None, run_id: str
    ) -> dict[str, Any]:
        """`shape` only with a run's first facts: it is of the start, and the largest of them."""
        way = restarting.way(self._registry, entry, name)
        found = dict(classic.facts(jsq), restart=way.how, restartReason=way.reason)
        if told is None or told[0] != run_id:
            found["shape"] = shape_of(jsq, self._redact)
        return found
