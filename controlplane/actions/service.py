"""Where actions are carried on: takes asks, hands commands to agents, hears answers and events.

Every change is one step of `actions` on the row in the store, done by the writer thread and
published (window, outbox) in the order of the commits. Called by the API, by ingest after each
commit, and by the scheduler's tick.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Protocol

from sqlalchemy.engine import Connection

from controlplane.actions import checkpoint_gate, guards
from controlplane.actions import transitions as steps
from controlplane.actions.outbox import Outbox
from controlplane.actions.transitions import ActionOutcome, Ask
from controlplane.actions.verification import verify
from controlplane.errors import Conflict, Forbidden, NotFound, StoreUnavailable
from controlplane.health import terminal_status
from controlplane.health.context import open_case
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import Action, Agent, QueryView
from controlplane.store import actions as rows
from controlplane.store import audit
from controlplane.store import checkpoints as checkpoint_rows
from controlplane.store import queries as query_rows
from listeners.protocol.wire import CommandResult, Event

log = logging.getLogger(__name__)
WRITE_SECONDS = 15.0
Step = Callable[[Action], Action]


class Views(Protocol):
    """What the control room asks of the window."""

    def view(self, query_id: str) -> QueryView | None: ...

    def set_action(self, query_id: str, action: Action | None) -> None: ...


class Doctor(Protocol):
    """What it asks before a start: an inventory of the query's checkpoint. Conflict says why nobody can look."""

    def look_before_start(self, view: QueryView) -> None: ...

    def trouble(self, query_id: str) -> str | None: ...

    def looking(self, query_id: str) -> object | None: ...


class Commits(Protocol):
    """What it asks of the writer: a transaction; `then` after the commit, in the order of commits."""

    def submit(
        self, work: Callable[[Connection], Action], then: Callable[[Action], None] | None = None
    ) -> Future[Action]: ...


class ActionService:
    """All actions under way, by id. Thread-safe; decisions are in the pure modules beside it."""

    def __init__(
        self,
        writer: Commits,
        window: Views,
        outbox: Outbox,
        clock: Callable[[], float],
        doctor: Doctor | None = None,
    ):
        self._doctor = doctor
        self._writer = writer
        self._window = window
        self._outbox = outbox
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[str, Action] = {}
        #: Told the id of a query whose action changed.
        self.listeners: list[Callable[[str], None]] = []

    def load(self, actions: Iterable[Action]) -> None:
        """Take up what was under way when the server ended."""
        for action in actions:
            self._publish(action)

    @property
    def open_count(self) -> int:
        return len(self._open)

    def ask(self, view: QueryView, ask: Ask) -> tuple[Action, bool]:
        """Put an action on record, refused or under way. False: this key asked before; this is that one."""
        action_id, now = str(uuid.uuid4()), self._clock()

        def work(conn: Connection) -> Action:
            earlier = _earlier(conn, view.query_id, ask)
            return earlier or _record(conn, view, ask, action_id, now, self._doctor)

        action = _result(self._commit(work))
        return action, action.id == action_id

    def deliver(self, action: Action) -> Future[Action]:
        """Note that this goes out to its agent now; it did if the state is `delivered` after the commit."""
        view, now = self._window.view(action.query_id), self._clock()
        return self._step(action.id, lambda current: steps.deliver(current, view, now))

    def answer(self, action_id: str, result: CommandResult, app: str | None) -> Action:
        """Take an agent's result; Forbidden where its token is bound to another app."""
        now = self._clock()

        def step(current: Action) -> Action:
            if app not in (None, current.app):
                raise Forbidden(f"this token is bound to the app {app}")
            view = self._window.view(current.query_id)
            answered = steps.answer(current, result, view, now)
            return self._verified(answered, now) if answered != current else current

        return _result(self._step(action_id, step))

    def heard(self, events: Sequence[Event]) -> None:
        """Events were committed: verify the actions they may concern. Does not wait for the store."""
        if not self._open:
            return
        agents = {event.agent for event in events}
        for action in list(self._open.values()):
            if action.agent in agents:
                self._look_at(action, due=False)

    def looked_at(self, query_id: str) -> None:
        """The doctor has seen this query's checkpoint, or could not: a start that waits for it is decided."""
        for action in list(self._open.values()):
            if action.query_id == query_id and steps.is_held(action):
                self._decide(action.id)

    def _decide(self, action_id: str) -> None:
        now = self._clock()

        def work(conn: Connection) -> Action:
            return _advance(conn, action_id, lambda current: self._decided(conn, current, now), now)

        self._commit(work).add_done_callback(_log_failure)

    def _decided(self, conn: Connection, action: Action, now: float) -> Action:
        view = self._window.view(action.query_id)
        if view is None or not steps.is_held(action):
            return action
        judgement = checkpoint_rows.judgement(conn, action.query_id)
        if guards.is_fresh(view.checkpoint, view, now):
            return checkpoint_gate.decided(action, view.checkpoint, judgement, now)
        why = self._doctor.trouble(action.query_id) if self._doctor is not None else "nobody looks"
        if why is None and not checkpoint_gate.is_out_of_time(action, now):
            return action
        why = why or f"no inventory came within {steps.LOOK_SECONDS:.0f} s"
        return checkpoint_gate.unseen(action, view, judgement, why, now)

    def tick_looks(self) -> None:
        """Let go the starts that have waited for a look at their checkpoint for too long."""
        now = self._clock()
        for action in list(self._open.values()):
            looks = self._doctor is not None and self._doctor.looking(action.query_id) is not None
            if steps.is_held(action) and (checkpoint_gate.is_out_of_time(action, now) or not looks):
                self._decide(action.id)

    def tick(self) -> None:
        """Verify what is under way and end what is past its deadline."""
        for action in list(self._open.values()):
            self._look_at(action, due=True)

    def _look_at(self, action: Action, due: bool) -> None:
        now = self._clock()

        def step(current: Action) -> Action:
            return self._verified(current, now, due)

        if step(action) != action:
            self._step(action.id, step).add_done_callback(_log_failure)

    def _verified(self, action: Action, now: float, due: bool = False) -> Action:
        view = self._window.view(action.query_id)
        outcome: ActionOutcome | None = verify(action, view, now) if view else None
        outcome = outcome or (steps.overdue(action, now) if due else None)
        return steps.settle(action, outcome, now) if outcome else action

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


