"""Bulk actions: one action on many queries, a few at a time, carried on by whatever server is active.

Each query gets an ordinary action of the person who asked for the bulk action (`controlplane.actions`). Ticked by the
scheduler; `controlplane.supervision.bulk_steps` decides.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from sqlalchemy.engine import Connection

from controlplane.actions.transitions import NewAction
from controlplane.bulk_model import BulkAction, BulkState
from controlplane.errors import ControlPlaneError, NotFound
from controlplane.model import Action, QueryView
from controlplane.store import audit
from controlplane.store.supervision import bulk_actions as rows
from controlplane.store.writer import Writer
from controlplane.supervision import bulk_steps
from controlplane.supervision.book import Reading

log = logging.getLogger(__name__)


class BulkTargets(Protocol):
    """The part of `controlplane.events.window.Window` that bulk actions use."""

    def view(self, query_id: str) -> QueryView | None: ...


class RequestedActions(Protocol):
    """The part of `controlplane.supervision.desired_states.DesiredStates` that bulk actions use."""

    def request(self, view: QueryView, wanted: NewAction) -> tuple[Action, bool]: ...


class BulkActions:
    """The running bulk actions. `tick` runs in one thread at a time; the rest is thread-safe."""

    def __init__(
        self,
        writer: Writer,
        window: BulkTargets,
        desired: RequestedActions,
        reading: Reading,
        clock: Callable[[], float],
    ):
        self._writer, self._window, self._desired = writer, window, desired
        self._reading, self._clock = reading, clock
        self._running: dict[str, BulkAction] = {}

    def load(self) -> None:
        """Carry on with what the store has; call it when this server becomes active."""
        with self._reading() as conn:
            self._running = {bulk.id: bulk for bulk in rows.running(conn)}

    def add(self, bulk: BulkAction) -> None:
        """Store a new bulk action; the next tick begins it."""
        detail = {"id": bulk.id, "queries": len(bulk.query_ids), "request_reason": bulk.reason}

        def work(conn: Connection) -> None:
            rows.insert(conn, bulk)
            audit.record(
                conn, bulk.requested_at, bulk.actor, bulk.via, f"bulk.{bulk.action}", bulk.id, detail
            )

        self._writer.write(work, lambda _: self._running.update({bulk.id: bulk}))

    def cancel(self, id: str, actor: str, via: str) -> BulkAction:
        """Act on no further query; open actions go on. NotFound for an unknown id, no change to an ended one."""
        with self._reading() as conn:
            bulk = rows.get(conn, id)
        if bulk is None:
            raise NotFound(f"there is no bulk action {id}")
        if bulk.state is not BulkState.RUNNING:
            return bulk
        why = f"cancelled by {actor}"
        self._end(replace(bulk, state=BulkState.CANCELLED, ended_at=self._clock(), why=why), actor, via)
        with self._reading() as conn:
            return rows.get(conn, id) or bulk

    def skipped(self, bulk: BulkAction, actions: Mapping[str, Action]) -> dict[str, str]:
        """Why queries without an action are left out, by id; empty once the bulk action has ended."""
        if bulk.state is not BulkState.RUNNING:
            return {}
        reasons = {
            id: bulk_steps.skip_reason(bulk, self._window.view(id))
            for id in bulk.query_ids
            if id not in actions
        }
        return {id: why for id, why in reasons.items() if why is not None}

    def tick(self) -> None:
        """Request the next actions and end the bulk actions that are done."""
        for bulk in list(self._running.values()):
            try:
                self._advance(bulk)
            except ControlPlaneError as error:  # the next tick tries again
                log.warning("bulk action %s waits: %s", bulk.id, error)

    def _advance(self, bulk: BulkAction) -> None:
        with self._reading() as conn:
            actions = rows.actions_of(conn, bulk)
        found = bulk_steps.step(bulk, actions, self.skipped(bulk, actions), self._clock())
        if found.bulk.state is not BulkState.RUNNING:
            self._end(found.bulk, "server", "server")
        for query_id in found.requested:
            view = self._window.view(query_id)
            if view is None or bulk.id not in self._running:
                return
            self._desired.request(view, _wanted(bulk))

    def _end(self, bulk: BulkAction, actor: str, via: str) -> None:
        detail = {"id": bulk.id, "state": bulk.state.value, "reason": bulk.why}

        def work(conn: Connection) -> None:
            if rows.end(conn, bulk):
                audit.record(
                    conn, bulk.ended_at or 0.0, actor, via, f"bulk.{bulk.action}.end", bulk.id, detail
                )

        def then(_: None) -> None:
            self._running.pop(bulk.id, None)

        self._writer.write(work, then)

    def prune(self, before: float) -> None:
        """Delete what ended before this time."""
        self._writer.write(lambda conn: rows.prune(conn, before))


def _wanted(bulk: BulkAction) -> NewAction:
    return NewAction(
        action=bulk.action,
        actor=bulk.actor,
        via=bulk.via,
        drain=bulk.drain,
        reason=bulk.reason,
        idempotency_key=bulk.key,
    )
