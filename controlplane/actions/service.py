"""Service for actions on queries: accepts requests, sends commands to agents, applies their results.

Every change is one step of `controlplane.actions.transitions` on the row in the store. The writer thread makes it
and publishes it (to the window and the outbox) in the order of the commits. Called by the API, by ingest after each
commit, and by the scheduler.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from sqlalchemy.engine import Connection

from controlplane.actions import checkpoint_gate, guards, transitions
from controlplane.actions.guards import ActionRefusal
from controlplane.actions.outbox import Outbox
from controlplane.actions.transitions import ActionOutcome, NewAction
from controlplane.actions.verification import verify
from controlplane.errors import Conflict, Forbidden, NotFound, StoreUnavailable
from controlplane.health import terminal_status
from controlplane.health.checkpoint_verdict import current, report_now
from controlplane.health.context import context_at
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import Action, ActionState, Agent, QueryView
from controlplane.store import actions as rows
from controlplane.store import audit
from controlplane.store import checkpoints as checkpoint_rows
from controlplane.supervision_model import CheckpointWriter
from listeners.protocol.wire import CommandResult, Event

log = logging.getLogger(__name__)
WRITE_SECONDS = 15.0
Step = Callable[[Action], Action]
Guard = Callable[[Connection, NewAction, str, float], ActionRefusal | None]


class QueryViews(Protocol):
    """The part of `controlplane.events.window.Window` that the service uses."""

    def view(self, query_id: str) -> QueryView | None: ...

    def agent(self, agent: str) -> Agent | None: ...

    def set_action(self, query_id: str, action: Action | None) -> None: ...


class CheckpointDoctor(Protocol):
    """Requests an inventory of a query's checkpoint before a start; Conflict gives the reason when none can be made."""

    def request_before_start(self, view: QueryView) -> None: ...

    def trouble(self, query_id: str) -> str | None: ...

    def pending_request(self, query_id: str) -> object | None: ...


class ActionWriter(Protocol):
    """The part of the store's writer that the service uses: a transaction, then `then` in the order of commits."""

    def submit(
        self, work: Callable[[Connection], Action], then: Callable[[Action], None] | None = None
    ) -> Future[Action]: ...