def _earlier(conn: Connection, query_id: str, ask: Ask) -> Action | None:
    if ask.idempotency_key is None:
        return None
    action = rows.by_idempotency_key(conn, ask.idempotency_key, query_id)
    if action is not None and action.action != ask.action:
        message = f"this Idempotency-Key was used for a {action.action}; use a new one for a {ask.action}"
        raise Conflict(message, code="idempotency_key_reused")
    if action is not None and ask.force and action.evidence.get("code") == "checkpoint_broken":
        message = "this Idempotency-Key was refused because of the checkpoint; use a new one to force it"
        raise Conflict(message, code="idempotency_key_reused")
    return action


def _record(
    conn: Connection, view: QueryView, ask: Ask, action_id: str, now: float, doctor: Doctor | None
) -> Action:
    action = steps.request(view, ask, action_id, now)
    others = [agent for agent in query_rows.drivers_of(conn, view.query_id) if _is_other(agent, view, now)]
    vanished = terminal_status.vanished(open_case(view, now, DEFAULTS)) is not None
    refusal = guards.check(view, ask.action, rows.open_for_query(conn, view.query_id), others, vanished)
    if refusal is not None:
        action = steps.refuse(action, refusal, now)
    elif doctor is not None and ask.action in steps.START_ACTIONS:
        action = _foreseen(conn, view, ask, action, now, doctor)
    rows.insert(conn, action)
    detail = {"state": action.state.value, "reason": action.reason, "request_reason": ask.reason}
    forced = {"force": True} if ask.force else {}
    audit.record(
        conn,
        now,
        ask.actor,
        ask.via,
        f"query.{ask.action}",
        view.query_id,
        {"id": action_id, **detail, **forced},
    )
    return action


def _foreseen(
    conn: Connection, view: QueryView, ask: Ask, action: Action, now: float, doctor: Doctor
) -> Action:
    """The action with what the doctor says of the checkpoint; held where somebody looks first."""
    seen, judgement = view.checkpoint, checkpoint_rows.judgement(conn, view.query_id)
    if ask.force:
        return checkpoint_gate.forced(action, seen, judgement, now)
    if not checkpoint_gate.needs_look(view, ask, now):
        return checkpoint_gate.decided(action, seen, judgement, now)
    if view.facts.checkpoint_is_temporary:
        return steps.let_go(action, {"checkpoint": "not seen: it is temporary"}, now)
    try:
        doctor.look_before_start(view)
    except Conflict as error:
        return checkpoint_gate.unseen(action, view, judgement, str(error), now)
    return steps.hold(action, now)


def _is_other(agent: Agent, view: QueryView, now: float) -> bool:
    """Does another driver than the view's live? One that fell silent may have been replaced by it."""
    own = view.agent is not None and agent.agent == view.agent.agent
    return not own and agent.ended_at is None and now - agent.last_seen_at <= DEFAULTS.unheard_seconds


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
        log.warning("an action could not be carried on: %s", error)
