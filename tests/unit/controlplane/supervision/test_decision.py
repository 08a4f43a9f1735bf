"""The decision about a query in trouble, case by case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from alerts.time_intervals import TimeInterval, TimePeriod
from controlplane.incident_model import Cause, CauseKind, IncidentMembership, TrialRestart, TrialState
from controlplane.model import CheckpointSummary, QueryStatus
from controlplane.supervision.decision import RestartLoad, TroubledQuery, decide
from controlplane.supervision.policies import RestartBudget, RetryDelay, StatusTrigger
from controlplane.supervision_model import DecisionKind, DecisionOutcome, DesiredState, Supervised
from tests.unit.controlplane.actions.views import AGENT, NOW, requested, run, view
from tests.unit.controlplane.supervision.troubles import POISON, SINCE, STRANGE, entry, failed, policy, wanted

YEAR_2000 = TimeInterval("w", (TimePeriod(years=((2000, 2000),)),))
BROKEN = CheckpointSummary(
    NOW - 50, "broken", "2 files are missing", "/c", predicted_failure="9.delta is missing"
)
ONCE = failed(STRANGE)
PAGED = entry(50.0, decision=DecisionKind.PAGE, code="budget_spent", run_id="old", inputs={"version": 0})


def with_view(query: TroubledQuery, **changes: Any) -> TroubledQuery:
    return replace(query, view=replace(query.view, **changes))


def in_incident(state: TrialState, query_id: str = "q2", acted: bool = True, **changes: Any) -> TroubledQuery:
    """A query of an incident whose trial restart is that of `query_id`."""
    trial = TrialRestart(query_id, "e1", acted, NOW - 5, state)
    shared = IncidentMembership("i1", Cause(CauseKind.SINK, "/out"), "3 queries failed.", trial)
    return with_view(failed(**changes), supervised=Supervised(incident=shared))


CASES: dict[str, tuple[TroubledQuery, str, str]] = {
    "due": (failed(), "restart", "due"),
    "stuck": (failed(view=view(), status=QueryStatus.STUCK, failure=None), "restart", "due"),
    "stopped by a person": (wanted(failed(), DesiredState.STOPPED), "nothing", "desired_state"),
    "suspended by a person": (wanted(failed(), DesiredState.SUSPENDED), "nothing", "desired_state"),
    "wanted by a person": (wanted(failed(), DesiredState.RUNNING), "restart", "due"),
    "retired": (with_view(failed(), retired_at=NOW), "nothing", "retired"),
    "in back-off": (failed(policy=policy(delay=RetryDelay(initial=200.0, jitter=0))), "wait", "backoff"),
    "trouble too young": (
        failed(
            status=QueryStatus.LAGGING, policy=policy(triggers=(StatusTrigger(QueryStatus.LAGGING, 200.0),))
        ),
        "wait",
        "too_young",
    ),
    "a person's action is open": (with_view(failed(), action=requested()), "wait", "action_in_progress"),
    "poison": (failed(POISON), "page", "cannot_help"),
    "poison, observed": (failed(POISON, policy=policy("observe")), "page", "cannot_help"),
    "driver gone": (with_view(failed(), agent=replace(AGENT, ended_at=NOW)), "hold", "no_driver"),
    "driver silent": (failed(status=QueryStatus.LOST, failure=None), "hold", "no_contact"),
    "another query of its incident is tried": (in_incident(TrialState.TRYING), "hold", "incident"),
    "the trial of its incident failed": (in_incident(TrialState.FAILED), "hold", "incident"),
    "the trial of its incident helped": (in_incident(TrialState.HELPED), "restart", "due"),
    "it is the trial of its incident": (in_incident(TrialState.FAILED, "q1"), "restart", "due"),
    "the trial was only considered": (in_incident(TrialState.TRYING, acted=False), "restart", "due"),
    "only considered, as the trial": (
        in_incident(TrialState.TRYING, acted=False, policy=policy("observe")),
        "hold",
        "incident",
    ),
    "vanished from its driver": (
        failed(status=QueryStatus.LOST, failure=None, vanished=True),
        "restart",
        "due",
    ),
    "broken checkpoint": (with_view(failed(), checkpoint=BROKEN), "page", "checkpoint_broken"),
    "checkpoint report older than the run's end": (
        with_view(failed(), checkpoint=replace(BROKEN, taken_at=SINCE - 1)),
        "restart",
        "due",
    ),
    "checkpoint must be ok and is unknown": (
        failed(policy=policy(checkpoint="ok")),
        "hold",
        "checkpoint_unknown",
    ),
    "checkpoint must be ok and is risky": (
        with_view(failed(policy=policy(checkpoint="ok")), checkpoint=replace(BROKEN, verdict="risky")),
        "page",
        "checkpoint_not_ok",
    ),
    "unknown condition": (ONCE, "restart", "due"),
    "unknown condition again": (
        replace(ONCE, history=[entry(condition=ONCE.condition)]),
        "page",
        "tried_once",
    ),
    "unknown condition after another": (replace(ONCE, history=[entry()]), "restart", "due"),
    "unknown condition that a restart helped": (
        replace(ONCE, history=[entry(condition=ONCE.condition, outcome=DecisionOutcome.RECOVERED)]),
        "restart",
        "due",
    ),
    "budget spent": (failed(history=[entry(n * 10.0 + 100) for n in range(5)]), "page", "budget_spent"),
    "no budget at all": (failed(policy=policy(budget=RestartBudget(restarts=0))), "page", "budget_spent"),
    "given up": (failed(history=[PAGED]), "page", "budget_spent"),
    "given up, other policies since": (failed(history=[PAGED], version=1), "restart", "due"),
    "given up, another run since": (failed(history=[replace(PAGED, run_id="older")]), "restart", "due"),
    "given up, wanted by a person since": (
        wanted(failed(history=[PAGED]), DesiredState.RUNNING),
        "restart",
        "due",
    ),
    "refused": (
        failed(history=[entry(run_id="old", inputs={"refused": "needs_factory", "version": 0})]),
        "page",
        "needs_factory",
    ),
    "refused for now": (
        failed(
            history=[entry(30.0, run_id="old", acted=False, inputs={"refused": "not_running", "version": 0})]
        ),
        "wait",
        "not_running",
    ),
    "outside its windows": (failed(policy=policy(windows=YEAR_2000)), "hold", "outside_window"),
    "too many in the app": (failed(load=RestartLoad(app=1, fleet=1)), "wait", "max_parallel"),
    "too many in the fleet": (failed(load=RestartLoad(app=0, fleet=10)), "wait", "max_parallel"),
    "too many, observed": (failed(load=RestartLoad(1, 10), policy=policy("observe")), "restart", "due"),
    "already considered": (
        failed(policy=policy("observe"), history=[entry(50.0, mode="observe", acted=False, run_id="old")]),
        "nothing",
        "observed",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_decision(name: str) -> None:
    query, kind, code = CASES[name]
    found = decide(query, NOW)
    assert (found.kind.value, found.code) == (kind, code), found.why
    assert found.why.endswith(".") and found.why[0].isupper()


def test_a_person_always_wins() -> None:
    """Whatever else holds, nothing happens to a query that a person stopped."""
    for query, _, _ in CASES.values():
        assert decide(wanted(query, DesiredState.STOPPED), NOW).kind is DecisionKind.NOTHING


def test_the_back_off_names_when_the_restart_is_due_and_grows_with_the_restarts() -> None:
    rule = policy(delay=RetryDelay(initial=60.0, jitter=0.0))
    assert decide(failed(policy=rule), SINCE + 10).due_at == SINCE + 60.0
    found = decide(failed(policy=rule, history=[entry()]), SINCE + 10)
    assert (found.due_at, found.facts["attempts"]) == (SINCE + 120.0, 1)


def test_a_query_that_runs_again_is_judged_by_its_new_run() -> None:
    query = failed(
        POISON, view=view(run=run("new", ended_at=SINCE)), history=[replace(PAGED, code="cannot_help")]
    )
    assert decide(query, NOW).code == "cannot_help"
