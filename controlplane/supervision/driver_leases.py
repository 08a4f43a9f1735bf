"""Restart leases of drivers: sends each agent what it may decide, and writes what it decided into the ledger.

A query is its driver's to decide while the driver may hold a lease of it: from when the lease is sent until a document
without it is acknowledged, or it has expired by the server's clock. Until then the supervisor waits. A run that the driver
declines is the server's at once. Leases are commands that are not stored: after a restart of the server, or a take-over,
every agent counts as holding them until it has acknowledged new ones.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from controlplane.errors import NotFound
from controlplane.model import Action, ActionState, Agent, QueryView
from controlplane.supervision.book import PolicyBook
from controlplane.supervision.driver_grants import (
    BY_DRIVER,
    LEASE_SECONDS,
    RENEW_SECONDS,
    Grant,
    grant,
    may_grant,
    retry_names,
    takes_leases,
)
from controlplane.supervision.policies import RetryClass
from controlplane.supervision_model import DecisionKind, DecisionOutcome, LedgerEntry
from listeners.protocol import wire
from listeners.protocol.wire import CommandResult, Event

log = logging.getLogger(__name__)
#: A poll's answer that is older than this is dropped by the agent (`listeners.commands.command_poller.is_fresh`).
DELIVERY_SECONDS = 60.0
MAX_COMMANDS = 10_000
EVENTS = frozenset({"restart_decision", "restart_result"})


class LeasedViews(Protocol):
    """The part of `controlplane.events.window.Window` that the leases use."""

    def view(self, query_id: str) -> QueryView | None: ...

    def views(self) -> list[QueryView]: ...

    def agent(self, agent: str) -> Agent | None: ...

    def agent_info(self, agent: str) -> Mapping[str, Any]: ...


class Commands(Protocol):
    """The part of `controlplane.actions.outbox.Outbox` that sends leases."""

    def put(self, action: Action) -> None: ...


@dataclass
class _Sent:
    """The newest document of an agent. `holds`: until when the agent may hold a query's lease.

    `known`: the agent has acknowledged a document of this server, so it holds no other server's.
    """

    command: Action
    at: float
    known: bool = False
    holds: dict[str, float] = field(default_factory=dict)


class DriverLeases:
    """What drivers may decide. `tick` runs in one thread at a time; the rest is thread-safe."""

    def __init__(self, book: PolicyBook, window: LeasedViews, outbox: Commands, clock: Callable[[], float]):
        self._book, self._window, self._outbox, self._clock = book, window, outbox, clock
        self._lock = threading.Lock()
        self._began = clock()
        self._granted: dict[str, dict[str, Grant]] = {}  # agent -> query -> grant
        self._agent_of: dict[str, str] = {}
        self._sent: dict[str, _Sent] = {}
        self._declined: dict[str, str] = {}  # query -> the run that its driver left to the server
        self._reported: list[Event] = []
        self._ids: dict[str, Action] = {}  # commands by id
        #: Called with the queries that the server decides about from now on.
        self.on_release: Callable[[Iterable[str]], object] = lambda query_ids: None

    def begin(self) -> None:
        """Take over from another server: what it has granted is unknown."""
        self._began = self._clock()

    def until(self, view: QueryView, now: float) -> float | None:
        """Until when the driver may decide about the newest run; None where the server decides."""
        agent, run = view.agent, view.run
        if agent is None or run is None or self._declined.get(view.query_id) == run.run_id:
            return None
        if not takes_leases(self._window.agent_info(agent.agent)):
            return None
        with self._lock:
            sent = self._sent.get(agent.agent)
            until = sent.holds.get(view.query_id, 0.0) if sent is not None else 0.0
            unknown = sent is None or not sent.known
        if unknown and agent.first_seen_at < self._began and self._is_in_driver(view):
            until = max(until, self._began + LEASE_SECONDS + DELIVERY_SECONDS)
        return until if until > now else None

    def review(self, query_ids: Iterable[str]) -> None:
        """Grant, change or withdraw the leases of queries that changed, and send what is new or due."""
        now, changed = self._clock(), set()
        for query_id in query_ids:
            changed |= self._review(query_id, now)
        due = [a for a, sent in self._sent.items() if self._granted.get(a) and now - sent.at >= RENEW_SECONDS]
        for agent in due:
            for query_id in list(self._granted.get(agent, {})):
                self._review(query_id, now)
        for agent in changed.union(due):
            self._send(agent, now)

    def on_events(self, events: Iterable[Event]) -> None:
        """Note what drivers have decided; the next tick writes it into the ledger."""
        found = [event for event in events if event.type in EVENTS]
        if found:
            with self._lock:
                self._reported += found

    def take_reports(self) -> list[Event]:
        """The events that are not in the ledger yet."""
        with self._lock:
            reported, self._reported = self._reported, []
        return reported

    def is_lease(self, id: str) -> bool:
        """Whether a command is that of a lease, also of one that a newer one has replaced."""
        return id in self._ids

    def answer(self, id: str, result: CommandResult, app: str | None) -> Action:
        """Apply an agent's acknowledgement: it holds this document and no other. NotFound for another command."""
        now = self._clock()
        with self._lock:
            command = self._ids.get(id)
            if command is None or app not in (None, command.app):
                raise NotFound(f"there is no lease {id}")
            sent = self._sent.get(command.agent or "")
            if sent is None or sent.command.id != id or result.state != "succeeded":
                return command
            sent.known = True
            released = sent.holds.keys() - command.overrides["queries"].keys()
            sent.holds = dict.fromkeys(command.overrides["queries"], now + LEASE_SECONDS)
        self._outbox.put(replace(command, state=ActionState.SUCCEEDED))
        self.on_release(released)
        return command

    def entry_of(self, event: Event, version: int) -> LedgerEntry | None:
        """A driver's decision as an entry of the ledger; None for a run that it leaves to the server."""
        data, view = event.data, self._window.view(str(event.data.get("id")))
        if view is None:
            return None
        acted = bool(data.get("acted"))
        if not acted:
            self._declined[view.query_id] = str(data.get("runId"))
        if data.get("decision") != DecisionKind.RESTART.value:
            return None
        condition, ago = str(data.get("condition") or "unknown")[:200], data.get("failedSecondsAgo")
        return LedgerEntry(
            id=str(data.get("decisionId"))[:64],
            at=event.at,
            query_id=view.query_id,
            app=view.app,
            name=view.name,
            policy=str(data.get("policy"))[:200],
            mode="act" if acted else "observe",
            trigger="failed",
            decision=DecisionKind.RESTART,
            code="due",
            why=f"Restart in the driver after {condition}, under the policy's lease.",
            acted=acted,
            run_id=str(data.get("runId"))[:64],
            condition=condition,
            trouble_since=event.at - float(ago if isinstance(ago, int | float) else 0.0),
            inputs={
                "version": version,
                "by": BY_DRIVER,
                "retry": RetryClass.NOW.value,
                "agent": event.agent,
                "number": int(data.get("number") or 0),
                "lease": data.get("lease"),
            },
            outcome=DecisionOutcome.OPEN,
        )

    def with_result(self, entry: LedgerEntry, data: Mapping[str, Any]) -> LedgerEntry:
        """The entry with the result of the driver's start. Where that failed, the server decides about the run."""
        if data.get("state") == "succeeded":
            return replace(entry, inputs={**entry.inputs, "started_run": str(data.get("startedRun"))[:64]})
        self._declined[entry.query_id] = entry.run_id or ""
        reason = str(data.get("reason") or data.get("code") or "The driver could not start it.")[:1000]
        inputs = {**entry.inputs, "refused": str(data.get("code") or "refused")[:64]}
        outcome = DecisionOutcome.FAILED_AGAIN
        return replace(entry, inputs=inputs, outcome=outcome, outcome_at=self._clock(), outcome_why=reason)

    # -- what is granted ------------------------------------------------------------------------------

    def _is_in_driver(self, view: QueryView) -> bool:
        policy = self._book.of(view)
        return policy is not None and policy.restart.in_driver

    def _review(self, query_id: str, now: float) -> set[str]:
        """Compute a query's grant anew; the agents whose documents change with it."""
        view = self._window.view(query_id)
        agent = view.agent.agent if view is not None and view.agent is not None else None
        before = self._agent_of.get(query_id)
        found = self._grant(view, now) if view is not None else None
        changed = set()
        if before is not None and (before != agent or found is None):
            self._granted.get(before, {}).pop(query_id, None)
            del self._agent_of[query_id]
            changed.add(before)
        if agent is not None and found is not None:
            known = self._granted.setdefault(agent, {})
            if known.get(query_id) != found:
                changed.add(agent)
            known[query_id], self._agent_of[query_id] = found, agent
        if view is not None and agent is not None and agent not in self._sent and self._is_in_driver(view):
            changed.add(agent)  # an empty document ends what another server has granted
        return changed

    def _grant(self, view: QueryView, now: float) -> Grant | None:
        """The lease of a query. A run that has failed keeps it only where this server has granted it before."""
        policy, agent = self._book.of(view), view.agent
        if agent is None or agent.ended_at is not None or policy is None or not may_grant(view, policy):
            return None
        if not takes_leases(self._window.agent_info(agent.agent)):
            return None
        runs = view.run is not None and view.run.ended_at is None
        granted = view.query_id in self._granted.get(agent.agent, {})
        if not runs and (not granted or self.until(view, now) is None):
            return None
        budget = policy.restart.budget
        history = self._book.history_of(view.query_id, now - 7 * 86400.0 - budget.reset_seconds)
        return grant(view, policy, history, self._book.document.version, now)

    def _send(self, agent: str, now: float) -> None:
        known = self._window.agent(agent)
        queries = self._granted.get(agent, {})
        with self._lock:
            sent = self._sent.get(agent)
            if known is None or known.ended_at is not None:
                self._drop(agent, sent)
                return
            if not takes_leases(self._window.agent_info(agent)):
                return
            document = {
                "seconds": LEASE_SECONDS,
                "queries": dict(queries),
                "retry": retry_names(self._book.policies.conditions),
            }
            command = _command(known, document, now)
            until = now + DELIVERY_SECONDS + LEASE_SECONDS
            holds = {**(sent.holds if sent is not None else {}), **dict.fromkeys(queries, until)}
            if sent is not None:
                self._outbox.put(replace(sent.command, state=ActionState.EXPIRED))
            self._ids[command.id] = command
            while len(self._ids) > MAX_COMMANDS:
                del self._ids[next(iter(self._ids))]
            self._sent[agent] = _Sent(command, now, sent is not None and sent.known, holds)
        self._outbox.put(command)

    def _drop(self, agent: str, sent: _Sent | None) -> None:
        self._granted.pop(agent, None)
        if sent is not None:
            self._outbox.put(replace(sent.command, state=ActionState.EXPIRED))
            del self._sent[agent]


def _command(agent: Agent, document: Mapping[str, Any], now: float) -> Action:
    """The leases of an agent as a command for the outbox; it is not recorded as an action."""
    return Action(
        id=str(uuid.uuid4()),
        query_id=next(iter(document["queries"]), "none"),
        app=agent.app,
        name=None,
        action=wire.LEASE,
        actor="supervisor",
        state=ActionState.REQUESTED,
        requested_at=now,
        deadline_at=now + LEASE_SECONDS,
        overrides=document,
        agent=agent.agent,
    )
