"""The policies in force and the ledger, as the supervisor and the API read and write them. Thread-safe."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy.engine import Connection

from controlplane.errors import BadRequest
from controlplane.metrics.samples import query_labels
from controlplane.model import Action, QueryView
from controlplane.store import actions, audit
from controlplane.store.supervision import ledger, policies
from controlplane.store.supervision.policies import PolicyDocument
from controlplane.store.writer import Writer
from controlplane.supervision import policy_file
from controlplane.supervision.policies import Policy, PolicySet
from controlplane.supervision_model import LedgerEntry

Reading = Callable[[], AbstractContextManager[Connection]]


class PolicyBook:
    """The policy document in force, parsed, and its history in the store."""

    def __init__(self, writer: Writer, reading: Reading, clock: Callable[[], float]):
        self._writer, self._reading, self._clock = writer, reading, clock
        self.document = PolicyDocument(0, policy_file.BUILT_IN)
        self.policies = _parsed(self.document.text)

    def load(self, conn: Connection) -> None:
        """Read the document in force, if it is another one."""
        newest = policies.newest(conn)
        if newest is not None and newest.version != self.document.version:
            self._use(newest)

    def apply(self, text: str, actor: str, via: str, reason: str = "") -> PolicyDocument:
        """Put a document in force. BadRequest lists every mistake of it; the same text again changes nothing."""
        _, mistakes = policy_file.load(text)
        if mistakes:
            detail = {
                "mistakes": [{"line": m.line, "column": m.column, "message": m.message} for m in mistakes]
            }
            raise BadRequest("; ".join(map(str, mistakes[:5])), code="bad_policies", detail=detail)
        now = self._clock()

        def work(conn: Connection) -> PolicyDocument:
            newest = policies.newest(conn)
            if newest is not None and newest.text == text:
                return newest
            made = policies.add(conn, text, actor, now, reason)
            audit.record(conn, now, actor, via, "policies.apply", str(made.version), {"reason": reason})
            return made

        return self._writer.write(work, self._use)

    def of(self, view: QueryView) -> Policy | None:
        """The policy that holds for a query."""
        return self.policies.of(query_labels(view))

    def history_of(self, query_id: str, since: float) -> list[LedgerEntry]:
        """The ledger's entries about a query, oldest first."""
        with self._reading() as conn:
            return ledger.of_query(conn, query_id, since)

    def open_entries(self) -> list[LedgerEntry]:
        """The ledger's entries whose outcome is still to come, oldest first."""
        with self._reading() as conn:
            return ledger.open_entries(conn)

    def action_of(self, entry: LedgerEntry) -> Action | None:
        """The action that carries an entry out."""
        if entry.action_id is None:
            return None
        with self._reading() as conn:
            return actions.get(conn, entry.action_id)

    def add(self, entry: LedgerEntry) -> None:
        """Store a decision; returns after the commit."""
        self._writer.write(lambda conn: ledger.insert(conn, entry))

    def change(self, entry: LedgerEntry) -> None:
        """Store what became of a decision; returns after the commit."""
        self._writer.write(lambda conn: ledger.update(conn, entry))

    def prune(self, before: float) -> int:
        """Delete old entries whose outcome is known; returns their number."""
        return self._writer.write(lambda conn: ledger.delete_before(conn, before))

    def _use(self, document: PolicyDocument) -> None:
        self.document, self.policies = document, _parsed(document.text)


def _parsed(text: str) -> PolicySet:
    """A stored document that this release cannot read supervises nothing."""
    found, _ = policy_file.load(text)
    return found or PolicySet()
