"""Leases of drivers on the server: when the driver decides, when the server does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controlplane.errors import NotFound
from controlplane.model import Action, ActionState, Agent, QueryView, Run, RunEnd
from controlplane.supervision import policy_file
from controlplane.supervision.driver_grants import LEASE_SECONDS
from controlplane.supervision.driver_leases import DELIVERY_SECONDS, DriverLeases
from controlplane.supervision.policies import Policy, PolicySet
from controlplane.supervision_model import Desired, DesiredState, LedgerEntry, Supervised
from listeners.protocol import wire
from listeners.protocol.wire import CommandResult, Event

NOW = 1_000_000.0
TEXT = "policies: [{name: p, mode: act, restart: {in_driver: true}}]"
AGENT = Agent(1, "a1", "shop", first_seen_at=NOW - 500, last_seen_at=NOW)
RUNNING = QueryView("q", "shop", "orders", {}, NOW - 500, AGENT, Run(1, "r1", "q", "a1", NOW - 400))
FAILED = replace(RUNNING, run=Run(1, "r1", "q", "a1", NOW - 400, NOW, RunEnd.FAILED))
DONE = CommandResult("succeeded")


class World:
    """The book, the window and the outbox of the leases."""

    def __init__(self, text: str = TEXT, began: float = NOW - 600) -> None:
        policies, mistakes = policy_file.load(text)
        assert policies is not None, mistakes
        self.policies: PolicySet = policies
        self.document = type("Document", (), {"version": 3})()
        self.current, self.now, self.sent = RUNNING, began, list[Action]()
        self.info: dict[str, Any] = {"app_started": {"leases": 1}}
        self.leases = DriverLeases(self, self, self, lambda: self.now)  # type: ignore[arg-type]
        self.now = NOW
        self.released: list[str] = []
        self.leases.on_release = self.released.extend

    def of(self, view: QueryView) -> Policy | None:
        return self.policies.of({})

    def history_of(self, query_id: str, since: float) -> list[LedgerEntry]:
        return []

    def view(self, query_id: str) -> QueryView | None:
        return self.current

    def views(self) -> list[QueryView]:
        return [self.current]

    def agent(self, agent: str) -> Agent | None:
        return self.current.agent

    def agent_info(self, agent: str) -> dict[str, Any]:
        return self.info

    def put(self, action: Action) -> None:
        if action.state is ActionState.REQUESTED:
            self.sent.append(action)

    def look(self, view: QueryView) -> set[str]:
        """Review a query as the supervisor does; the queries of the newest document."""
        self.current = view
        self.leases.review(["q"])
        return set(self.sent[-1].overrides["queries"]) if self.sent else set()


def test_the_driver_decides_from_when_a_lease_is_sent_until_its_withdrawal_is_acknowledged() -> None:
    world = World()
    assert world.look(RUNNING) == {"q"}
    assert world.leases.until(RUNNING, NOW) == NOW + LEASE_SECONDS + DELIVERY_SECONDS
    first = world.sent[-1]
    assert (first.action, first.agent, first.overrides["queries"]["q"]["left"]) == (wire.LEASE, "a1", 5)
    world.leases.answer(first.id, DONE, None)
    assert world.leases.until(FAILED, NOW) == NOW + LEASE_SECONDS
    assert world.look(FAILED) == {"q"} and world.sent[-1] is first  # unchanged: not sent again
    stopped = replace(FAILED, supervised=Supervised(Desired("q", DesiredState.STOPPED, "ada", NOW)))
    assert world.look(stopped) == set()
    assert world.leases.until(stopped, NOW) is not None and world.released == []
    world.leases.answer(first.id, DONE, None)  # repeated: not that of the withdrawal
    assert world.leases.until(stopped, NOW) is not None
    world.leases.answer(world.sent[-1].id, DONE, None)
    assert world.leases.until(stopped, NOW) is None and world.released == ["q"]
    with pytest.raises(NotFound):
        world.leases.answer("nothing", DONE, None)


def test_a_query_that_failed_without_a_lease_is_the_servers() -> None:
    world = World(began=NOW - 10)
    assert world.look(FAILED) == set() and world.leases.until(FAILED, NOW + 1) is not None
    world.leases.answer(world.sent[-1].id, DONE, None)  # the empty document ends what another server granted
    assert world.leases.until(FAILED, NOW + 1) is None


def test_a_new_server_waits_for_what_another_one_may_have_granted() -> None:
    world = World(began=NOW - 10)
    until = NOW - 10 + LEASE_SECONDS + DELIVERY_SECONDS
    assert world.leases.until(FAILED, NOW) == until
    assert world.leases.until(FAILED, until) is None
    young = replace(FAILED, agent=replace(AGENT, first_seen_at=NOW - 5))
    assert world.leases.until(young, NOW) is None


def test_a_run_that_the_driver_declines_is_the_servers_and_a_restart_is_an_entry() -> None:
    world = World()
    world.look(RUNNING)
    data = {"id": "q", "runId": "r0", "decisionId": "d1", "decision": "restart", "acted": True, "number": 1}
    report = {**data, "policy": "p", "condition": "connection", "failedSecondsAgo": 5.0}
    event = Event("a1", 9, NOW, wire.App("shop"), "restart_decision", report)
    entry = world.leases.entry_of(event, 3)
    assert entry is not None and (entry.acted, entry.mode, entry.run_id) == (True, "act", "r0")
    assert (entry.trouble_since, entry.inputs["by"]) == (NOW - 5.0, "driver")
    assert world.leases.until(FAILED, NOW) is not None
    declined = {**report, "runId": "r1", "decision": "decline", "acted": False}
    assert world.leases.entry_of(replace(event, data=declined), 3) is None
    assert world.leases.until(FAILED, NOW) is None
    refused = world.leases.with_result(entry, {"state": "refused", "code": "needs_factory", "reason": "no"})
    assert refused.inputs["refused"] == "needs_factory" and refused.outcome_why == "no"
    started = world.leases.with_result(entry, {"state": "succeeded", "startedRun": "r2"})
    assert started.inputs["started_run"] == "r2" and started.is_open


@pytest.mark.parametrize(
    ("text", "info"),
    [
        (TEXT.replace("in_driver: true", "in_driver: false"), {"app_started": {"leases": 1}}),
        (TEXT.replace("in_driver: true", "in_driver: true, checkpoint: ok"), {"app_started": {"leases": 1}}),
        (TEXT, {"app_started": {}}),
    ],
    ids=["policy", "checkpoint", "old agent"],
)
def test_no_lease_is_granted(text: str, info: dict[str, Any]) -> None:
    world = World(text)
    world.info = info
    assert world.look(RUNNING) == set()
