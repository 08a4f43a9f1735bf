"""A driver without a process: it numbers events and encodes them as the lines that an agent sends."""

from __future__ import annotations

import json
import uuid
from typing import Any

from listeners.protocol import wire
from tests.paths import DATA

#: When the stories of the tests begin: 2026-11-20T05:00:00Z.
BEGIN = 1795150800.0
REPORTS = DATA / "progress/spark-4.3.jsonl"


def real_reports() -> list[dict[str, Any]]:
    """Progress reports as Spark 4.3 wrote them, one of each kind of query."""
    return [json.loads(line) for line in REPORTS.read_text().splitlines()]


def report(
    query_id: str, run_id: str, batch_id: int, trigger_at: float = BEGIN, **more: Any
) -> dict[str, Any]:
    """A small progress report; `more` adds or replaces its fields."""
    return {
        "id": query_id,
        "runId": run_id,
        "name": "orders",
        "timestamp": wire.rfc3339(trigger_at),
        "batchId": batch_id,
        "batchDuration": 500,
        "numInputRows": 10,
        "inputRowsPerSecond": 5.0,
        "processedRowsPerSecond": 20.0,
        "durationMs": {"addBatch": 400, "triggerExecution": 500},
        "stateOperators": [{"operatorName": "stateStoreSave", "numRowsTotal": 7, "numRowsUpdated": 2}],
        "sources": [
            {"description": "Rate", "startOffset": 0, "endOffset": 10, "latestOffset": 12, "numInputRows": 10}
        ],
        "sink": {"description": "Noop", "numOutputRows": 10},
    } | more


class Driver:
    """`at` of an event is BEGIN plus its sequence number, unless given."""

    def __init__(self, app: str = "shop", agent: str | None = None, labels: dict[str, str] | None = None):
        self.agent = agent or str(uuid.uuid4())
        self.app = app
        self.labels = labels or {}
        self.seq = 0

    def event(self, type: str, data: dict[str, Any], at: float | None = None) -> wire.Event:
        self.seq += 1
        at = BEGIN + self.seq if at is None else at
        return wire.Event(self.agent, self.seq, at, wire.App(self.app), type, data, self.labels)

    def line(self, type: str, data: dict[str, Any], at: float | None = None) -> bytes:
        return wire.encode_event(self.event(type, data, at)).encode()

    def progress(
        self, query_id: str, run_id: str, batch_id: int, at: float | None = None, **more: Any
    ) -> bytes:
        trigger_at = (BEGIN + self.seq + 1 if at is None else at) - 0.5
        return self.line("progress", report(query_id, run_id, batch_id, trigger_at, **more), at)

    def started(
        self, query_id: str, run_id: str, name: str | None = "orders", at: float | None = None
    ) -> bytes:
        return self.line("started", {"id": query_id, "runId": run_id, "name": name}, at)

    def terminated(
        self, query_id: str, run_id: str, exception: str | None = None, at: float | None = None
    ) -> bytes:
        return self.line("terminated", {"id": query_id, "runId": run_id, "exception": exception}, at)

    def status(self, *entries: dict[str, Any], at: float | None = None) -> bytes:
        listed_at = BEGIN + self.seq + 1 if at is None else at
        return self.line("status", {"queries": list(entries), "listedAt": listed_at}, at)
