"""Apply the restart policies of applications: read the ledger, decide, request the start, fill in outcomes.

Called by `controlplane.apps.service` for every application with a policy at each tick; decides by
`controlplane.apps.restarts`. Each decision is in the ledger before it is carried out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from controlplane.apps import restarts
from controlplane.apps.crash_loops import CrashLoops
from controlplane.apps.model import (
    AppAction,
    AppActionState,
    AppSpec,
    DriverStatus,
    NewAppAction,
    StartedDriver,
)
from controlplane.errors import ControlPlaneError
from controlplane.supervision.policies import Policy, PolicySet
from controlplane.supervision_model import DecisionKind, DecisionOutcome, LedgerEntry

log = logging.getLogger(__name__)
HISTORY_SECONDS = 7 * 86400.0
POLICY_ACTOR, VIA = "policy:", "policy"
Request = Callable[[str, NewAppAction], tuple[AppAction, bool]]


class PolicyLedger(Protocol):
    """The part of `controlplane.supervision.book.PolicyBook` that is used here."""

    policies: PolicySet

    def history_of(self, query_id: str, since: float) -> list[LedgerEntry]: ...

    def add(self, entry: LedgerEntry) -> None: ...

    def change(self, entry: LedgerEntry) -> None: ...


class PolicyRestarts:
    """The policies of applications. `refusal`: why a start of an app is not safe now."""

    def __init__(
        self,
        ledger: PolicyLedger,
        request: Request,
        refusal: Callable[[StartedDriver, DriverStatus], str | None],
        clock: Callable[[], float],
        loops: CrashLoops,
    ):
        self._ledger, self._request, self._refusal, self._clock = ledger, request, refusal, clock
        self._loops = loops
        #: The policy that starts an application no more, by application.
        self.given_up: dict[str, str] = {}

    def policy_of(self, spec: AppSpec) -> Policy | None:
        """The policy that an application names, if it is in force."""
        found = (policy for policy in self._ledger.policies.policies if policy.name == spec.policy)
        return next(found, None) if spec.policy else None

    def consider(
        self,
        policy: Policy,
        driver: StartedDriver,
        status: DriverStatus,
        wanted: bool,
        person_at: float,
        declared: Mapping[str, Any],
    ) -> None:
        """Fill in outcomes; if the driver has ended and is `wanted`, decide and carry the decision out.

        `declared`: the specification in force, see `AppSpec.to_json`.
        """
        now, app = self._clock(), driver.app
        budget = policy.restart.budget
        since = now - max(HISTORY_SECONDS, budget.seconds + budget.reset_seconds)
        history = [self._settled(entry, driver, status, now) for entry in self._history(app, since)]
        if not wanted or driver.ended_at is None:
            self.given_up.pop(app, None)
            self._loops.note_health(policy, driver, status)
            return
        refusal = self._refusal(driver, status)
        ended = restarts.EndedDriver(driver, driver.ended_at, policy, history, refusal, person_at)
        if not restarts.is_given_up(history, person_at):
            ended = replace(ended, loop=self._loops.loop_of(ended, declared, now))
        entry = self._decided(ended, now)
        self._note(policy, app, restarts.is_given_up(history if entry is None else [entry], person_at))
        if entry is None:
            return
        self._ledger.add(entry)
        log.info("%s: policy %s decides %s: %s", app, policy.name, entry.decision, entry.why)
        if entry.decision is DecisionKind.RESTART and policy.acts:
            rolled_back = ended.loop if entry.code == restarts.ROLLBACK else None
            self._carry_out(entry, rolled_back.fingerprint if rolled_back is not None else None)

    def _decided(self, ended: restarts.EndedDriver, now: float) -> LedgerEntry | None:
        """The entry to add. The doctor is asked only once a rollback is due."""
        entry = restarts.decide(ended, now)
        if entry is None or ended.loop is None or entry.code != restarts.ROLLBACK:
            return entry
        checked = self._loops.checked(ended.loop, ended.driver)
        return restarts.decide(replace(ended, loop=checked), now)

    def _note(self, policy: Policy, app: str, given_up: bool) -> None:
        if given_up and policy.acts:
            self.given_up[app] = policy.name
        else:
            self.given_up.pop(app, None)

    def _history(self, app: str, since: float) -> list[LedgerEntry]:
        return self._ledger.history_of(restarts.ledger_id(app), since)

    def _settled(
        self, entry: LedgerEntry, driver: StartedDriver, status: DriverStatus, now: float
    ) -> LedgerEntry:
        settled = restarts.settle(entry, driver, status, now)
        if settled is None:
            return entry
        self._ledger.change(settled)
        return settled

    def _carry_out(self, entry: LedgerEntry, rollback_of: str | None) -> None:
        actor = f"{POLICY_ACTOR}{entry.policy}"
        wanted = NewAppAction("start", actor, VIA, entry.why, by_policy=True, rollback_of=rollback_of)
        tried = replace(entry, acted=True)
        self._ledger.change(tried)  # an attempt counts, whatever becomes of the request
        try:
            action, _ = self._request(entry.app, wanted)
        except ControlPlaneError as error:
            self._fail(tried, str(error))
            return
        if action.state in (AppActionState.FAILED, AppActionState.REFUSED):
            self._fail(replace(tried, action_id=action.id), action.reason)
        else:
            self._ledger.change(replace(tried, action_id=action.id))

    def _fail(self, entry: LedgerEntry, why: str) -> None:
        failed = DecisionOutcome.FAILED_AGAIN
        self._ledger.change(replace(entry, outcome=failed, outcome_at=self._clock(), outcome_why=why))
