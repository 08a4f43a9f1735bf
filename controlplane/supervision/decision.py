"""The decision about one query in trouble: restart, wait, hold, page or nothing. Pure.

Each check returns a decision or None; the first that applies counts, and a query that passes all of them is restarted.
The action's own guards and the checkpoint gate apply afterwards (`controlplane.actions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.actions import guards
from controlplane.health.checkpoint_verdict import current
from controlplane.health.failures import headline
from controlplane.health.formatting import clock, span
from controlplane.incident_model import TrialState
from controlplane.model import Failure, QueryStatus, QueryView
from controlplane.supervision import retries
from controlplane.supervision.policies import Policy, RetryClass
from controlplane.supervision_model import DecisionKind, DesiredState, LedgerEntry

#: How soon a decision that waits for something else is made again, seconds.
WAIT_SECONDS = 5.0
HOLD_SECONDS = 60.0
#: The actor of an action that a policy requests: `policy:payments`.
POLICY_ACTOR = "policy:"
#: Codes of decisions that are no news: the trouble is too young, the restart was considered or is in progress.
TOO_YOUNG, OBSERVED, OWN_ACTION = "too_young", "observed", "own_action"
UNRECORDED = frozenset({TOO_YOUNG, OBSERVED, OWN_ACTION})
#: Refusals of an action that end by themselves.
TRANSIENT = frozenset({"action_in_progress", "already_running", "not_running", "desired_state"})


@dataclass(frozen=True)
class RestartLoad:
    """Restarts in progress, of the query's app and of the fleet."""

    app: int = 0
    fleet: int = 0


@dataclass(frozen=True)
class TroubledQuery:
    """A query whose status triggers a policy. `since`: when the status began. `vanished`: see `actions.guards`.

    `driver_until`: until when its driver may decide about it.
    `history`: the ledger's entries about it, oldest first. `failure`: of the status *failed*. `retry`: its class.
    """

    view: QueryView
    status: QueryStatus
    since: float
    policy: Policy
    history: Sequence[LedgerEntry] = ()
    failure: Failure | None = None
    retry: RetryClass = RetryClass.NOW
    load: RestartLoad = RestartLoad()
    version: int = 0
    vanished: bool = False
    driver_until: float | None = None

    @property
    def run_id(self) -> str | None:
        """The newest run, which is in trouble."""
        return self.view.run.run_id if self.view.run else None

    @property
    def condition(self) -> str:
        """The kind of failure, else the status."""
        return self.failure.kind if self.failure is not None else self.status.value

    @property
    def restarts(self) -> list[LedgerEntry]:
        """The earlier restarts that count."""
        desired = self.view.supervised.desired
        person_at = desired.at if desired is not None and desired.state is DesiredState.RUNNING else 0.0
        done = retries.restarts_of(self.history, self.policy.mode)
        return retries.counted(done, self.policy.restart.budget, self.since, person_at)


@dataclass(frozen=True)
class RestartDecision:
    """A decision with its reason for programs and people. `due_at`: when to decide again, if nothing changes before."""

    kind: DecisionKind
    code: str
    why: str
    due_at: float | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


Check = Callable[[TroubledQuery, float], RestartDecision | None]


def decide(query: TroubledQuery, now: float) -> RestartDecision:
    """Decide at `now`, Unix seconds."""
    return next((found for check in CHECKS if (found := check(query, now)) is not None), _restart(query, now))


def _not_wanted(query: TroubledQuery, now: float) -> RestartDecision | None:
    desired = query.view.supervised.desired
    if query.view.retired_at is not None:
        return RestartDecision(DecisionKind.NOTHING, "retired", "The query is retired.")
    if desired is None or desired.state is DesiredState.RUNNING:
        return None
    why = f"Its desired state is {desired.state}, set by {desired.actor} at {clock(desired.at, now)}."
    return RestartDecision(DecisionKind.NOTHING, "desired_state", why)


def _too_young(query: TroubledQuery, now: float) -> RestartDecision | None:
    trigger = query.policy.restart.trigger_of(query.status)
    due_at = query.since + (trigger.seconds if trigger else 0.0)
    if due_at <= now:
        return None
    why = f"It has been {query.status} for {span(now - query.since)}; the policy waits for {trigger}."
    return RestartDecision(DecisionKind.WAIT, TOO_YOUNG, why, due_at)


