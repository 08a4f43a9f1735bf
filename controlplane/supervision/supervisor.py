"""Supervisor: applies the policies to the queries in trouble and keeps the ledger.

Only queries whose status, action or desired state changed, and those whose next decision is due, are looked at; a
healthy query costs nothing. Each decision is in the ledger before it is carried out. Ticked by the active server's
scheduler, called for changes by `controlplane.app`; decides by `controlplane.supervision.decision`.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from controlplane.actions.transitions import MAX_STAGE_SECONDS, NewAction
from controlplane.errors import ControlPlaneError
from controlplane.health import terminal_status
from controlplane.health.context import QueryContext
from controlplane.health.verdicts import QueryVerdict
from controlplane.incidents.log import IncidentLog
from controlplane.model import Action, ActionState, QueryStatus, QueryView
from controlplane.supervision import outcomes
from controlplane.supervision.book import PolicyBook
from controlplane.supervision.decision import (
    POLICY_ACTOR,
    TRANSIENT,
    UNRECORDED,
    WAIT_SECONDS,
    RestartDecision,
    RestartLoad,
    TroubledQuery,
    decide,
)
from controlplane.supervision.desired_states import VIA, DesiredStates
from controlplane.supervision.driver_leases import DriverLeases
from controlplane.supervision.policies import RetryClass
from controlplane.supervision.policy_file import TRIGGERS
from controlplane.supervision.retries import retry_class
from controlplane.supervision_model import (
    DecisionKind,
    DecisionOutcome,
    DesiredState,
    LedgerEntry,
    RestartHold,
)
from listeners.protocol.wire import Event

log = logging.getLogger(__name__)
#: How many seconds of the ledger a decision reads, beyond the policy's own window.
HISTORY_SECONDS = 7 * 86400.0
#: How soon the outcome of an open entry is looked for again.
SETTLE_SECONDS = 30.0
#: Decisions of one tick; the next one goes on.
MAX_DECISIONS = 200
#: Decisions whose outcome is filled in later.
_JUDGED = (DecisionKind.RESTART, DecisionKind.PAGE)


class JudgedViews(Protocol):
    """The part of `controlplane.health.verdicts.VerdictLog` that the supervisor uses."""

    def verdict_of(self, view: QueryView, now: float) -> QueryVerdict: ...

    def since(self, query_id: str, status: QueryStatus, now: float) -> float: ...


class ActionRequests(Protocol):
    """The part of `controlplane.actions.service.ActionService` that the supervisor uses."""

    def request(self, view: QueryView, wanted: NewAction) -> tuple[Action, bool]: ...


class SupervisedFleet(Protocol):
    """The part of the window that the supervisor uses."""

    def view(self, query_id: str) -> QueryView | None: ...

    def views(self) -> list[QueryView]: ...


class Supervisor:
    """The queries to look at, and the open entries of the ledger. `tick` runs in one thread at a time."""

    def __init__(
        self,
        book: PolicyBook,
        window: SupervisedFleet,
        verdicts: JudgedViews,
        actions: ActionRequests,
        desired: DesiredStates,
        clock: Callable[[], float],
        leases: DriverLeases | None = None,
        incidents: IncidentLog | None = None,
    ):
        self._leases, self._incidents = leases, incidents
        self._book, self._window, self._verdicts = book, window, verdicts
        self._actions, self._desired, self._clock = actions, desired, clock
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._due: dict[str, float] = {}
        self._open: dict[str, dict[str, LedgerEntry]] = {}
        self._version = -1

    def load(self) -> None:
        """Take over the open entries of the store; call it when this server becomes active."""
        self._open = {}
        for entry in self._book.open_entries():
            self._keep(entry)
        self.note(self._open)

    def note(self, query_ids: Iterable[str]) -> None:
        """Have the next tick look at these queries."""
        with self._lock:
            self._changed.update(query_ids)

    def tick(self) -> None:
        """Decide about the queries that changed or are due."""
        self._take_reports()
        now, decided = self._clock(), 0
        taken = self._taken(now)
        for query_id in taken:
            if decided >= MAX_DECISIONS:
                self.note([query_id])
                continue
            try:
                decided += self._consider(query_id, now)
            except ControlPlaneError as error:
                log.warning("no decision about query %s: %s", query_id, error)
                self._due[query_id] = now + WAIT_SECONDS
        if self._leases is not None:
            self._leases.review(taken)

    def explain(self, view: QueryView) -> tuple[TroubledQuery, RestartDecision] | None:
        """What would be decided about a query now; None where it is not in trouble or no policy matches."""
        now = self._clock()
        found = self._trouble(view, now)
        return None if found is None else (found, decide(found, now))

    def _taken(self, now: float) -> list[str]:
        if self._version != self._book.document.version:
            self._version = self._book.document.version
            self.note(view.query_id for view in self._window.views())
        with self._lock:
            changed, self._changed = self._changed, set()
        due = [query_id for query_id, at in self._due.items() if at <= now]
        for query_id in due:
            del self._due[query_id]
        return sorted(changed.union(due))

    def _consider(self, query_id: str, now: float) -> bool:
        """Look at a query; whether a decision about it was made."""
        view = self._window.view(query_id)
        if view is None:
            self._open.pop(query_id, None)
            return False
        if query_id in self._open:
            self._settle(view, now)
            view = self._window.view(query_id) or view  # an outcome may have released it
        found = self._trouble(view, now)
        if found is None:
            self._desired.hold(view, None)
            return False
        self._carry_out(found, decide(found, now), now)
        return True

    # -- what is decided ------------------------------------------------------------------------------

    def _trouble(self, view: QueryView, now: float) -> TroubledQuery | None:
        """The query as its policy sees it; None where no policy matches, or its status triggers none."""
        judged = self._verdicts.verdict_of(view, now)
        status = judged.verdict.status
        policy = self._book.of(view) if status in TRIGGERS else None
        if policy is None or policy.restart.trigger_of(status) is None:
            return None
        budget = policy.restart.budget
        reads = max(HISTORY_SECONDS, budget.seconds + budget.reset_seconds)
        query = TroubledQuery(
            view=view,
            status=status,
            since=self._verdicts.since(view.query_id, status, now),
            policy=policy,
            history=self._book.history_of(view.query_id, now - reads),
            load=self._load(view.app, now),
            version=self._book.document.version,
            vanished=terminal_status.disappeared(judged.context) is not None,
            driver_until=self._driver_until(view, status, now),
        )
        return self._with_failure(query, judged.context)

    def _driver_until(self, view: QueryView, status: QueryStatus, now: float) -> float | None:
        failed = self._leases is not None and status is QueryStatus.FAILED
        return self._leases.until(view, now) if failed and self._leases is not None else None

    def _with_failure(self, query: TroubledQuery, context: QueryContext) -> TroubledQuery:
        """With the failure and its retry class; the failure of a driver is not that of its queries."""
        if query.status is not QueryStatus.FAILED or context.ended_with_driver:
            return query
        failure = terminal_status.failure(context)
        retry = retry_class(failure, self._book.policies.conditions)
        return replace(query, failure=failure, retry=retry)

    def _load(self, app: str, now: float) -> RestartLoad:
        entries = [
            e for each in list(self._open.values()) for e in list(each.values()) if _in_progress(e, now)
        ]
        return RestartLoad(sum(entry.app == app for entry in entries), len(entries))

    # -- carrying it out ------------------------------------------------------------------------------

    def _carry_out(self, query: TroubledQuery, decision: RestartDecision, now: float) -> None:
        query_id = query.view.query_id
        if decision.due_at is not None:
            self._due[query_id] = max(decision.due_at, now + 0.05)
        if not _is_repeated(query, decision):
            entry = _entry(query, decision, now)
            if self._incidents is not None and decision.kind is DecisionKind.RESTART:
                self._incidents.begin_trial(query.view, entry, query.policy.acts)
            self._book.add(entry)
            log.info(
                "%s: policy %s decides %s: %s",
                query.view.name or query_id,
                entry.policy,
                entry.decision,
                entry.why,
            )
            if entry.is_open:
                self._keep(entry)
            if decision.kind is DecisionKind.RESTART and query.policy.acts:
                self._request(query, entry, now)
        self._desired.hold(query.view, _hold(query, decision, now))

    def _request(self, query: TroubledQuery, entry: LedgerEntry, now: float) -> None:
        running = query.status in (QueryStatus.STUCK, QueryStatus.LAGGING)
        wanted = NewAction(
            action="restart" if running else "start",
            actor=f"{POLICY_ACTOR}{query.policy.name}",
            via=VIA,
            drain=running and query.policy.restart.drain,
            reason=entry.why,
        )
        action, _ = self._actions.request(query.view, wanted)
        if action.state is not ActionState.REFUSED:
            self._replace(replace(entry, acted=True, action_id=action.id))
            return
        code = str(action.evidence.get("code") or "refused")
        refused = replace(
            entry,
            action_id=action.id,
            outcome=None if code in TRANSIENT else DecisionOutcome.FAILED_AGAIN,
            outcome_at=now,
            outcome_why=action.reason,
            inputs={**entry.inputs, "refused": code},
        )
        self._replace(refused)
        self._due[query.view.query_id] = now + WAIT_SECONDS

    def _take_reports(self) -> None:
        """Write what drivers have decided into the ledger."""
        reports = self._leases.take_reports() if self._leases is not None else []
        for event in reports:
            try:
                self._take_report(event)
            except ControlPlaneError as error:
                log.warning("a driver's decision is not in the ledger yet: %s", error)
                assert self._leases is not None
                self._leases.on_events([event])
            self.note([str(event.data.get("id"))])

    def _take_report(self, event: Event) -> None:
        assert self._leases is not None
        if event.type == "restart_decision":
            entry = self._leases.entry_of(event, self._book.document.version)
            if entry is not None:
                self._book.add(entry)
                self._keep(entry)
            return
        known = self._open.get(str(event.data.get("id")), {}).get(str(event.data.get("decisionId")))
        if known is not None:
            self._replace(self._leases.with_result(known, event.data))

    # -- outcomes -------------------------------------------------------------------------------------

    def _settle(self, view: QueryView, now: float) -> None:
        status = self._verdicts.verdict_of(view, now).verdict.status
        for entry in list(self._open.get(view.query_id, {}).values()):
            action = self._book.action_of(entry)
            self._stop_unwanted(view, entry, action)
            settled = outcomes.settle(entry, view, status, action, now)
            if settled != entry:
                self._replace(settled)
            elif entry.acted or (view.run is not None and view.run.ended_at is None):
                self._due[view.query_id] = now + SETTLE_SECONDS

    def _stop_unwanted(self, view: QueryView, entry: LedgerEntry, action: Action | None) -> None:
        """Stop a run that a policy's action started after a person had asked for a stop."""
        desired, run = view.supervised.desired, view.run
        if desired is None or desired.state is DesiredState.RUNNING or desired.at < entry.at:
            return
        if (action is not None and not action.state.final) or run is None or run.ended_at is not None:
            return
        if outcomes.started_run(entry, action) == run.run_id:
            starter = action.actor if action is not None else "its driver"
            reason = f"{desired.actor} asked for it while {starter} started the query"
            self._actions.request(view, NewAction("stop", desired.actor, VIA, reason=reason))

    def _keep(self, entry: LedgerEntry) -> None:
        self._open.setdefault(entry.query_id, {})[entry.id] = entry

    def _replace(self, entry: LedgerEntry) -> None:
        self._book.change(entry)
        if entry.is_open:
            self._keep(entry)
            return
        if self._incidents is not None:
            self._incidents.end_trial(entry)
        entries = self._open.get(entry.query_id, {})
        entries.pop(entry.id, None)
        if not entries:
            self._open.pop(entry.query_id, None)


