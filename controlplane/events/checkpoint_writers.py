"""Which open runs write to one checkpoint: those of one query id, and those of one checkpoint location.

Two drivers on one checkpoint damage it. Both see only their own run, but both report it, so the server sees both. Owned
by `controlplane.events.window`; not thread-safe.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from controlplane.locations import checkpoint_key
from controlplane.records import AgentRow, RunRow
from controlplane.supervision_model import CheckpointWriter


class CheckpointWriters:
    """The open runs, by query id and by checkpoint location. `agents`: the known agents, with their hosts."""

    def __init__(self, agents: Mapping[str, AgentRow]):
        self._agents = agents
        self._rows: dict[str, RunRow] = {}
        self._keys: dict[str, tuple[str, str]] = {}  # open run -> its query id and its checkpoint
        self._runs_of: dict[str, set[str]] = {}  # such a key -> open runs
        self._changed: set[str] = set()
        #: Queries whose checkpoint has another writer.
        self.contested: set[str] = set()

    def _key_of(self, row: RunRow) -> str:
        """The identity of a run's checkpoint; that of its query where the location is unknown."""
        agent = self._agents.get(row.run.agent)
        started = (agent.info.get("app_started") if agent is not None else None) or {}
        return checkpoint_key(row.facts.checkpoint or "", str(started.get("host") or "")) or row.run.query_id

    def put(self, row: RunRow) -> set[str]:
        """Take over a committed run; the queries whose other writers changed with it."""
        known = self._rows.get(row.run.run_id)
        if row.run.ended_at is not None:
            return self._ended(known) if known is not None else set()
        same = known is not None and known.facts.checkpoint == row.facts.checkpoint
        if known is not None and same and known.run.agent == row.run.agent:
            self._rows[row.run.run_id] = row
            return set()
        concerned = self._remove(known) if known is not None else set()
        self._rows[row.run.run_id] = row
        self._keys[row.run.run_id] = keys = (row.run.query_id, self._key_of(row))
        for key in set(keys):
            self._runs_of.setdefault(key, set()).add(row.run.run_id)
        return concerned | self._review(self._sharing(row))

    def load(self, others: Iterable[RunRow], newest: Container[str]) -> set[str]:
        """Replace the runs besides those in `newest` (run ids); the queries whose other writers changed with it."""
        open_rows = {row.run.run_id: row for row in others}
        concerned: set[str] = set()
        for run_id, row in list(self._rows.items()):
            if run_id not in newest and run_id not in open_rows:
                concerned |= self._remove(row)
        for row in open_rows.values():
            concerned |= self.put(row)
        return concerned

    def of(self, row: RunRow) -> tuple[CheckpointWriter, ...]:
        """This run, and the open runs of other drivers on its checkpoint or query id; empty where it has ended."""
        if row.run.run_id not in self._rows:
            return ()
        found = map(self._writer, (row, *self._rivals(row, self._sharing(row))))
        return tuple(writer for writer in found if writer is not None)

    def beside(self, row: RunRow) -> tuple[CheckpointWriter, ...]:
        """The open runs of other drivers on the checkpoint or query id of a run that has ended; empty before its end."""
        if row.run.run_id in self._rows:
            return ()
        keys = {row.run.query_id, self._key_of(row)}
        found = {run_id for key in keys for run_id in self._runs_of.get(key, ())}
        writers = map(self._writer, self._rivals(row, found))
        return tuple(writer for writer in writers if writer is not None)

    def forget(self, query_id: str) -> None:
        """Remove a query that was deleted from the store."""
        for run_id in list(self._runs_of.get(query_id, ())):
            if self._rows[run_id].run.query_id == query_id:
                self._remove(self._rows[run_id])

    def clear(self) -> None:
        """Forget all runs."""
        for known in (self._rows, self._keys, self._runs_of, self._changed, self.contested):
            known.clear()

    def take_changed(self) -> set[str]:
        """The queries whose writers changed since the last call, and those that have several."""
        changed, self._changed = self._changed | self.contested, set()
        return changed

    def _writer(self, row: RunRow) -> CheckpointWriter | None:
        """An open run with its driver."""
        found, run = self._agents.get(row.run.agent), row.run
        if found is None:
            return None
        agent, key = found.agent, self._keys[run.run_id][1]
        return CheckpointWriter(
            run.query_id,
            run.run_id,
            run.started_at,
            key,
            agent.agent,
            agent.app,
            agent.last_contact_at,
            agent.ended_at,
        )

    def _rivals(self, row: RunRow, run_ids: set[str]) -> list[RunRow]:
        """Those of these open runs that other drivers have, the oldest first."""
        found = (self._rows[run_id] for run_id in run_ids)
        return sorted((o for o in found if o.run.agent != row.run.agent), key=lambda o: o.run.started_at)

    def _ended(self, row: RunRow) -> set[str]:
        """Remove a run that has ended. Its query stays contested while another driver runs it."""
        concerned, query_id = self._remove(row), row.run.query_id
        if self._rivals(row, self._runs_of.get(query_id, set())):
            self.contested.add(query_id)
        return concerned

    def _sharing(self, row: RunRow) -> set[str]:
        """The open runs that share the checkpoint or the query id of this run, itself included."""
        keys = self._keys.get(row.run.run_id, ())
        return {run_id for key in keys for run_id in self._runs_of.get(key, ())}

    def _remove(self, row: RunRow) -> set[str]:
        run_id = row.run.run_id
        left = self._sharing(row) - {run_id}
        self._rows.pop(run_id, None)
        for key in set(self._keys.pop(run_id, ())):
            self._runs_of[key].discard(run_id)
            if not self._runs_of[key]:
                del self._runs_of[key]
        return self._review(left, {row.run.query_id})

    def _review(self, run_ids: Iterable[str], query_ids: Iterable[str] = ()) -> set[str]:
        """Note that the writers of these runs' checkpoints have changed; the queries that have them."""
        concerned = {*query_ids, *(self._rows[run_id].run.query_id for run_id in run_ids)}
        for query_id in concerned:
            (self.contested.add if self._has_rival(query_id) else self.contested.discard)(query_id)
        self._changed |= concerned
        return concerned

    def _has_rival(self, query_id: str) -> bool:
        rows = [self._rows[run_id] for run_id in self._runs_of.get(query_id, ())]
        return len({self._rows[run_id].run.agent for row in rows for run_id in self._sharing(row)}) > 1