def _given_up(query: TroubledQuery, now: float) -> RestartDecision | None:
    """After a page a person decides: policies stand still until another run, another policy or a person's start."""
    last = query.history[-1] if query.history else None
    if last is None or last.decision is not DecisionKind.PAGE or last.run_id != query.run_id:
        return None
    if last.inputs.get("version") != query.version or last.policy != query.policy.name:
        return None
    desired = query.view.supervised.desired
    if desired is not None and desired.at > last.at:
        return None
    return RestartDecision(DecisionKind.PAGE, last.code, last.why)


def _action_open(query: TroubledQuery, now: float) -> RestartDecision | None:
    action = query.view.action
    if action is None or action.state.final:
        return None
    why = f"An action is in progress: the {action.action} by {action.actor}."
    code = OWN_ACTION if action.actor.startswith(POLICY_ACTOR) else "action_in_progress"
    return RestartDecision(DecisionKind.WAIT, code, why, now + WAIT_SECONDS)


def _cannot_help(query: TroubledQuery, now: float) -> RestartDecision | None:
    if query.retry is not RetryClass.NEVER or query.failure is None:
        return None
    why = f"A restart cannot help after {headline(query.failure).rstrip('.')}. {query.failure.advice}"
    return RestartDecision(DecisionKind.PAGE, "cannot_help", why)


def _no_driver(query: TroubledQuery, now: float) -> RestartDecision | None:
    refusal = guards.no_driver(query.view, query.view.agent.outage if query.view.agent else None)
    if refusal is None and query.status is QueryStatus.LOST and not query.vanished:
        why = "Its driver does not report. It may still run, so a second copy is not started."
        return RestartDecision(DecisionKind.HOLD, "no_contact", why, now + HOLD_SECONDS)
    if refusal is None:
        return None
    return RestartDecision(DecisionKind.HOLD, refusal.code, refusal.reason, now + HOLD_SECONDS)


def _refused(query: TroubledQuery, now: float) -> RestartDecision | None:
    """The last restart of this run was refused for a reason that does not end by itself."""
    last = next((e for e in reversed(query.history) if e.decision is DecisionKind.RESTART), None)
    if last is None or last.run_id != query.run_id or last.inputs.get("version") != query.version:
        return None
    code = str(last.inputs.get("refused") or "")
    why = f"The restart was refused: {last.outcome_why.rstrip('.')}."
    if code and code not in TRANSIENT:
        return RestartDecision(DecisionKind.PAGE, code, why)
    if not code or now - last.at >= HOLD_SECONDS:
        return None
    return RestartDecision(DecisionKind.WAIT, code, why, last.at + HOLD_SECONDS)


def _broken_checkpoint(query: TroubledQuery, now: float) -> RestartDecision | None:
    seen, run = current(query.view), query.view.run
    if seen is not None and run is not None and seen.taken_at < (run.ended_at or run.started_at):
        seen = None  # the gate takes a newer inventory before a start
    refusal = guards.predicted_failure(seen)
    if refusal is not None:
        return RestartDecision(
            DecisionKind.PAGE, refusal.code, f"Not restarted: {refusal.reason.rstrip('.')}."
        )
    if query.policy.restart.checkpoint != "ok" or (seen is not None and seen.verdict == "ok"):
        return None
    if seen is None:
        why = "The policy needs a checkpoint report, and there is none yet."
        return RestartDecision(DecisionKind.HOLD, "checkpoint_unknown", why, now + HOLD_SECONDS)
    why = f"The policy needs a checkpoint without findings; it is {seen.verdict}: {seen.summary.rstrip('.')}."
    return RestartDecision(DecisionKind.PAGE, "checkpoint_not_ok", why)


def _driver_decides(query: TroubledQuery, now: float) -> RestartDecision | None:
    """While the driver may hold a lease of the query, only the driver restarts it."""
    if query.driver_until is None or query.driver_until <= now:
        return None
    why = f"Its driver decides about it under the policy's lease, at most until {clock(query.driver_until, now)}."
    return RestartDecision(DecisionKind.WAIT, "driver_decides", why, query.driver_until)


