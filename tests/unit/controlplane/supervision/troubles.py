"""Queries in trouble, and entries of the ledger, for the tests of supervision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controlplane.health.failures import explain
from controlplane.model import QueryStatus, RunEnd
from controlplane.supervision.decision import TroubledQuery
from controlplane.supervision.policies import Policy, PolicyMode, RestartRule
from controlplane.supervision.retries import retry_class
from controlplane.supervision_model import (
    DecisionKind,
    DecisionOutcome,
    Desired,
    DesiredState,
    LedgerEntry,
    Supervised,
)
from tests.unit.controlplane.actions.views import NOW, run, view

FLAKY = "[STREAM_FAILED] Query terminated.\nCaused by: java.net.ConnectException: Connection refused"
POISON = "[CAST_INVALID_INPUT] The value 'x' of the type STRING cannot be cast to INT."
STRANGE = "java.lang.IllegalStateException: the frobnicator is out of cheese"
SINCE = NOW - 100.0


def policy(mode: str = "act", **rule: Any) -> Policy:
    return Policy("payments", mode=PolicyMode(mode), restart=RestartRule(**rule))


def failed(text: str = FLAKY, **changes: Any) -> TroubledQuery:
    """A query that failed at `SINCE`, 100 s ago."""
    ended = run(ended_at=SINCE, end=RunEnd.FAILED, failure_text=text, batches=5)
    failure = explain(text)
    values: dict[str, Any] = {
        "view": view(run=ended),
        "status": QueryStatus.FAILED,
        "since": SINCE,
        "policy": policy(),
        "failure": failure,
        "retry": retry_class(failure, {}),
    }
    return TroubledQuery(**values | changes)


def entry(ago: float = 200.0, **changes: Any) -> LedgerEntry:
    """A restart `ago` seconds ago that was carried out and did not help."""
    values: dict[str, Any] = {
        "id": f"e{ago}",
        "at": NOW - ago,
        "query_id": "q1",
        "app": "orders",
        "name": "enrich",
        "policy": "payments",
        "mode": "act",
        "trigger": "failed",
        "decision": DecisionKind.RESTART,
        "code": "due",
        "why": "Restart 1 of 5.",
        "acted": True,
        "action_id": "a1",
        "run_id": "older",
        "condition": failed().condition,
        "trouble_since": NOW - ago - 5.0,
        "outcome": DecisionOutcome.FAILED_AGAIN,
        "outcome_at": NOW - ago + 1.0,
    }
    return LedgerEntry(**values | changes)


def wanted(query: TroubledQuery, state: DesiredState, ago: float = 10.0) -> TroubledQuery:
    """The query after a person set its desired state."""
    desired = Desired("q1", state, "ada", NOW - ago)
    return replace(query, view=replace(query.view, supervised=Supervised(desired)))
