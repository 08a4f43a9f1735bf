"""Tests of carrying out restart policies: the ledger comes first, and a failed attempt counts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from controlplane.apps.crash_loops import CrashLoops
from controlplane.apps.model import (
    AppAction,
    AppActionState,
    AppSpec,
    DriverPhase,
    DriverStatus,
    NewAppAction,
    StartedDriver,
)
from controlplane.apps.policy_restarts import PolicyRestarts
from controlplane.errors import Conflict
from controlplane.supervision.policies import Policy, PolicyMode, PolicySet, RestartRule, RetryDelay
from controlplane.supervision_model import DecisionKind, DecisionOutcome, LedgerEntry

POLICY = Policy("payments", mode=PolicyMode.ACT, restart=RestartRule(delay=RetryDelay(0.0)))
#: The drivers here have no record of their version.
NO_LOOPS = CrashLoops(None, lambda driver, at: None, lambda: 100.0)  # type: ignore[arg-type]
ENDED = DriverStatus(DriverPhase.ENDED, "It ended.")
DRIVER = StartedDriver("billing", "l1", "process", {}, "1", 1.0, "ada", {}, 50.0, "It ended.")


@dataclass
class Ledger:
    """The ledger, and the requests of starts; `state` is the next one's outcome, None refuses it."""

    policies: PolicySet = field(default_factory=lambda: PolicySet((POLICY,)))
    entries: dict[str, LedgerEntry] = field(default_factory=dict)
    requests: list[NewAppAction] = field(default_factory=list)
    state: AppActionState | None = AppActionState.SUCCEEDED

    def history_of(self, query_id: str, since: float) -> list[LedgerEntry]:
        return [entry for entry in self.entries.values() if entry.query_id == query_id]

    def add(self, entry: LedgerEntry) -> None:
        self.entries[entry.id] = entry

    change = add

    def request(self, app: str, wanted: NewAppAction) -> tuple[AppAction, bool]:
        assert self.last.acted, "the decision is stored before it is carried out"
        self.requests.append(wanted)
        if self.state is None:
            raise Conflict("ada set the desired state to stopped")
        return AppAction("a1", app, "start", wanted.actor, "t", 1.0, state=self.state, reason="No."), True

    @property
    def last(self) -> LedgerEntry:
        return list(self.entries.values())[-1]

    def consider(self, policy: Policy = POLICY, wanted: bool = True, driver: StartedDriver = DRIVER) -> None:
        restarts = PolicyRestarts(self, self.request, lambda driver, status: None, lambda: 100.0, NO_LOOPS)
        restarts.consider(policy, driver, ENDED, wanted, 0.0, {})


def test_an_ended_driver_is_started_in_the_name_of_the_policy() -> None:
    ledger = Ledger()
    ledger.consider()
    (wanted,) = ledger.requests
    assert (wanted.action, wanted.actor, wanted.by_policy, wanted.force) == (
        "start",
        "policy:payments",
        True,
        False,
    )
    assert (ledger.last.acted, ledger.last.action_id, ledger.last.is_open) == (True, "a1", True)


def test_what_is_not_wanted_or_runs_is_left_alone() -> None:
    ledger = Ledger()
    ledger.consider(wanted=False)
    ledger.consider(driver=replace(DRIVER, ended_at=None))
    ledger.consider(replace(POLICY, mode=PolicyMode.OBSERVE))
    assert ledger.requests == []
    assert [entry.decision for entry in ledger.entries.values()] == [DecisionKind.RESTART]


def test_a_failed_attempt_is_an_outcome() -> None:
    for state, why in ((AppActionState.FAILED, "No."), (None, "ada set the desired state to stopped")):
        ledger = Ledger(state=state)
        ledger.consider()
        assert (ledger.last.outcome, ledger.last.outcome_why) == (DecisionOutcome.FAILED_AGAIN, why)


def test_the_policy_is_found_by_name() -> None:
    ledger = Ledger()
    restarts = PolicyRestarts(ledger, ledger.request, lambda driver, status: None, lambda: 1.0, NO_LOOPS)
    spec = AppSpec("billing", "process", {})
    assert restarts.policy_of(spec) is None
    assert restarts.policy_of(replace(spec, policy="payments")) is POLICY
    assert restarts.policy_of(replace(spec, policy="gone")) is None