def _in_incident(query: TroubledQuery, now: float) -> RestartDecision | None:
    """One query of an incident follows its policy as a trial; the others wait until a restart of it has helped."""
    incident = query.view.supervised.incident
    trial = incident.trial if incident is not None else None
    if incident is None or trial is None or trial.state is TrialState.HELPED:
        return None
    if trial.query_id == query.view.query_id or (query.policy.acts and not trial.acted):
        return None
    result = "its result is not known yet" if trial.state is TrialState.TRYING else "it failed again"
    why = f"One query of its incident was restarted as a trial, and {result}. {incident.sentence}"
    facts = {"incident": incident.id, "trial": trial.query_id}
    return RestartDecision(DecisionKind.HOLD, "incident", why, facts=facts)  # its change is noted


def _tried(query: TroubledQuery, now: float) -> RestartDecision | None:
    if query.retry not in (RetryClass.ONCE, RetryClass.UNKNOWN):
        return None
    before = retries.failed_before(query.restarts, query.condition)
    if before is None:
        return None
    kind = (
        "This failure is not in the catalogue"
        if query.retry is RetryClass.UNKNOWN
        else "One restart may help"
    )
    why = f"{kind}, and the restart at {clock(before.at, now)} failed the same way ({query.condition})."
    return RestartDecision(DecisionKind.PAGE, "tried_once", why)


def _budget_spent(query: TroubledQuery, now: float) -> RestartDecision | None:
    budget = query.policy.restart.budget
    used = retries.spent(query.restarts, budget, now)
    if used < budget.restarts:
        return None
    why = f"The budget of policy {query.policy.name} is spent: {used} restarts in {span(budget.seconds)}."
    return RestartDecision(DecisionKind.PAGE, "budget_spent", why, facts={"used": used})


def _considered(query: TroubledQuery, now: float) -> RestartDecision | None:
    """In mode observe a run is restarted at most once: what a second restart would do cannot be known."""
    if query.policy.acts or not query.restarts or query.restarts[-1].run_id != query.run_id:
        return None
    why = f"Would have been restarted at {clock(query.restarts[-1].at, now)}; the policy only observes."
    return RestartDecision(DecisionKind.NOTHING, OBSERVED, why)


def _outside_window(query: TroubledQuery, now: float) -> RestartDecision | None:
    windows = query.policy.restart.windows
    if not windows.periods or windows.contains(now):
        return None
    why = "The policy restarts only in its time windows, and now is outside them."
    return RestartDecision(DecisionKind.HOLD, "outside_window", why, now + HOLD_SECONDS)


def _backing_off(query: TroubledQuery, now: float) -> RestartDecision | None:
    rule, attempts = query.policy.restart.delay, len(query.restarts)
    due_at = query.since + retries.delay(rule, attempts, query.view.query_id, query.retry)
    if due_at <= now:
        return None
    why = f"Restart {attempts + 1} is due at {clock(due_at, now)}, {span(due_at - query.since)} after the trouble began."
    return RestartDecision(
        DecisionKind.WAIT, "backoff", why, due_at, {"due_at": due_at, "attempts": attempts}
    )


def _too_many(query: TroubledQuery, now: float) -> RestartDecision | None:
    limit, load = query.policy.restart.parallel, query.load
    if not query.policy.acts or (load.app < limit.app and load.fleet < limit.fleet):
        return None
    where = f"{load.app} of its application" if load.app >= limit.app else f"{load.fleet} of the fleet"
    why = f"Other restarts are in progress ({where}), and the policy limits them."
    return RestartDecision(DecisionKind.WAIT, "max_parallel", why, now + WAIT_SECONDS)


def _restart(query: TroubledQuery, now: float) -> RestartDecision:
    attempts, budget = len(query.restarts), query.policy.restart.budget
    used = retries.spent(query.restarts, budget, now)
    what = headline(query.failure) if query.failure is not None else str(query.status)
    why = f"Restart {used + 1} of {budget.restarts} in {span(budget.seconds)} after {what}."
    return RestartDecision(
        DecisionKind.RESTART,
        "due",
        why,
        now + WAIT_SECONDS,
        {"attempts": attempts, "retry": query.retry.value},
    )


CHECKS: tuple[Check, ...] = (
    _not_wanted,
    _too_young,
    _given_up,
    _action_open,
    _cannot_help,
    _no_driver,
    _refused,
    _broken_checkpoint,
    _driver_decides,
    _in_incident,
    _tried,
    _considered,
    _budget_spent,
    _outside_window,
    _backing_off,
    _too_many,
)
