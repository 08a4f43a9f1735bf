"""The committed rows of the agents and queries that report, so that their next events need no SELECT.

Owned by the writer and used on its thread, by `controlplane.ingest.deduplication`. A unit of work is loaded from here,
and from the store for what is missing. `leave` drops what a transaction has changed, `keep` puts it back after COMMIT:
after a transaction that fails, and in the next job of the same transaction, the store is read. Jobs that change rows of
`agents`, `queries` or `runs` otherwise are wrapped by `changing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from sqlalchemy.engine import Connection

from controlplane.records import AgentRow, QueryRow, References, RunRow, UnitOfWork
from controlplane.store.writing import unit_of_work

T = TypeVar("T")
Then = Callable[[T], None] | None


class RowCache:
    """Agents by id, and queries by id, each with its open runs and its newest one."""

    def __init__(self) -> None:
        self._agents: dict[str, AgentRow] = {}
        self._queries: dict[str, QueryRow] = {}
        self._runs: dict[str, dict[str, RunRow]] = {}  # query id -> run id -> run
        self._query_of: dict[str, str] = {}  # run id -> query id

    def load(self, connection: Connection, references: References) -> UnitOfWork:
        """The unit of work that `unit_of_work.load` returns."""
        if references.ending_agents or references.names:
            return unit_of_work.load(connection, references)
        cached = references.query_ids & self._queries.keys()
        work = UnitOfWork()
        missing = References(
            agents=references.agents - self._agents.keys(),
            ending_agents=set(),
            query_ids=references.query_ids - cached,
            run_ids={run_id for run_id in references.run_ids if run_id not in self._query_of},
            names=set(),
        )
        if missing.agents or missing.query_ids or missing.run_ids:
            work = unit_of_work.load(connection, missing)
        for query_id in cached:
            work.queries[query_id] = self._queries[query_id]
            work.runs.update(self._runs[query_id])
        self._add_named_runs(work, references.run_ids)
        self._add_agents(connection, work, references.agents)
        return work

    def _add_named_runs(self, work: UnitOfWork, run_ids: Iterable[str]) -> None:
        for run_id in run_ids:
            query_id = self._query_of.get(run_id)
            if query_id is not None and run_id not in work.runs:
                work.runs[run_id] = self._runs[query_id][run_id]
                work.queries[query_id] = self._queries[query_id]

    def _add_agents(self, connection: Connection, work: UnitOfWork, named: set[str]) -> None:
        wanted = (named | {row.run.agent for row in work.runs.values()}) - work.agents.keys()
        work.agents.update({name: self._agents[name] for name in wanted & self._agents.keys()})
        others = wanted - self._agents.keys()
        if others:
            work.agents.update(unit_of_work.load_agents(connection, others))

    def leave(self, work: UnitOfWork) -> None:
        """Drop the rows that a transaction has changed; call it before the transaction commits."""
        for name in work.changed:
            self._agents.pop(name, None)
            self._drop_query(self._query_of.get(name, name))
            if name in work.runs:
                self._drop_query(work.runs[name].run.query_id)

    def keep(self, work: UnitOfWork, complete: Iterable[str]) -> None:
        """Take over the rows of a committed unit of work. `complete`: the queries whose open runs it loaded."""
        self._agents.update(work.agents)
        runs: dict[str, dict[str, RunRow]] = {}
        for run_id, row in work.runs.items():
            query = work.queries[row.run.query_id]
            if row.run.ended_at is None or run_id == query.newest_run:
                runs.setdefault(query.query_id, {})[run_id] = row
        for query_id in complete:
            if query_id in work.queries:
                self._drop_query(query_id)
                self._queries[query_id] = work.queries[query_id]
                self._runs[query_id] = runs.get(query_id, {})
                self._query_of.update(dict.fromkeys(self._runs[query_id], query_id))

    def _drop_query(self, query_id: str) -> None:
        if self._queries.pop(query_id, None) is not None:
            for run_id in self._runs.pop(query_id):
                self._query_of.pop(run_id, None)

    def changing(
        self, work: Callable[[Connection], T], then: Then[T] = None
    ) -> tuple[Callable[[Connection], T], Then[T]]:
        """A job of the writer that changes rows: the cache is cleared in its transaction, and again after COMMIT,
        when the jobs before it in the same transaction have kept theirs."""

        def changed(connection: Connection) -> T:
            self.clear()
            return work(connection)

        def committed(result: T) -> None:
            self.clear()
            if then is not None:
                then(result)

        return changed, committed

    def clear(self) -> None:
        """Drop all rows."""
        for known in (self._agents, self._queries, self._runs, self._query_of):
            known.clear()