class ActionService:
    """The open actions, by id. Thread-safe; the pure modules of this package make the decisions."""

    def __init__(
        self,
        writer: ActionWriter,
        window: QueryViews,
        outbox: Outbox,
        clock: Callable[[], float],
        doctor: CheckpointDoctor | None = None,
    ):
        self._doctor = doctor
        self._writer = writer
        self._window = window
        self._outbox = outbox
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[str, Action] = {}
        #: A further guard: connection, requested action, query id and now -> why the action is refused.
        self.guard: Guard = lambda conn, wanted, query_id, now: None
        #: Called with the id of each query whose action changed.
        self.listeners: list[Callable[[str], None]] = []

    def load(self, actions: Iterable[Action]) -> None:
        """Restore the open actions after a restart of the server."""
        for action in actions:
            self._publish(action)

    @property
    def open_count(self) -> int:
        """Number of open actions."""
        return len(self._open)

    def request(self, view: QueryView, wanted: NewAction) -> tuple[Action, bool]:
        """Store a new action, open or refused. False: an earlier request with this key; its action is returned."""
        action_id, now = str(uuid.uuid4()), self._clock()

        def work(conn: Connection) -> Action:
            earlier = _previous_request(conn, view.query_id, wanted)
            refusal = None if earlier else self.guard(conn, wanted, view.query_id, now)
            # This is the writer's thread, so no commit comes between.
            present = self._window.view(view.query_id) or view
            others = guards.living_rivals(present, now)
            return earlier or _insert(conn, view, wanted, action_id, now, self._doctor, refusal, others)

        action = _result(self._commit(work))
        return action, action.id == action_id

    def withdraw(self, query_id: str, actor: str, refusal: ActionRefusal) -> None:
        """End the open action of a query as refused if no driver has it yet and its actor begins with `actor`."""
        now = self._clock()

        def step(current: Action) -> Action:
            waits = current.state is ActionState.REQUESTED and current.actor.startswith(actor)
            return transitions.refuse(current, refusal, now) if waits else current

        for action in list(self._open.values()):
            if action.query_id == query_id:
                _result(self._step(action.id, step))

    def deliver(self, action: Action) -> Future[Action]:
        """Store that the action goes to its agent now; it was sent if its state is `delivered` after the commit."""
        view, now = self._window.view(action.query_id), self._clock()
        return self._step(action.id, lambda current: transitions.deliver(current, view, now))

    def answer(self, action_id: str, result: CommandResult, app: str | None) -> Action:
        """Apply an agent's result; Forbidden if the token is bound to another app, NotFound for an unknown id."""
        now = self._clock()

        def step(current: Action) -> Action:
            if app not in (None, current.app):
                raise Forbidden(f"the token is bound to the app {app}")
            view = self._window.view(current.query_id)
            changed = transitions.apply_result(current, result, view, now)
            return self._verified(changed, now) if changed != current else current

        return _result(self._step(action_id, step))

    def note(self, action_id: str, reason: str, evidence: Mapping[str, Any]) -> None:
        """Store the present step of an action that the server carries out."""
        _result(self._step(action_id, lambda current: transitions.note(current, reason, evidence)))

    def finish(self, action_id: str, outcome: ActionOutcome) -> None:
        """End an action that the server has carried out."""
        now = self._clock()
        _result(self._step(action_id, lambda current: transitions.finish(current, outcome, now)))

    def open_changes(self) -> list[Action]:
        """The open actions that the server carries out itself."""
        return [
            action for action in list(self._open.values()) if action.action in transitions.CHECKPOINT_ACTIONS
        ]

    def on_events(self, events: Sequence[Event]) -> None:
        """Verify the actions that committed events may concern, without waiting for the store."""
        if not self._open:
            return
        agents = {event.agent for event in events}
        for action in list(self._open.values()):
            if action.agent in agents:
                self._reconcile(action, due=False)

    def on_checkpoint_checked(self, query_id: str) -> None:
        """Decide the starts that wait for this query's checkpoint check, whether it succeeded or failed."""
        for action in list(self._open.values()):
            if action.query_id == query_id and transitions.is_held(action):
                self._decide_start(action.id)

    def _decide_start(self, action_id: str) -> None:
        now = self._clock()

        def work(conn: Connection) -> Action:
            return _advance(conn, action_id, lambda current: self._decision(conn, current, now), now)

        self._commit(work).add_done_callback(_log_failure)

    def _decision(self, conn: Connection, action: Action, now: float) -> Action:
        view = self._window.view(action.query_id)
        if view is None or not transitions.is_held(action):
            return action
        report = report_now(checkpoint_rows.latest_report(conn, action.query_id), view)
        if guards.is_fresh(view.checkpoint, view, now):
            return checkpoint_gate.decide(action, current(view), report, now)
        why = (
            self._doctor.trouble(action.query_id) if self._doctor is not None else "checkpoint checks are off"
        )
        if why is None and not checkpoint_gate.is_wait_over(action, now):
            return action
        why = why or f"no inventory arrived within {transitions.INVENTORY_WAIT_SECONDS:.0f} s"
        return checkpoint_gate.decide_without_inventory(action, view, report, why, now)

    def tick_checkpoints(self) -> None:
        """Decide the starts whose wait for a checkpoint check is over."""
        now = self._clock()
        for action in list(self._open.values()):
            pending = self._doctor is not None and self._doctor.pending_request(action.query_id) is not None
            if transitions.is_held(action) and (checkpoint_gate.is_wait_over(action, now) or not pending):
                self._decide_start(action.id)

    def tick(self) -> None:
        """Verify the open actions and end those past their deadline."""
        for action in list(self._open.values()):
            self._reconcile(action, due=True)

    def _reconcile(self, action: Action, due: bool) -> None:
        now = self._clock()

        def step(current: Action) -> Action:
            return self._verified(current, now, due)

        if step(action) != action:
            self._step(action.id, step).add_done_callback(_log_failure)

    def _verified(self, action: Action, now: float, due: bool = False) -> Action:
        view = self._window.view(action.query_id)
        outcome: ActionOutcome | None = verify(action, view, now) if view else None
        outcome = outcome or (transitions.overdue_outcome(action, now) if due else None)
        return transitions.finish(action, outcome, now) if outcome else action

    def _step(self, action_id: str, step: Step) -> Future[Action]:
        now = self._clock()
        return self._commit(lambda conn: _advance(conn, action_id, step, now))

    def _commit(self, work: Callable[[Connection], Action]) -> Future[Action]:
        return self._writer.submit(work, self._publish)

    def _publish(self, action: Action) -> None:
        with self._lock:
            if not action.state.final:
                self._open[action.id] = action
                self._window.set_action(action.query_id, action)
            elif self._open.pop(action.id, None) is not None:
                self._window.set_action(action.query_id, None)
        self._outbox.put(action)
        for listener in self.listeners:
            listener(action.query_id)


