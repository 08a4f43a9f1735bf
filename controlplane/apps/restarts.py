"""Decide whether the ended driver of an application is started again by its restart policy. Pure.

The policy's back-off, budget and windows count the application's own entries of the ledger, whose query id is
`app:NAME`. A person's word comes first: a stopped application is left alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from controlplane.apps.model import DriverPhase, DriverStatus, StartedDriver
from controlplane.health.formatting import clock, span
from controlplane.query_names import APP_PREFIX
from controlplane.supervision import retries
from controlplane.supervision.policies import Policy
from controlplane.supervision_model import DecisionKind, DecisionOutcome, LedgerEntry

#: A driver that has run for this long has recovered.
RECOVERED_SECONDS = 60.0
TRIGGER, CONDITION = "driver_ended", "driver_ended"
#: The code of a restart that starts the last healthy version.
ROLLBACK = "rollback"
_JUDGED = (DecisionKind.RESTART, DecisionKind.PAGE)


@dataclass(frozen=True)
class CrashLoop:
    """Drivers of a version that was never healthy end one after the other. `fingerprint`: of that version.

    `cause`: a sentence. `rolls_back`: whether the policy puts the application back; `refusal`: why it cannot now;
    `waiting`: for the doctor.
    """

    fingerprint: str
    cause: str
    rolls_back: bool = False
    refusal: str | None = None
    waiting: bool = False


@dataclass(frozen=True)
class EndedDriver:
    """A driver that has ended although its application is to run. `history`: the ledger's entries, oldest first.

    `refusal`: why a start is not safe. `person_at`: when a person last said that it is to run. `loop`: the crash loop that
    the driver belongs to.
    """

    driver: StartedDriver
    ended_at: float
    policy: Policy
    history: Sequence[LedgerEntry] = ()
    refusal: str | None = None
    person_at: float = 0.0
    loop: CrashLoop | None = None

    @property
    def restarts(self) -> list[LedgerEntry]:
        """The earlier restarts that count."""
        done = retries.restarts_of(self.history, self.policy.mode)
        return retries.counted(done, self.policy.restart.budget, self.ended_at, self.person_at)


def ledger_id(app: str) -> str:
    """What the ledger has as the query id of an application's entries."""
    return f"{APP_PREFIX}{app}"


def decide(ended: EndedDriver, now: float) -> LedgerEntry | None:
    """The entry to add to the ledger; None while there is nothing to do, or no news. RESTART is to be carried out."""
    found = _decision(ended, now)
    if found is None or _is_repeated(ended, found):
        return None
    return found


def is_given_up(history: Sequence[LedgerEntry], person_at: float) -> bool:
    """Whether the last decision was to page, and no person has asked for a start since."""
    return bool(history) and history[-1].decision is DecisionKind.PAGE and history[-1].at >= person_at


def _decision(ended: EndedDriver, now: float) -> LedgerEntry | None:
    rule, restarts = ended.policy.restart, ended.restarts
    if is_given_up(ended.history, ended.person_at):
        return None  # after a page a person decides
    if not ended.policy.acts and restarts and restarts[-1].run_id == ended.driver.launch_id:
        return None  # what a second restart would do cannot be known
    used = retries.spent(restarts, rule.budget, now)
    if used >= rule.budget.restarts:
        why = f"The budget of policy {ended.policy.name} is spent: {used} restarts in {span(rule.budget.seconds)}."
        why += f" {ended.loop.cause}" if ended.loop is not None else ""
        return _entry(ended, now, DecisionKind.PAGE, "budget_spent", why)
    if ended.refusal is not None:
        return _entry(ended, now, DecisionKind.HOLD, "driver_may_live", ended.refusal)
    if rule.windows.periods and not rule.windows.contains(now):
        why = "The policy restarts only in its time windows, and now is outside them."
        return _entry(ended, now, DecisionKind.HOLD, "outside_window", why)
    since = max([ended.ended_at, *(entry.at for entry in restarts[-1:])])
    due_at = since + retries.delay(rule.delay, len(restarts), ended.driver.app, retries.RetryClass.NOW)
    if due_at > now:
        why = f"Restart {len(restarts) + 1} is due at {clock(due_at, now)}."
        return _entry(ended, now, DecisionKind.WAIT, "backoff", why)
    why = f"Restart {used + 1} of {rule.budget.restarts} in {span(rule.budget.seconds)}: {ended.driver.end_reason}"
    return _of_loop(ended, now, why) or _entry(ended, now, DecisionKind.RESTART, "due", why)


def _of_loop(ended: EndedDriver, now: float, why: str) -> LedgerEntry | None:
    """The decision about a crash loop whose restart is due; None where there is no loop."""
    loop = ended.loop
    if loop is None:
        return None
    if loop.waiting:
        waits = "The rollback waits for the checkpoint check."
        return _entry(ended, now, DecisionKind.HOLD, "checkpoint_unknown", f"{loop.cause} {waits}")
    if loop.rolls_back and loop.refusal is None:
        back = "The last healthy version is started in its place."
        return _entry(ended, now, DecisionKind.RESTART, ROLLBACK, f"{why} {loop.cause} {back}")
    refused = f" It is not rolled back: {loop.refusal.rstrip('.')}." if loop.refusal else ""
    return _entry(ended, now, DecisionKind.RESTART, "due", f"{why} {loop.cause}{refused}")


def _is_repeated(ended: EndedDriver, found: LedgerEntry) -> bool:
    last = ended.history[-1] if ended.history else None
    if last is None or found.decision is DecisionKind.RESTART:
        return False
    return (last.run_id, last.code, last.mode) == (found.run_id, found.code, found.mode)


def _entry(ended: EndedDriver, now: float, kind: DecisionKind, code: str, why: str) -> LedgerEntry:
    driver = ended.driver
    return LedgerEntry(
        id=str(uuid.uuid4()),
        at=now,
        query_id=ledger_id(driver.app),
        app=driver.app,
        name=None,
        policy=ended.policy.name,
        mode=ended.policy.mode.value,
        trigger=TRIGGER,
        decision=kind,
        code=code,
        why=why,
        run_id=driver.launch_id,
        condition=CONDITION,
        trouble_since=ended.ended_at,
        inputs={"driver": driver.launch_id, "version": driver.version, "end": driver.end_reason},
        outcome=DecisionOutcome.OPEN if kind in _JUDGED else None,
    )


def settle(entry: LedgerEntry, driver: StartedDriver, status: DriverStatus, now: float) -> LedgerEntry | None:
    """The open entry with what became of it; None while that is not known."""
    if not entry.is_open or driver.launch_id == entry.run_id:
        return None
    if driver.ended_at is not None:
        reason = f"The next driver ended too: {driver.end_reason}"
        return replace(
            entry, outcome=DecisionOutcome.FAILED_AGAIN, outcome_at=driver.ended_at, outcome_why=reason
        )
    if status.phase is not DriverPhase.RUNNING or now - driver.started_at < RECOVERED_SECONDS:
        return None
    outcome = DecisionOutcome.RECOVERED if entry.acted else DecisionOutcome.RECOVERED_WITHOUT_US
    return replace(entry, outcome=outcome, outcome_at=now, outcome_why=status.reason)
