"""Views, samples and actions for the tests of the actions package."""

from __future__ import annotations

from typing import Any

from controlplane.actions.transitions import NewAction, request
from controlplane.model import Action, Agent, ProgressSample, QueryView, Run, RunFacts, StatusSample

NOW = 1_795_000_000.0
AGENT = Agent(key=1, agent="a1", app="orders", actions="all", last_seen_at=NOW)


def run(run_id: str = "old", **changes: Any) -> Run:
    values = {"key": 1, "run_id": run_id, "query_id": "q1", "agent": "a1", "started_at": NOW - 600, **changes}
    return Run(**values)


def sample(batch_id: int, run_id: str = "old", at: float = NOW - 10, **changes: Any) -> ProgressSample:
    values: dict[str, Any] = {
        "at": at,
        "trigger_at": at - 1,
        "run_id": run_id,
        "batch_id": batch_id,
        "duration": 1.0,
        "phases_ms": {"addBatch": 800},
        "input_rows": 10,
        "input_rows_per_second": 10.0,
        "processed_rows_per_second": 10.0,
        **changes,
    }
    return ProgressSample(**values)


def view(**changes: Any) -> QueryView:
    values: dict[str, Any] = {
        "query_id": "q1",
        "app": "orders",
        "name": "enrich",
        "labels": {},
        "first_seen_at": NOW - 3600,
        "agent": AGENT,
        "run": run(),
        "facts": RunFacts(trigger="processing_time", trigger_interval=10.0),
        "progress": (sample(6), sample(7)),
        **changes,
    }
    return QueryView(**values)


def status(run_id: str = "new", **changes: Any) -> StatusSample:
    values = {
        "at": NOW,
        "run_id": run_id,
        "message": "Waiting for data to arrive",
        "data_available": False,
        "trigger_active": False,
        **changes,
    }
    return StatusSample(**values)


def ask(action: str = "restart", **changes: Any) -> NewAction:
    return NewAction(**{"action": action, "actor": "ada", "via": "ui", **changes})


def requested(action: str = "restart", seen: QueryView | None = None) -> Action:
    return request(seen or view(), ask(action), "id-1", NOW)
