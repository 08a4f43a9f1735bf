"""Builders of query views for the tests of verdicts, lag and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.model import (
    Action,
    ActionState,
    Agent,
    ProgressSample,
    QueryStatus,
    QueryView,
    Run,
    RunEnd,
    RunFacts,
    SourceSample,
    StatusSample,
)

NOW = 1_795_000_000.0
TOPIC = "KafkaV2[Subscribe[orders]]"
STATE_LOST = "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS] Error reading delta file 4.delta"
Offsets = Mapping[str, float] | None


@dataclass(frozen=True)
class Case:
    """A view, its expected status at `NOW`, and a part of the expected reason."""

    name: str
    view: QueryView
    status: QueryStatus
    reason: str


def source(start: Offsets, end: Offsets, latest: Offsets, **changes: Any) -> SourceSample:
    rows = int(sum((end or {}).values()) - sum((start or {}).values()))
    return SourceSample(
        **{"description": TOPIC, "input_rows": max(0, rows), **changes}, start=start, end=end, latest=latest
    )


def sample(batch_id: int, at: float, sources: Sequence[SourceSample] = (), **changes: Any) -> ProgressSample:
    duration = changes.get("duration", 1.0)
    values: dict[str, Any] = {
        "at": at,
        "trigger_at": at - duration,
        "run_id": "run-1",
        "batch_id": batch_id,
        "duration": duration,
        "phases_ms": {"addBatch": 800},
        "input_rows": sum(s.input_rows for s in sources),
        "input_rows_per_second": 10.0,
        "processed_rows_per_second": 100.0,
        "sources": tuple(sources),
    }
    return ProgressSample(**{**values, **changes})


def batches(
    lags: Sequence[float | Mapping[str, float]],
    *,
    every: float = 10.0,
    rows: float = 10.0,
    last_at: float = NOW - 5,
    first_end: float = 1000.0,
    **changes: Any,
) -> tuple[ProgressSample, ...]:
    """One batch for each lag (of a topic's only partition, or by partition), each reading `rows` of every partition."""
    made = []
    for number, lag in enumerate(lags):
        by_part = lag if isinstance(lag, Mapping) else {"orders/0": lag}
        start = dict.fromkeys(by_part, first_end + (number - 1) * rows)
        end = {part: offset + rows for part, offset in start.items()}
        latest = {part: end[part] + by_part[part] for part in by_part}
        at = last_at - (len(lags) - 1 - number) * every
        made.append(sample(number, at, [source(start, end, latest)], **changes))
    return tuple(made)


def without_latest_offset(
    count: int, *, every: float = 10.0, last_at: float = NOW - 5, **changes: Any
) -> tuple[ProgressSample, ...]:
    """Batches of a source that reports no latest offset, such as the file source."""
    files = SourceSample("FileStreamSource[file:/in]", {"logOffset": 1}, {"logOffset": 2}, None, 10)
    return tuple(sample(n, last_at - (count - 1 - n) * every, [files], **changes) for n in range(count))


def agent(**changes: Any) -> Agent:
    values = {"key": 1, "agent": "agent-1", "app": "shop", "spark_version": "4.3.0", "last_seen_at": NOW - 3}
    return Agent(**{**values, **changes})


def run(**changes: Any) -> Run:
    values = {"key": 1, "run_id": "run-1", "query_id": "q1", "agent": "agent-1", "started_at": NOW - 3600}
    return Run(**{**values, **changes})


def status(**changes: Any) -> StatusSample:
    values: dict[str, Any] = {
        "at": NOW - 3,
        "run_id": "run-1",
        "message": "Waiting for next trigger",
        "data_available": True,
        "trigger_active": False,
        "tasks_active": 0,
        "tasks_completed": 4,
    }
    return StatusSample(**{**values, **changes})


def in_batch(**changes: Any) -> StatusSample:
    return status(**{"message": "Processing new data", "trigger_active": True, "tasks_active": 2, **changes})


def action(kind: str = "restart", state: ActionState = ActionState.DELIVERED, **changes: Any) -> Action:
    values: dict[str, Any] = {"id": "a1", "query_id": "q1", "app": "shop", "name": "orders", "actor": "ada"}
    times = {"requested_at": NOW - 4, "deadline_at": NOW + 100}
    return Action(**{**values, **times, "action": kind, "state": state, **changes})


def view(**changes: Any) -> QueryView:
    """A healthy query with a 10 s trigger, with these fields replaced."""
    values: dict[str, Any] = {
        "query_id": "q1",
        "app": "shop",
        "name": "orders",
        "labels": {"team": "data"},
        "first_seen_at": NOW - 7200,
        "agent": agent(),
        "run": run(),
        "facts": RunFacts(trigger="processing_time", trigger_interval=10.0),
        "progress": batches([0] * 12),
        "status": status(),
        "polls": (NOW - 3,),
    }
    return QueryView(**{**values, **changes})


def ended(end: RunEnd | None, ago: float = 100, **changes: Any) -> Run:
    return run(ended_at=NOW - ago, end=end, last_batch_id=42, **changes)


def long_batch(quiet: float, batch_age: float = 1000) -> QueryView:
    """A batch that has run for `batch_age` seconds; its last task finished `quiet` seconds ago."""
    progress = batches([0] * 12, last_at=NOW - batch_age)
    return view(progress=progress, status=in_batch(last_task_at=NOW - quiet))
