"""The recent samples of every query in memory, from which verdicts and the Fleet page are computed.

The window follows the store: it changes only with committed changes, in the order of the commits, and `load` builds the same
window from the store. Views are immutable. Thread-safe. What changes only verdicts on silence is not news of a query:
`views` and `fleet` may be late with `last_seen_at`, `polls`, the load of a host that is not overloaded, and the time of a
status that repeats the one before (`events.quiet`). A view is the same object until anything else changes. `view` is exact.
"""

from __future__ import annotations

import threading
import time
from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from sqlalchemy.engine import Connection

from controlplane.events.agent_host import NO_HOST, AgentHost, agent_host, contacted, is_news, with_contact
from controlplane.events.app_drivers import AppDrivers
from controlplane.events.checkpoint_writers import CheckpointWriters
from controlplane.events.outages import with_outage
from controlplane.events.progress import sample_identity, sample_order, samples
from controlplane.events.query_views import query_view
from controlplane.events.succession import AnonymousQueries, over_at, replaces
from controlplane.health.offset_units import RecentProgress
from controlplane.model import Action, Agent, CheckpointSummary, ProgressSample, QueryView, ShapeChange
from controlplane.records import AgentRow, Changes, QueryRow, RunRow, changed
from controlplane.store import actions as stored_actions
from controlplane.store import queries as stored_queries
from controlplane.supervision_model import NOT_SUPERVISED, Supervised

WINDOW_LENGTH = 120
#: A sample takes 2 kB, a pod has 1 GiB. Of more than 830 queries fewer are kept, but never fewer than a verdict needs.
MAX_SAMPLES, MIN_WINDOW_LENGTH = 100_000, 20
MAX_REFRESHED = 200  # views rebuilt before the lock is given up
START_SAMPLES = 2  # of each query, loaded before a server that starts answers


