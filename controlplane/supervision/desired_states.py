"""Desired state of each query: set by a person, kept in the store, shown by the window.

A person's stop or suspend sets it before the action is requested, so no policy that decides at the same moment can
undo it: an action of a policy is checked against the store in the transaction that accepts it. A start or restart sets
it once it was accepted, so a refused one changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sqlalchemy.engine import Connection

from controlplane.actions.guards import ActionRefusal
from controlplane.actions.service import ActionService
from controlplane.actions.transitions import NewAction
from controlplane.health.formatting import clock
from controlplane.model import Action, ActionState, QueryView
from controlplane.store import actions, audit
from controlplane.store.supervision import desired as rows
from controlplane.store.writer import Writer
from controlplane.supervision.decision import POLICY_ACTOR
from controlplane.supervision_model import Desired, DesiredState, RestartHold

VIA = "supervisor"
#: Action of a person -> the desired state that it sets.
WANTED = {"stop": DesiredState.STOPPED, "start": DesiredState.RUNNING, "restart": DesiredState.RUNNING}


class SupervisedViews(Protocol):
    """The part of `controlplane.events.window.Window` that supervision uses."""

    def view(self, query_id: str) -> QueryView | None: ...

    def views(self) -> list[QueryView]: ...

    def set_supervised(self, query_id: str, **changes: Any) -> None: ...


class DesiredStates:
    """Sets and loads desired states. Thread-safe, as the window and the writer are."""

    def __init__(
        self, window: SupervisedViews, writer: Writer, service: ActionService, clock: Callable[[], float]
    ):
        self._window, self._writer, self._actions, self._clock = window, writer, service, clock
        #: Called when a policy has given up on a query.
        self.on_hold: Callable[[], object] = lambda: None
        #: Called with the id of each query whose desired state was set.
        self.listeners: list[Callable[[str], None]] = []

    def load(self, stored: Mapping[str, Desired]) -> None:
        """Take over the stored states."""
        for view in self._window.views():
            wanted = stored.get(view.query_id)
            if wanted != view.supervised.desired:
                self._show(view.query_id, wanted)

    def set(self, view: QueryView, state: DesiredState, actor: str, via: str, reason: str = "") -> Desired:
        """Store what a person wants of a query. A policy's action that no driver has taken yet is ended."""
        wanted = Desired(view.query_id, state, actor, self._clock(), reason)
        detail = {"state": state.value, "reason": reason}

        def work(conn: Connection) -> Desired:
            rows.put(conn, wanted)
            audit.record(conn, wanted.at, actor, via, "query.desired", view.query_id, detail)
            return wanted

        self._writer.write(work, lambda _: self._show(view.query_id, wanted))
        if state is not DesiredState.RUNNING:
            self._actions.withdraw(view.query_id, POLICY_ACTOR, _unwanted(wanted, self._clock()))
        for listener in self.listeners:
            listener(view.query_id)
        return wanted

    def request(self, view: QueryView, wanted: NewAction) -> tuple[Action, bool]:
        """Set the desired state that a person's action means, then request it (`ActionService.request`)."""
        known, state = view.supervised.desired, WANTED[wanted.action]
        if (known.state if known else None) is state or self._is_repeated(view, wanted):
            return self._actions.request(view, wanted)
        if state is not DesiredState.RUNNING:
            self.set(view, state, wanted.actor, wanted.via, wanted.reason)
            return self._actions.request(view, wanted)
        action, fresh = self._actions.request(view, wanted)
        if action.state is not ActionState.REFUSED:
            self.set(view, state, wanted.actor, wanted.via, wanted.reason)
        return action, fresh

    def _is_repeated(self, view: QueryView, wanted: NewAction) -> bool:
        """Whether the request was sent before, so that what a person has asked for since holds."""
        key = wanted.idempotency_key
        if key is None:
            return False
        return (
            self._writer.write(lambda conn: actions.by_idempotency_key(conn, key, view.query_id)) is not None
        )

    def hold(self, view: QueryView, hold: RestartHold | None) -> None:
        """Show, or show no more, that a policy has given up on a query."""
        if view.supervised.hold != hold:
            self._window.set_supervised(view.query_id, hold=hold)
            if hold is not None:
                self.on_hold()

    def _show(self, query_id: str, wanted: Desired | None) -> None:
        self._window.set_supervised(query_id, desired=wanted)


def refusal_of_policy(conn: Connection, wanted: NewAction, query_id: str, now: float) -> ActionRefusal | None:
    """Why a policy may not start a query: a person wants it stopped or suspended. None for other actors."""
    desired = rows.get(conn, query_id) if wanted.actor.startswith(POLICY_ACTOR) else None
    if desired is None or desired.state is DesiredState.RUNNING:
        return None
    return _unwanted(desired, now)


def _unwanted(desired: Desired, now: float) -> ActionRefusal:
    reason = f"{desired.actor} set the desired state to {desired.state} at {clock(desired.at, now)}"
    return ActionRefusal("desired_state", reason)
