"""Poll the state that events do not report: active queries, and whether their tasks finish.

Neither a long healthy batch nor a hung batch emits an event, and a query can disappear without one. So every
few seconds the prober asks `spark.streams.active` and `query.status` of every session, and for a trigger that
lasts longer than one round, the task counts of the query's jobs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Callable

from listeners.queries import restarting
from listeners.queries.registry import RegisteredQuery, Registry
from listeners.spark.engine import Engine, SparkRun
from listeners.spark.sessions import engine_of


@dataclass
class _RunProbe:
    """State of one run over the last rounds."""

    trigger_rounds: int = 0
    tasks: tuple[int, int] | None = None
    tasks_since: float = 0.0  # these two by the monotonic clock: the host's clock may be set meanwhile
    last_task_at: float | None = None
    reported: tuple[Any, ...] | None = None


class Prober:
    """Builds a status document in each round from `sessions()`. `redact` masks secrets in texts.

    `shapes`: whether a query's shape is sent with its first facts.
    """

    def __init__(
        self,
        registry: Registry,
        sessions: Callable[[], Iterable[Any]],
        clock: Callable[[], float] = time.time,
        redact: Callable[[str], str] | None = None,
        engine_of: Callable[[Any], Engine] = engine_of,
        shapes: bool = True,
        monotonic: Callable[[], float] = time.monotonic,
    ):
        self._registry, self._sessions, self._clock, self._redact = registry, sessions, clock, redact
        self._engine_of, self._shapes, self._monotonic = engine_of, shapes, monotonic
        self._probes: dict[str, _RunProbe] = {}
        #: Executors and heap as of the last round that reported them. The next heartbeat reads them without
        #: waiting for the JVM.
        self.driver: dict[str, Any] = {}
        #: Called after each answer of Spark: a round that asks for many queries may take minutes.
        self.on_answer: Callable[[], None] = lambda: None

    def probe(self) -> dict[str, Any]:
        """The `data` of a status event. Raises if no session answered, or none of the listed queries.

        `listedAt`: when the sessions were asked for their queries, Unix seconds. A query that is not listed
        had ended by then, or started later. `executors`: their number, if Spark reports it. `partial`: some session
        did not answer, and a query that is not listed may belong to it. Each query has `at`, as its status may be
        read much later than the list; what Spark does not report of it is left out.
        """
        sessions, listed_at = list(self._sessions()), self._clock()
        failures: list[Exception] = []
        listed = self._list(sessions, failures)
        self._raise_if_none_answered(failures, len(sessions))
        outages: list[Exception] = []
        found = [self._describe(*active, outages) for active in listed]
        self._raise_if_none_answered(outages, len(listed))
        self.driver = self._driver_figures(sessions) or self.driver
        alive = {run.run_id for _, _, run in listed}
        self._probes = {
            run_id: probe_state for run_id, probe_state in self._probes.items() if run_id in alive
        }
        found += [self._describe_ended(entry) for entry in self._unreported_ends(alive)]
        self._registry.trim()
        status: dict[str, Any] = {"queries": found, "listedAt": listed_at}
        if "executors" in self.driver:
            status["executors"] = self.driver["executors"]
        return {**status, "partial": True} if failures else status

    def _raise_if_none_answered(self, failures: list[Exception], asked: int) -> None:
        if failures and len(failures) == asked:
            self.driver = {}
            raise failures[0]

    def _list(self, sessions: list[Any], failures: list[Exception]) -> list[tuple[Engine, Any, SparkRun]]:
        """The active queries of all sessions; a session that raises adds to `failures`."""
        found: list[tuple[Engine, Any, SparkRun]] = []
        for session in sessions:
            try:
                found += self._active(session)
            except Exception as error:
                failures.append(error)
        return found

    def _active(self, session: Any) -> list[tuple[Engine, Any, SparkRun]]:
        engine = self._engine_of(session)
        runs = engine.active(session)
        self.on_answer()
        return [(engine, session, run) for run in runs]

    def _driver_figures(self, sessions: list[Any]) -> dict[str, Any]:
        """Executors and heap, from any session: they share the driver.

        Empty if Spark does not report them.
        """
        try:
            return self._engine_of(sessions[0]).driver_figures(sessions[0]) if sessions else {}
        except Exception:
            return {}

    def _unreported_ends(self, alive: set[str]) -> list[RegisteredQuery]:
        """Runs that ended before any round saw them; their facts can still be reported."""
        entries = [entry for entry in self._registry.entries() if entry.run_id not in alive]
        return [e for e in entries if (e.reported is None or e.reported[0] != e.run_id) and not e.is_active()]

    def _describe_ended(self, entry: RegisteredQuery) -> dict[str, Any]:
        reported, entry.reported = entry.reported, self._facts_key(entry, entry.name, entry.run_id)
        return {
            "id": entry.query_id,
            "runId": entry.run_id,
            "name": entry.name,
            "active": False,
            "facts": self._facts(entry, entry.name, entry.run, reported),
        }

    def _describe(
        self, engine: Engine, session: Any, run: SparkRun, outages: list[Exception]
    ) -> dict[str, Any]:
        """What Spark reports of a listed query. An error that is no answer of Spark adds to `outages`."""
        document = {"at": self._clock(), "id": run.query_id, "runId": run.run_id, "name": run.name}
        try:
            self._ask_status(engine, session, run, document)
        except Exception as error:
            if engine.outage(error) is not None:
                outages.append(error)
        return document

    def _ask_status(self, engine: Engine, session: Any, run: SparkRun, document: dict[str, Any]) -> None:
        probe_state, status = self._probes.setdefault(run.run_id, _RunProbe()), run.status()
        self.on_answer()
        document.update(
            message=status.message,
            isDataAvailable=status.data_available,
            isTriggerActive=status.trigger_active,
        )
        probe_state.trigger_rounds = probe_state.trigger_rounds + 1 if status.trigger_active else 0
        document.update(self._tasks(engine, session, run, probe_state))
        self.on_answer()
        if not status.message.startswith("Initializing"):
            document.update(self._facts_if_new(run, probe_state))

    def _tasks(self, engine: Engine, session: Any, run: SparkRun, probe_state: _RunProbe) -> dict[str, Any]:
        """`tasksSince`: when this count of tasks was first seen, as of `tasksAt`, when it was last seen."""
        figures = engine.tasks(session, run.run_id) if probe_state.trigger_rounds >= 2 else None
        if figures is None:
            probe_state.tasks = None
            return {"lastTaskAt": self._wall(probe_state.last_task_at)}
        now, finished = self._monotonic(), (figures.completed, figures.job)
        if finished != probe_state.tasks:
            if probe_state.tasks is not None:
                probe_state.last_task_at = now
            probe_state.tasks, probe_state.tasks_since = finished, now
        return {
            "tasksActive": figures.active,
            "tasksCompleted": figures.completed,
            "tasksAt": self._wall(now),
            "tasksSince": self._wall(probe_state.tasks_since),
            "lastTaskAt": self._wall(probe_state.last_task_at),
        }

    def _wall(self, monotonic: float | None) -> float | None:
        """A time of the monotonic clock as Unix seconds, by the host's clock as it is now."""
        return None if monotonic is None else self._clock() - (self._monotonic() - monotonic)

    def _facts_if_new(self, run: SparkRun, probe_state: _RunProbe) -> dict[str, Any]:
        entry = self._registry.entry(run.query_id)
        holder = entry if entry is not None else probe_state
        facts_key = self._facts_key(entry, run.name, run.run_id)
        if holder.reported == facts_key:
            return {}
        facts = self._facts(entry, run.name, self._registered_run(entry, run), holder.reported)
        holder.reported = facts_key
        return {"facts": facts}

    def _facts_key(self, entry: RegisteredQuery | None, name: str | None, run_id: str) -> tuple[Any, ...]:
        """The values that the facts depend on; the facts are sent again when one of them changes."""
        writer = entry.start.writer if entry is not None and entry.start is not None else None
        generation = self._registry.generation(writer) if writer is not None else 0
        return run_id, self._registry.factory(name) is not None, generation

    def _registered_run(self, entry: RegisteredQuery | None, run: SparkRun) -> SparkRun:
        """The registry's run, which knows how it was started, if it is the same run."""
        return entry.run if entry is not None and entry.run_id == run.run_id else run

    def _facts(
        self, entry: RegisteredQuery | None, name: str | None, run: SparkRun, reported: tuple[Any, ...] | None
    ) -> dict[str, Any]:
        """`shape` is included only with a run's first facts: it describes the start, and it is large."""
        facts = run.facts()
        method = restarting.restart_method(self._registry, entry, name, facts)
        found = dict(facts, restart=method.how, restartReason=method.reason)
        if self._shapes and (reported is None or reported[0] != run.run_id):
            found["shape"] = run.shape(self._redact)
        return found