class Window:
    """At most `length` progress samples a query and MAX_SAMPLES in all, with the newest run and its agent."""

    def __init__(self, length: int = WINDOW_LENGTH, clock: Callable[[], float] = time.time):
        self._length, self._clock = length, clock
        self._lock = threading.RLock()
        self._agents: dict[str, AgentRow] = {}
        self._hosts: dict[str, AgentHost] = {}  # by agent
        self._queries: dict[str, QueryRow] = {}
        self._runs: dict[str, RunRow] = {}  # query id -> its newest run
        self._query_of: dict[str, str] = {}  # newest run -> its query
        self._queries_of: dict[str, set[str]] = {}  # agent -> queries whose newest run it has
        self._drivers = AppDrivers(self._queries_of)
        self._anonymous = AnonymousQueries()
        self._writers = CheckpointWriters(self._agents)
        self._progress: dict[str, RecentProgress] = {}
        self._named: dict[tuple[str, str | None], set[str]] = {}  # (app, name) -> its queries
        self._actions: dict[str, Action] = {}
        self._supervised: dict[str, Supervised] = {}
        self._checkpoints: dict[str, CheckpointSummary] = {}
        self._changes: dict[str, ShapeChange] = {}
        self._views: dict[str, QueryView] = {}
        self._stale: set[str] = set()  # queries whose view must be rebuilt
        self._incomplete: set[str] = set()  # queries with stored samples that are not loaded
        self._drifted: set[str] = set()  # queries whose driver has been seen since their view was built

    @property
    def length(self) -> int:
        """How many progress samples of a query are kept at most, in a fleet of this size."""
        return self._allowed(len(self._queries))

    # -- following the store ---------------------------------------------------------------------

    def load(self, connection: Connection, newest: int | None = None) -> None:
        """Rebuild the window from the store. `newest`: only so many samples a query, `complete` loads the others."""
        query_rows = stored_queries.query_rows(connection)
        length = self._allowed(len(query_rows))
        limit = length if newest is None else min(newest, length)
        progress = _stored(connection, query_rows, limit)
        runs, open_actions = stored_queries.newest_runs(connection), stored_actions.open_actions(connection)
        changes = Changes(stored_queries.agent_rows(connection), query_rows, runs)
        with self._lock:
            of_agents = (self._agents, self._hosts, self._query_of, self._queries_of, self._drivers)
            of_queries = (self._queries, self._runs, self._anonymous, self._writers, self._named, self._views)
            for known in (*of_agents, *of_queries, self._stale, self._drifted):
                known.clear()
            self._progress = progress
            full = {name for name, held in progress.items() if len(held) == limit}
            self._incomplete = full if limit < length else set()
            self._actions = {action.query_id: action for action in reversed(open_actions)}
            self.apply(changes)
        self.load_writers(connection)

    def load_writers(self, connection: Connection) -> None:
        """Take over the open runs that are not the newest of their query: writers of a checkpoint besides it."""
        others = stored_queries.other_open_runs(connection)
        with self._lock:
            self._stale |= self._writers.load(others, self._query_of)

    def complete(self, connection: Connection, count: int) -> int:
        """Load the other samples of `count` queries; the number of queries whose samples are not complete."""
        if not self._incomplete:
            return 0
        with self._lock:
            rows, length = [self._queries[name] for name in islice(self._incomplete, count)], self.length
        stored = _stored(connection, rows, length)
        with self._lock:
            for query_id in stored.keys() & self._incomplete:
                both = (*stored[query_id], *self._progress.get(query_id, ()))
                merged = {sample_identity(sample): sample for sample in both}
                self._progress[query_id] = RecentProgress(sorted(merged.values(), key=sample_order)[-length:])
                self._incomplete.discard(query_id)
                self._stale.add(query_id)
            return len(self._incomplete)

    @property
    def loading(self) -> int:
        """The number of queries whose samples `complete` has still to load."""
        return len(self._incomplete)

    def is_complete(self, query_id: str) -> bool:
        """Whether the samples of a query are loaded: only then its verdict is that of its history."""
        return query_id not in self._incomplete

    def _allowed(self, queries: int) -> int:
        """How many samples of each of so many queries are kept."""
        return min(self._length, max(MIN_WINDOW_LENGTH, MAX_SAMPLES // max(1, queries)))

    def apply(self, changes: Changes) -> None:
        """Apply the changes of a commit."""
        with self._lock:
            listed = {run.run.query_id for run in (*changes.runs, *changes.quiet)}
            for agent in map(with_outage, changes.agents):
                self._put_agent(agent, listed)
            for query in changes.queries:
                self._put_query(query)
            for runs, noted in ((changes.runs, self._stale), (changes.quiet, self._drifted)):
                for run in runs:
                    self._put_run(run, noted)
            for batch in changes.batches:
                self._put_batch(*batch)

    def _put_agent(self, row: AgentRow, listed: set[str]) -> None:
        """`listed`: the queries whose runs have changed too; a poll that lacks a query is news of it."""
        name = row.agent.agent
        before, host = self._agents.get(name), self._hosts.get(name)
        if before is None or before.info is not row.info:
            self._hosts[name] = agent_host(row.info)
        self._agents[name] = row = with_contact(row, before)
        if self._drivers.put(row):
            self._stale |= {query.query_id for query in self._queries.values() if query.app == row.agent.app}
        self._stale |= self._writers.contested
        concerned = self._queries_of.get(name, set())
        if before is None or host is None or is_news(before, row, host, self._hosts[name]):
            self._stale |= concerned
        else:
            self._drifted |= concerned
            if before.polls != row.polls:
                self._stale |= concerned - listed

    def note_contact(self, agent: str, at: float) -> None:
        """Note that the agent's own process sends a request at `at`, by the server's clock."""
        if contacted(self._agents.get(agent), at) is None:
            return  # without the lock: this runs in the event loop
        with self._lock:
            if (noted := contacted(self._agents.get(agent), at)) is not None:
                self._agents[agent], news = noted
                (self._stale if news else self._drifted).update(self._queries_of.get(agent, ()))
                self._drifted |= self._writers.contested

    def _put_query(self, row: QueryRow) -> None:
        before = self._queries.get(row.query_id)
        if before is not None:
            self._named[before.app, before.name].discard(row.query_id)
        self._named.setdefault((row.app, row.name), set()).add(row.query_id)
        self._queries[row.query_id] = row
        self._stale.add(row.query_id)

    def _put_run(self, row: RunRow, noted: set[str]) -> None:
        query_id = row.run.query_id
        self._stale |= self._writers.put(row)
        query = self._queries.get(query_id)
        if query is None or query.newest_run != row.run.run_id:
            return
        if (before := self._runs.get(query_id)) is not None:
            self._query_of.pop(before.run.run_id, None)
            self._queries_of[before.run.agent].discard(query_id)
        self._query_of[row.run.run_id] = query_id
        self._queries_of.setdefault(row.run.agent, set()).add(query_id)
        self._runs[query_id] = row
        self._anonymous.put(query, row, self.agent(row.run.agent))
        noted.add(query_id)

    def _put_batch(self, query_id: str, batch: ProgressSample) -> None:
        samples = [*self._progress.get(query_id, ())]
        insort(samples, batch, key=sample_order)
        self._progress[query_id] = RecentProgress(samples[-self.length :])
        self._stale.add(query_id)

    def set_action(self, query_id: str, action: Action | None) -> None:
        """Set the open action of a query; None, or a final action, removes it."""
        with self._lock:
            if action is None or action.state.final:
                self._actions.pop(query_id, None)
            else:
                self._actions[query_id] = action
            self._stale.add(query_id)

    def set_supervised(self, query_id: str, **changes: Any) -> None:
        """Change fields of what supervision knows of a query."""
        with self._lock:
            self._supervised[query_id] = replace(self._supervised.get(query_id, NOT_SUPERVISED), **changes)
            self._stale.add(query_id)

    def set_checkpoint(self, query_id: str, seen: CheckpointSummary) -> None:
        """Set the doctor's report on a query's checkpoint; the report on an older inventory is ignored."""
        with self._lock:
            known = self._checkpoints.get(query_id)
            if known is None or seen.taken_at >= known.taken_at:
                self._checkpoints[query_id] = seen
                self._stale.add(query_id)

    def set_change(self, query_id: str, change: ShapeChange) -> None:
        """Set the change of a query's newest run that its checkpoint does not allow."""
        with self._lock:
            self._changes[query_id] = change
            self._stale.add(query_id)

    def retire(self, query_id: str, at: float) -> None:
        """Mark a query as retired at `at`, Unix seconds."""
        with self._lock:
            if (query := self._queries.get(query_id)) is not None:
                self._put_query(replace(query, retired_at=at))

    def forget(self, query_ids: Iterable[str]) -> None:
        """Remove queries that were deleted from the store."""
        with self._lock:
            for query_id in query_ids:
                row, run = self._queries.pop(query_id, None), self._runs.pop(query_id, None)
                if row is not None:
                    self._named[row.app, row.name].discard(query_id)
                if run is not None:
                    self._query_of.pop(run.run.run_id, None)
                    self._queries_of[run.run.agent].discard(query_id)
                self._writers.forget(query_id)
                for marked in (self._stale, self._drifted, self._incomplete):
                    marked.discard(query_id)
                for known in (self._progress, self._actions, self._checkpoints, self._changes, self._views):
                    known.pop(query_id, None)

    def forget_agents(self, agents: Iterable[str]) -> None:
        """Remove agents that were deleted from the store; they have no runs left."""
        with self._lock:
            for agent in agents:
                for known in (self._agents, self._hosts, self._queries_of):
                    known.pop(agent, None)

    # -- reading ---------------------------------------------------------------------------------

    def view(self, query_id: str) -> QueryView | None:
        """The current view of a query; None if it is unknown."""
        with self._lock:
            self._refresh((query_id,) if query_id in self._stale or query_id in self._drifted else ())
            return self._views.get(query_id)

    def count(self) -> int:
        """The number of known queries."""
        return len(self._queries)

    def rows(self) -> list[tuple[QueryRow, RunRow | None, AgentRow | None]]:
        """Each query with its newest run and that run's agent."""
        with self._lock:
            found = ((query, self._runs.get(name)) for name, query in self._queries.items())
            return [(query, run, self._agents.get(run.run.agent) if run else None) for query, run in found]

    def views(self) -> list[QueryView]:
        """The views of all queries, including superseded and retired ones, in no particular order."""
        self._refresh_most()
        with self._lock:
            self._refresh(tuple(self._stale))
            return list(self._views.values())

    def _refresh_most(self) -> None:
        """Rebuild stale views in steps: commits and the event loop wait for the lock of one step."""
        for _ in range(len(self._stale) // MAX_REFRESHED):  # at most: commits may mark views as fast
            with self._lock:
                self._refresh(tuple(islice(self._stale, MAX_REFRESHED)))
            time.sleep(0)  # otherwise this thread has the lock again before one that waits for it wakes up

    def fleet(self) -> list[QueryView]:
        """The views of all queries except those that a newer query of the same name has replaced."""
        self._refresh_most()
        with self._lock:
            views = self.views()
            alone = {name for name, query_ids in self._named.items() if len(query_ids) == 1}
            return [v for v in views if (v.app, v.name) in alone or self.superseded(v.query_id) is None]

    def take_claims(self) -> set[str]:
        """The queries whose checkpoint has other writers than at the last call, or several."""
        with self._lock:
            return self._writers.take_changed()

    def totals(self, query_id: str) -> Mapping[str, float]:
        """The counters of a query since it was first seen.

        `batches`, `batches_unreported`, `input_rows`, `output_rows`, `starts`, `failures|CONDITION`,
        `source_input_rows|DESCRIPTION` and `state_rows_{updated,removed,dropped_by_watermark}|OPERATOR`.
        """
        return query.totals if (query := self._queries.get(query_id)) is not None else {}

    def agent(self, agent: str) -> Agent | None:
        """The agent with this id; None if it is unknown. Takes no lock, for which the event loop would wait."""
        return row.agent if (row := self._agents.get(agent)) is not None else None

    def knows(self, query_id: str) -> bool:
        """Whether a query is in the store."""
        return query_id in self._queries

    def agent_of(self, query_or_run: str) -> Agent | None:
        """The agent of a query, given by its id or its newest run's; None if it is unknown or retired."""
        with self._lock:
            query_id = self._query_of.get(query_or_run, query_or_run)
            query, run = self._queries.get(query_id), self._runs.get(query_id)
            if query is None or run is None or query.retired_at is not None:
                return None
            return self.agent(run.run.agent)

    def agents(self) -> list[Agent]:
        """All agents, the last seen first."""
        with self._lock:
            return sorted((row.agent for row in self._agents.values()), key=lambda a: -a.last_seen_at)

    def agent_info(self, agent: str) -> Mapping[str, Any]:
        """The data of an agent's last `app_started`, `heartbeat` and `overload`, each with its `at`."""
        return row.info if (row := self._agents.get(agent)) is not None else {}

    def lineage(self, app: str, name: str | None) -> list[str]:
        """The ids of the queries that have this name, oldest first."""
        if name is None:
            return []
        with self._lock:
            named = (self._queries[query_id] for query_id in self._named.get((app, name), ()))
            return [row.query_id for row in sorted(named, key=self._appeared)]

    def superseded(self, query_id: str) -> str | None:
        """The query that has replaced this one: under its name (a new checkpoint), or, where neither has a name or a
        checkpoint of its own, in the next driver of the app; None if none has."""
        with self._lock:
            query, run = self._queries.get(query_id), self._runs.get(query_id)
            over = over_at(run.run, self.agent(run.run.agent), self._clock()) if run is not None else None
            if query is None or (run is not None and self._anonymous.has(query, run)):
                return self._anonymous.successor(query, run, over) if query and run else None
            for other in reversed(self.lineage(query.app, query.name)):
                if other == query_id:
                    break
                later = found.run if (found := self._runs.get(other)) is not None else None
                its = self.agent(later.agent) if later is not None else None
                if replaces(self._queries[other].first_seen_at, later, its, run.run if run else None, over):
                    return other
            return None

    def _appeared(self, row: QueryRow) -> tuple[float, str]:
        run = self._runs.get(row.query_id)
        times = (run.run.started_at if run else None, row.start_failed_at if run is None else None)
        return max((t for t in times if t is not None), default=row.first_seen_at), row.query_id

    def _refresh(self, query_ids: Iterable[str]) -> None:
        for query_id in query_ids:
            if (query := self._queries.get(query_id)) is not None:
                self._views[query_id] = self._build_view(query)
            self._stale.discard(query_id)
            self._drifted.discard(query_id)

    def _build_view(self, query: QueryRow) -> QueryView:
        name, row = query.query_id, self._runs.get(query.query_id)
        agent = self._agents.get(row.run.agent) if row is not None else None
        host = self._hosts.get(agent.agent.agent, NO_HOST) if agent is not None else NO_HOST
        view = query_view(
            *(query, row, agent, host),
            progress=self._progress.get(name, ()),
            action=self._actions.get(name),
            supervised=self._supervised.get(name, NOT_SUPERVISED),
            checkpoint=self._checkpoints.get(name),
            change=self._changes.get(name),
        )
        if row is None or agent is None:
            return view
        return changed(
            view,
            next_driver=self._drivers.failed_after(agent.agent),
            next_driver_at=self._drivers.next_began_at(agent.agent),
            writers=self._writers.of(row),
            beside=self._writers.beside(row),
        )


def _stored(connection: Connection, rows: Sequence[QueryRow], limit: int) -> dict[str, RecentProgress]:
    reports = stored_queries.recent_progress(connection, [row.key for row in rows], limit)
    return {row.query_id: RecentProgress(sorted(samples(reports[row.key]), key=sample_order)) for row in rows}
