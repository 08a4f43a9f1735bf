"""The recent samples of every query in memory, from which verdicts and the Fleet page are computed.

The window follows the store: it changes only with committed changes, in the order of the commits, and `load`
builds the same window from the store. Views are immutable. Thread-safe.
"""

from __future__ import annotations

import threading
from bisect import insort
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy.engine import Connection

from controlplane.events import progress as progress_json
from controlplane.events.outages import with_outage
from controlplane.health.host import host_load
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import Action, Agent, CheckpointSummary, ProgressSample, QueryView, ShapeChange
from controlplane.records import AgentRow, Changes, QueryRow, RunRow
from controlplane.store import actions as stored_actions
from controlplane.store import queries as stored_queries

WINDOW_LENGTH = 120


class Window:
    """At most `length` progress samples a query, with the newest run and its agent."""

    def __init__(self, length: int = WINDOW_LENGTH):
        self._length = length
        self._lock = threading.RLock()
        self._agents: dict[str, AgentRow] = {}
        self._queries: dict[str, QueryRow] = {}
        self._runs: dict[str, RunRow] = {}  # query id -> its newest run
        self._query_of: dict[str, str] = {}  # newest run -> its query
        self._queries_of: dict[str, set[str]] = {}  # agent -> queries whose newest run it has
        self._progress: dict[str, list[ProgressSample]] = {}
        self._named: dict[tuple[str, str | None], set[str]] = {}  # (app, name) -> its queries
        self._actions: dict[str, Action] = {}
        self._checkpoints: dict[str, CheckpointSummary] = {}
        self._changes: dict[str, ShapeChange] = {}
        self._views: dict[str, QueryView] = {}
        self._stale: set[str] = set()  # queries whose view must be rebuilt

    @property
    def length(self) -> int:
        """How many progress samples of a query are kept at most."""
        return self._length

    # -- following the store ---------------------------------------------------------------------

    def load(self, connection: Connection) -> None:
        """Rebuild the window from the store."""
        query_rows = stored_queries.query_rows(connection)
        progress = {
            row.query_id: progress_json.samples(
                stored_queries.recent_progress(connection, row.key, self._length)
            )
            for row in query_rows
        }
        changes = Changes(
            stored_queries.agent_rows(connection), query_rows, stored_queries.newest_runs(connection)
        )
        open_actions = stored_actions.open_actions(connection)
        with self._lock:
            for known in (
                self._agents,
                self._queries,
                self._runs,
                self._query_of,
                self._queries_of,
                self._named,
                self._views,
            ):
                known.clear()
            self._stale.clear()
            self._progress = {name: sorted(samples, key=_order) for name, samples in progress.items()}
            self._actions = {action.query_id: action for action in reversed(open_actions)}
            self.apply(changes)

    def apply(self, changes: Changes) -> None:
        """Apply the changes of a commit."""
        with self._lock:
            for agent in map(with_outage, changes.agents):
                self._agents[agent.agent.agent] = agent
                self._stale |= self._queries_of.get(agent.agent.agent, set())
            for query in changes.queries:
                self._put_query(query)
            for run in changes.runs:
                self._put_run(run)
            for query_id, batch in changes.batches:
                self._put_batch(query_id, batch)

    def _put_query(self, row: QueryRow) -> None:
        before = self._queries.get(row.query_id)
        if before is not None:
            self._named[before.app, before.name].discard(row.query_id)
        self._named.setdefault((row.app, row.name), set()).add(row.query_id)
        self._queries[row.query_id] = row
        self._stale.add(row.query_id)

    def _put_run(self, row: RunRow) -> None:
        query_id = row.run.query_id
        query = self._queries.get(query_id)
        if query is None or query.newest_run != row.run.run_id:
            return
        before = self._runs.get(query_id)
        if before is not None:
            self._query_of.pop(before.run.run_id, None)
            self._queries_of[before.run.agent].discard(query_id)
        self._query_of[row.run.run_id] = query_id
        self._queries_of.setdefault(row.run.agent, set()).add(query_id)
        self._runs[query_id] = row
        self._stale.add(query_id)

    def _put_batch(self, query_id: str, batch: ProgressSample) -> None:
        samples = self._progress.setdefault(query_id, [])
        insort(samples, batch, key=_order)
        if len(samples) > self._length:
            del samples[0]
        self._stale.add(query_id)

    def set_action(self, query_id: str, action: Action | None) -> None:
        """Set the open action of a query; None, or a final action, removes it."""
        with self._lock:
            if action is None or action.state.final:
                self._actions.pop(query_id, None)
            else:
                self._actions[query_id] = action
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
            query = self._queries.get(query_id)
            if query is not None:
                self._put_query(replace(query, retired_at=at))

    def forget(self, query_ids: Iterable[str]) -> None:
        """Remove queries that were deleted from the store."""
        with self._lock:
            for query_id in query_ids:
                row = self._queries.pop(query_id, None)
                run = self._runs.pop(query_id, None)
                if row is not None:
                    self._named[row.app, row.name].discard(query_id)
                if run is not None:
                    self._query_of.pop(run.run.run_id, None)
                    self._queries_of[run.run.agent].discard(query_id)
                for known in (self._progress, self._actions, self._checkpoints, self._changes, self._views):
                    known.pop(query_id, None)

    def forget_agents(self, agents: Iterable[str]) -> None:
        """Remove agents that were deleted from the store; they have no runs left."""
        with self._lock:
            for agent in agents:
                self._agents.pop(agent, None)
                self._queries_of.pop(agent, None)

    # -- reading ---------------------------------------------------------------------------------

    def view(self, query_id: str) -> QueryView | None:
        """The current view of a query; None if it is unknown."""
        with self._lock:
            self._refresh((query_id,) if query_id in self._stale else ())
            return self._views.get(query_id)

    def views(self) -> list[QueryView]:
        """The views of all queries, including superseded and retired ones, in no particular order."""
        with self._lock:
            self._refresh(tuple(self._stale))
            return list(self._views.values())

    def fleet(self) -> list[QueryView]:
        """The views of all queries except those that a newer query of the same name has replaced."""
        with self._lock:
            views = self.views()
            alone = {name for name, query_ids in self._named.items() if len(query_ids) == 1}
            return [v for v in views if (v.app, v.name) in alone or self.superseded(v.query_id) is None]

    def totals(self, query_id: str) -> Mapping[str, float]:
        """The counters of a query since it was first seen.

        `batches`, `batches_unreported`, `input_rows`, `output_rows`, `starts`, `failures|CONDITION`,
        `source_input_rows|DESCRIPTION` and `state_rows_{updated,removed,dropped_by_watermark}|OPERATOR`.
        """
        with self._lock:
            query = self._queries.get(query_id)
            return query.totals if query is not None else {}

    def agent(self, agent: str) -> Agent | None:
        """The agent with this id; None if it is unknown."""
        with self._lock:
            row = self._agents.get(agent)
            return row.agent if row is not None else None

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
        with self._lock:
            row = self._agents.get(agent)
            return row.info if row is not None else {}

    def lineage(self, app: str, name: str | None) -> list[str]:
        """The ids of the queries that have this name, oldest first."""
        if name is None:
            return []
        with self._lock:
            named = [self._queries[query_id] for query_id in self._named.get((app, name), ())]
            return [row.query_id for row in sorted(named, key=self._appeared)]

    def superseded(self, query_id: str) -> str | None:
        """The query that has replaced this one under its name (a new checkpoint); None if none has."""
        with self._lock:
            query = self._queries.get(query_id)
            newest = self.lineage(query.app, query.name)[-1:] if query is not None else []
            if not newest or newest[0] == query_id or self._run_together(query_id, newest[0]):
                return None
            return newest[0]

    def _appeared(self, row: QueryRow) -> tuple[float, str]:
        run = self._runs.get(row.query_id)
        times = (run.run.started_at if run else None, row.start_failed_at if run is None else None)
        return max((t for t in times if t is not None), default=row.first_seen_at), row.query_id

    def _run_together(self, query_id: str, other: str) -> bool:
        """Whether both queries run: in one driver (two sessions may use a name), or in two drivers at the
        same time.

        A driver seen for a minute after the other began is not its predecessor, even if it dies later.
        """
        run, later = self._runs.get(query_id), self._runs.get(other)
        if run is None or later is None or run.run.ended_at is not None:
            return False
        agent = self.agent(run.run.agent)
        if run.run.agent == later.run.agent or agent is None or agent.ended_at is not None:
            return run.run.agent == later.run.agent
        return agent.last_seen_at - later.run.started_at > DEFAULTS.silent_seconds

    def _refresh(self, query_ids: Iterable[str]) -> None:
        for query_id in query_ids:
            query = self._queries.get(query_id)
            if query is not None:
                self._views[query_id] = self._build_view(query)
            self._stale.discard(query_id)

    def _build_view(self, query: QueryRow) -> QueryView:
        row = self._runs.get(query.query_id)
        agent = self._agents.get(row.run.agent) if row is not None else None
        view = QueryView(
            query_id=query.query_id,
            app=query.app,
            name=query.name,
            labels=query.labels,
            first_seen_at=query.first_seen_at,
            agent=agent.agent if agent is not None else None,
            run=row.run if row is not None else None,
            progress=tuple(self._progress.get(query.query_id, ())),
            start_failed_at=query.start_failed_at,
            start_failure=query.start_failure,
            action=self._actions.get(query.query_id),
            retired_at=query.retired_at,
            checkpoint=self._checkpoints.get(query.query_id),
        )
        if row is None:
            return view
        info = agent.info if agent is not None else {}
        change = self._changes.get(query.query_id)
        return replace(
            view,
            ended_by=row.ended_by,
            facts=row.facts,
            idle_at=row.idle_at,
            status=row.status,
            polls=agent.polls if agent is not None else (),
            change=change if change and change.run_id == row.run.run_id else None,
            host=host_load(info.get("heartbeat")),
            executors=progress_json.whole(info.get("heartbeat", {}).get("executors")),
            overload=host_load(info.get("overload")),
        )


def _order(sample: ProgressSample) -> tuple[float, float, int]:
    return sample.at, sample.trigger_at, sample.batch_id
