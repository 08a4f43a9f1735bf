"""Tests of restart policies for ended drivers: back-off, budget, observe, and a person's word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from controlplane.apps.model import DriverPhase, DriverStatus, StartedDriver
from controlplane.apps.restarts import RECOVERED_SECONDS, EndedDriver, decide, settle
from controlplane.supervision.policies import Policy, PolicyMode, RestartBudget, RestartRule, RetryDelay
from controlplane.supervision_model import DecisionKind, DecisionOutcome, LedgerEntry

RULE = RestartRule(delay=RetryDelay(10.0, 2.0, 60.0, 0.0), budget=RestartBudget(3, 3600.0, 600.0))
ACT = Policy("payments", mode=PolicyMode.ACT, restart=RULE)
RUNNING = DriverStatus(DriverPhase.RUNNING, "Process 7 runs.")


def driver(number: int, started_at: float, ended_at: float | None = None) -> StartedDriver:
    return StartedDriver(
        "billing", f"l{number}", "process", {}, "1", started_at, "ada", {}, ended_at, "It ended."
    )


@dataclass
class SimulatedApp:
    """An application under a policy on a clock of its own. `run_lengths`: how long each driver runs."""

    policy: Policy = ACT
    history: list[LedgerEntry] = field(default_factory=list)
    now: float = 0.0
    started: int = 0

    def seconds(self, run_lengths: list[float], until: float) -> Iterator[DecisionKind]:
        """Tick each second; the decisions that are recorded."""
        lengths = iter(run_lengths)
        current = driver(0, 0.0, next(lengths))
        while self.now < until:
            self.now += 1.0
            seen = current if (current.ended_at or 0.0) <= self.now else replace(current, ended_at=None)
            self.history = [settle(e, seen, RUNNING, self.now) or e for e in self.history]
            if seen.ended_at is None:
                continue
            entry = decide(EndedDriver(seen, seen.ended_at, self.policy, self.history), self.now)
            if entry is None:
                continue
            yield entry.decision
            if entry.decision is DecisionKind.RESTART and self.policy.acts:
                self.started += 1
                entry = replace(entry, acted=True)
                current = driver(self.started, self.now, self.now + next(lengths, 10_000.0))
            self.history.append(entry)

    def times(self) -> list[float]:
        return [entry.at for entry in self.history if entry.decision is DecisionKind.RESTART]


def test_a_crash_loop_backs_off_then_stands_still() -> None:
    simulated = SimulatedApp()
    decided = list(simulated.seconds([5.0] * 9, 4000.0))
    assert simulated.times() == [15.0, 40.0, 85.0]  # 10, 20 and 40 s after each end
    assert decided.count(DecisionKind.PAGE) == 1
    assert decided[-1] is DecisionKind.PAGE
    assert [e.outcome for e in simulated.history if e.acted] == [DecisionOutcome.FAILED_AGAIN] * 3


def test_a_healthy_time_gives_the_budget_back() -> None:
    simulated = SimulatedApp()
    list(simulated.seconds([5.0, 900.0, 5.0], 3000.0))
    assert simulated.times() == [15.0, 925.0, 950.0]
    assert simulated.history[1].outcome is DecisionOutcome.RECOVERED
    assert simulated.history[1].outcome_at == 15.0 + RECOVERED_SECONDS


def test_observe_records_one_restart_and_does_nothing() -> None:
    simulated = SimulatedApp(replace(ACT, mode=PolicyMode.OBSERVE))
    assert list(simulated.seconds([5.0], 300.0)) == [DecisionKind.WAIT, DecisionKind.RESTART]
    assert simulated.started == 0
    (entry,) = [e for e in simulated.history if e.decision is DecisionKind.RESTART]
    person = settle(entry, driver(9, 200.0), RUNNING, 300.0)
    assert person is not None
    assert person.outcome is DecisionOutcome.RECOVERED_WITHOUT_US


def test_a_driver_that_may_live_is_held_and_recorded_once() -> None:
    ended = EndedDriver(driver(0, 0.0, 5.0), 5.0, ACT, refusal="Another driver may still run.")
    held = decide(ended, 100.0)
    assert held is not None
    assert (held.decision, held.code) == (DecisionKind.HOLD, "driver_may_live")
    assert decide(replace(ended, history=[held]), 105.0) is None
    due = decide(replace(ended, history=[held], refusal=None), 110.0)
    assert due is not None
    assert due.decision is DecisionKind.RESTART


@pytest.mark.parametrize(("person_at", "stands_still"), [(50.0, True), (200.0, False)])
def test_after_a_page_a_person_decides(person_at: float, stands_still: bool) -> None:
    page = LedgerEntry("1", 100.0, "app:billing", "billing", None, "payments", "act", "driver_ended",
                       DecisionKind.PAGE, "budget_spent", "Spent.", run_id="l0")  # fmt: skip
    ended = EndedDriver(driver(1, 200.0, 210.0), 210.0, ACT, [page], person_at=person_at)
    assert (decide(ended, 300.0) is None) == stands_still