def _in_progress(entry: LedgerEntry, now: float) -> bool:
    return entry.acted and entry.decision is DecisionKind.RESTART and now - entry.at < MAX_STAGE_SECONDS


def _is_repeated(query: TroubledQuery, decision: RestartDecision) -> bool:
    """Whether the ledger's last entry about this trouble is the same decision, or it is no news."""
    if decision.code in UNRECORDED:
        return True
    last = query.history[-1] if query.history else None
    if last is None or decision.kind is DecisionKind.RESTART or last.run_id != query.run_id:
        return False
    same = (last.decision, last.code, last.policy, last.mode)
    if same != (decision.kind, decision.code, query.policy.name, query.policy.mode.value):
        return False
    return decision.kind is DecisionKind.PAGE or last.trouble_since == query.since


def _entry(query: TroubledQuery, decision: RestartDecision, now: float) -> LedgerEntry:
    view, agent = query.view, query.view.agent
    inputs = {
        "version": query.version,
        "status": query.status.value,
        "retry": query.retry.value if query.failure is not None else RetryClass.NOW.value,
        "agent": agent.agent if agent else None,
        "restarts_counted": len(query.restarts),
        **decision.facts,
    }
    return LedgerEntry(
        id=str(uuid.uuid4()),
        at=now,
        query_id=view.query_id,
        app=view.app,
        name=view.name,
        policy=query.policy.name,
        mode=query.policy.mode.value,
        trigger=query.status.value,
        decision=decision.kind,
        code=decision.code,
        why=decision.why,
        run_id=query.run_id,
        condition=query.condition,
        trouble_since=query.since,
        inputs=inputs,
        outcome=DecisionOutcome.OPEN if decision.kind in _JUDGED else None,
    )


def _hold(query: TroubledQuery, decision: RestartDecision, now: float) -> RestartHold | None:
    """What the page shows and the rules alert on: a policy that acts has given up."""
    if not query.policy.acts or decision.kind is not DecisionKind.PAGE:
        return None
    known = query.view.supervised.hold
    same = known is not None and known.code == decision.code and known.policy == query.policy.name
    since = known.since if same and known is not None else now
    return RestartHold(query.policy.name, decision.code, decision.why, since)
