"""The parts of supervision, wired for `controlplane.app`: policies, desired states, leases of checkpoints, bulk
actions, supervisor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from sqlalchemy.engine import Connection

from controlplane.actions.outbox import Outbox
from controlplane.actions.service import ActionService
from controlplane.events.window import Window
from controlplane.health.verdicts import VerdictLog
from controlplane.incident_model import Incident
from controlplane.incidents.log import IncidentLog
from controlplane.model import QueryStatus
from controlplane.store.supervision import checkpoint_leases as lease_rows
from controlplane.store.supervision import desired as desired_rows
from controlplane.store.supervision import incidents as incident_rows
from controlplane.store.writer import Writer
from controlplane.supervision.book import PolicyBook, Reading
from controlplane.supervision.bulk_actions import BulkActions
from controlplane.supervision.checkpoint_leases import CheckpointLeases
from controlplane.supervision.desired_states import DesiredStates, refusal_of_policy
from controlplane.supervision.driver_leases import DriverLeases
from controlplane.supervision.supervisor import Supervisor


class StatusListener(Protocol):
    """The part of the alerting service that supervision uses: it evaluates the rules on these statuses at once."""

    def on_status_changes(self, statuses: Iterable[QueryStatus | None]) -> None: ...


class SupervisionService:
    """Policies, desired states, leases of checkpoints, bulk actions and the supervisor of one server."""

    def __init__(
        self,
        writer: Writer,
        window: Window,
        verdicts: VerdictLog,
        actions: ActionService,
        reading: Reading,
        clock: Callable[[], float],
        alerting: StatusListener,
        outbox: Outbox,
    ):
        self.book = PolicyBook(writer, reading, clock)
        self.desired = DesiredStates(window, writer, actions, clock)
        self.bulk = BulkActions(writer, window, self.desired, reading, clock)
        self._window, self._reading = window, reading
        self.leases = CheckpointLeases(window, writer, clock)
        self.drivers = DriverLeases(self.book, window, outbox, clock)
        self._writer, self._alerting = writer, alerting
        self.incidents = IncidentLog(window, verdicts, self._put_incidents, clock)
        self.supervisor = Supervisor(
            self.book, window, verdicts, actions, self.desired, clock, self.drivers, self.incidents
        )
        self.drivers.on_release = self.supervisor.note
        self.incidents.on_change = self._on_incident
        actions.guard = refusal_of_policy
        self.desired.on_hold = lambda: alerting.on_status_changes((QueryStatus.FAILED,))
        actions.listeners.append(lambda query_id: self.supervisor.note((query_id,)))
        self.desired.listeners.append(lambda query_id: self.note((query_id,)))

    def note(self, query_ids: Iterable[str]) -> None:
        """Have the next tick look at queries whose status or desired state has changed."""
        known = tuple(query_ids)
        self.incidents.note(known)
        self.supervisor.note(known)

    def _put_incidents(self, changed: Sequence[Incident]) -> None:
        self._writer.write(lambda conn: incident_rows.put(conn, changed))

    def _on_incident(self, query_ids: Iterable[str]) -> None:
        self.supervisor.note(query_ids)
        self._alerting.on_status_changes((QueryStatus.FAILED, QueryStatus.STUCK))

    def follow(self, conn: Connection) -> None:
        """Take over policies and desired states from the store, as the standby does again and again."""
        self.book.load(conn)
        self.desired.load(desired_rows.all_states(conn))
        self.incidents.load(incident_rows.open_incidents(conn))

    def start(self) -> None:
        """Take over the decisions of the active server before; call it once the window is loaded."""
        with self._reading() as conn:
            self._window.load_writers(conn)
            self.leases.load(lease_rows.all_leases(conn))
        self.drivers.begin()
        self.supervisor.load()
        self.incidents.note(view.query_id for view in self._window.views())
        self.bulk.load()

    def tick(self) -> None:
        """Settle who holds each checkpoint, find incidents, then decide about the queries in trouble."""
        self.leases.tick()
        self.incidents.tick()
        self.supervisor.tick()

    def prune(self, before: float) -> None:
        """Delete old entries of the ledger, old incidents and bulk actions, and the leases of deleted queries."""
        self.book.prune(before)
        self.bulk.prune(before)
        self._writer.write(lambda conn: incident_rows.delete_before(conn, before))
        self.leases.prune()
