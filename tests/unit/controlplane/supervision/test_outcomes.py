"""What became of a query after a decision, and what the decision was worth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controlplane.model import Action, ActionState, QueryStatus, QueryView, RunEnd
from controlplane.supervision.outcomes import settle
from controlplane.supervision_model import (
    DecisionKind,
    DecisionOutcome,
    Desired,
    DesiredState,
    LedgerEntry,
    Supervised,
)
from tests.unit.controlplane.actions.views import AGENT, NOW, requested, run, view
from tests.unit.controlplane.supervision.troubles import entry

OPEN = entry(100.0, run_id="old", outcome=DecisionOutcome.OPEN, outcome_at=None)
CONSIDERED = replace(OPEN, mode="observe", acted=False, action_id=None)
PAGED = replace(CONSIDERED, decision=DecisionKind.PAGE, inputs={"agent": "a1"})
STOPPED = Supervised(Desired("q1", DesiredState.STOPPED, "ada", NOW - 10))


def after(**changes: Any) -> QueryView:
    """The query with a run that began after the decision."""
    return view(run=run("new", started_at=NOW - 50, **changes))


def done(state: str, **evidence: Any) -> Action:
    return replace(requested("start"), state=ActionState(state), reason="why", evidence=evidence)


STARTED = done("succeeded", run_id="new")
Case = tuple[LedgerEntry, QueryView, str, Action | None, str, str | None]
FAILED_RUN = after(ended_at=NOW, end=RunEnd.FAILED)
CASES: dict[str, Case] = {
    "restarted": (OPEN, after(batches=1), "running", STARTED, "recovered", "helped"),
    "restarted, no data": (OPEN, after(), "starting", STARTED, "recovered", "helped"),
    "restarted, then failed again": (
        OPEN,
        FAILED_RUN,
        "failed",
        done("failed", run_id="new"),
        "failed_again",
        "useless",
    ),
    "still in progress": (OPEN, after(batches=1), "running", requested("start"), "open", None),
    "the driver refuses": (
        OPEN,
        view(),
        "failed",
        done("refused", code="needs_factory"),
        "failed_again",
        "useless",
    ),
    "the driver did not fetch it": (OPEN, view(), "failed", done("expired"), "failed_again", "useless"),
    "a person was faster": (
        OPEN,
        after(batches=1),
        "running",
        done("refused"),
        "recovered_without_us",
        "useless",
    ),
    "a person stopped it": (OPEN, view(supervised=STOPPED), "failed", done("refused"), "overruled", "wrong"),
    "considered, nothing since": (CONSIDERED, view(), "failed", None, "open", None),
    "considered, started by a person": (
        CONSIDERED,
        after(batches=1),
        "running",
        None,
        "recovered_without_us",
        "helped",
    ),
    "considered, starting": (CONSIDERED, after(), "starting", None, "open", None),
    "considered, failed again": (CONSIDERED, FAILED_RUN, "failed", None, "failed_again", "useless"),
    "considered, stopped": (CONSIDERED, view(supervised=STOPPED), "failed", None, "overruled", "wrong"),
    "considered, stuck and then by itself": (
        replace(CONSIDERED, trigger="stuck"),
        view(),
        "running",
        None,
        "recovered_without_us",
        "wrong",
    ),
    "paged, and a start helped": (PAGED, after(batches=1), "running", None, "recovered_without_us", "wrong"),
    "paged, and a new driver helped": (
        replace(PAGED, inputs={"agent": "a0"}),
        after(batches=1),
        "running",
        None,
        "recovered_without_us",
        "helped",
    ),
    "paged, and a start failed": (PAGED, FAILED_RUN, "failed", None, "failed_again", "helped"),
    "paged, then retired": (PAGED, view(retired_at=NOW), "retired", None, "overruled", "helped"),
}


@pytest.mark.parametrize("name", CASES)
def test_an_outcome(name: str) -> None:
    decision, seen, status, action, outcome, assessment = CASES[name]
    found = settle(decision, replace(seen, agent=AGENT), QueryStatus(status), action, NOW)
    assert (found.outcome, found.assessment) == (outcome, assessment), found.outcome_why
    assert (found == decision) == (outcome == "open")


def test_a_refusal_is_kept_for_the_next_decision() -> None:
    refused = settle(OPEN, view(), QueryStatus.FAILED, done("refused", code="needs_factory"), NOW)
    assert refused.inputs["refused"] == "needs_factory"


def test_an_outcome_never_changes() -> None:
    closed = replace(OPEN, outcome=DecisionOutcome.RECOVERED)
    assert settle(closed, FAILED_RUN, QueryStatus.FAILED, None, NOW) is closed