def _previous_request(conn: Connection, query_id: str, wanted: NewAction) -> Action | None:
    """The action of an earlier request with this key; Conflict if that request asked for something else."""
    if wanted.idempotency_key is None:
        return None
    action = rows.by_idempotency_key(conn, wanted.idempotency_key, query_id)
    if action is not None and action.action != wanted.action:
        message = f"this Idempotency-Key was used for a {action.action}; use a new key for a {wanted.action}"
        raise Conflict(message, code="idempotency_key_reused")
    if action is not None and wanted.force and action.evidence.get("code") == "checkpoint_broken":
        message = (
            "the action with this Idempotency-Key was refused because of the checkpoint; "
            "use a new key to force it"
        )
        raise Conflict(message, code="idempotency_key_reused")
    return action


def _insert(
    conn: Connection,
    view: QueryView,
    wanted: NewAction,
    action_id: str,
    now: float,
    doctor: CheckpointDoctor | None,
    refusal: ActionRefusal | None,
    others: Sequence[CheckpointWriter],
) -> Action:
    action = transitions.request(view, wanted, action_id, now)
    context = context_at(view, now, DEFAULTS)
    vanished = terminal_status.disappeared(context) is not None
    pending = rows.open_for_query(conn, view.query_id)
    lost = terminal_status.lost_contact(context) is not None
    if wanted.action in transitions.CHECKPOINT_ACTIONS:
        active = context.active and not vanished
        refusal = refusal or guards.check_change(view, pending, others, active, lost)
    else:
        refusal = refusal or guards.check(
            view, wanted.action, pending, others, vanished, context.outage, lost
        )
    if refusal is not None:
        action = transitions.refuse(action, refusal, now)
    elif doctor is not None and wanted.action in transitions.START_ACTIONS:
        action = _gated(conn, view, wanted, action, now, doctor)
    rows.insert(conn, action)
    detail = {"state": action.state.value, "reason": action.reason, "request_reason": wanted.reason}
    forced = {"force": True} if wanted.force else {}
    audit.record(
        conn,
        now,
        wanted.actor,
        wanted.via,
        f"query.{wanted.action}",
        view.query_id,
        {"id": action_id, **detail, **forced},
    )
    return action


def _gated(
    conn: Connection, view: QueryView, wanted: NewAction, action: Action, now: float, doctor: CheckpointDoctor
) -> Action:
    """The action after the checkpoint gate: refused, released, or held until an inventory arrives."""
    seen, report = current(view), report_now(checkpoint_rows.latest_report(conn, view.query_id), view)
    if wanted.force:
        return checkpoint_gate.force(action, seen, report, now)
    if not checkpoint_gate.needs_inventory(view, wanted, now):
        return checkpoint_gate.decide(action, seen, report, now)
    if view.facts.checkpoint_is_temporary:
        return transitions.release(action, {"checkpoint": "not checked: it is temporary"}, now)
    try:
        doctor.request_before_start(view)
    except Conflict as error:
        return checkpoint_gate.decide_without_inventory(action, view, report, str(error), now)
    return transitions.hold(action, now)


def _advance(conn: Connection, action_id: str, step: Step, now: float) -> Action:
    current = rows.get(conn, action_id)
    if current is None:
        raise NotFound(f"there is no action {action_id}")
    changed = step(current)
    if changed == current or not rows.update(conn, changed, current.state):
        return current
    if changed.state.final:
        detail = {"id": action_id, "state": changed.state.value, "reason": changed.reason}
        via = f"agent {changed.agent}" if changed.agent else "server"
        audit.record(conn, now, changed.actor, via, f"query.{changed.action}.end", changed.query_id, detail)
    return changed


def _result(future: Future[Action]) -> Action:
    try:
        return future.result(WRITE_SECONDS)
    except TimeoutError:
        raise StoreUnavailable(f"the store did not commit within {WRITE_SECONDS:.0f} s") from None


def _log_failure(future: Future[Action]) -> None:
    error = future.exception()
    if error is not None:
        log.warning("a step of an action failed: %s", error)
