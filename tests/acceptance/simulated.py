"""A driver without Spark: it sends events of scripted queries over HTTP and carries out commands.

It builds the wire format by hand, so that tests check the contract and not only the project's encoder.
Not thread-safe; `serve_commands` runs a thread of its own.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx

Json = dict[str, Any]
Obey = Callable[["SimulatedAgent", Json], Json]


#: Made once: loading the certificates takes longer than most tests.
TLS = ssl.create_default_context()


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class SimulatedQuery:
    """A query of a simulated driver; `batch` is the last committed one."""

    name: str | None
    query_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    batch: int = -1
    active: bool = False


class SimulatedAgent:
    """One driver. Every method that sends something returns the server's answer."""

    def __init__(
        self, url: str, token: str, app: str = "orders", labels: Json | None = None, actions: str = "all"
    ):
        self.agent = str(uuid.uuid4())
        self.app = app
        self.app_id = "local-1"
        self.labels = labels or {}
        self.actions = actions
        self.seq = 0
        self.results: list[Json] = []
        self.commands: list[Json] = []
        self.http = httpx.Client(base_url=url, headers=_bearer(token), timeout=40.0, verify=TLS)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    # -- events --------------------------------------------------------------------------------------

    def line(self, type: str, data: Json, at: float | None = None) -> bytes:
        self.seq += 1
        envelope = {
            "v": 1,
            "agent": self.agent,
            "seq": self.seq,
            "at": stamp(time.time() if at is None else at),
            "app": {
                "name": self.app,
                "id": self.app_id,
                "spark_version": "4.3.0",
                "ui_url": "http://driver:4040",
            },
            "labels": self.labels,
            "type": type,
            "data": data,
        }
        return json.dumps(envelope).encode()

    def post(self, *lines: bytes) -> Json:
        answer = self.http.post("/api/v1/events", content=b"\n".join(lines))
        answer.raise_for_status()
        document: Json = answer.json()
        return document

    def send(self, *events: tuple[str, Json]) -> Json:
        with self._lock:
            return self.post(*[self.line(type, data) for type, data in events])

    def begin(self) -> Json:
        output = {"pid": 1, "host": "driver", "python": "3.11", "agent_version": "0", "actions": self.actions}
        return self.send(("app_started", output))

    def start(self, query: SimulatedQuery, trigger: str = "processing_time", interval: float = 1.0) -> Json:
        query.active = True
        ids = {"id": query.query_id, "runId": query.run_id}
        facts = {
            "trigger": trigger,
            "triggerInterval": interval,
            "checkpoint": f"/c/{query.query_id}",
            "restart": "reuse",
        }
        started = {**ids, "name": query.name, "timestamp": stamp(time.time()), "jobTags": []}
        return self.send(("started", started), ("status", self.status(query, facts=facts)))

    def status(
        self,
        query: SimulatedQuery,
        message: str = "Processing new data",
        trigger_active: bool = True,
        **more: Any,
    ) -> Json:
        polled = {
            "id": query.query_id,
            "runId": query.run_id,
            "name": query.name,
            "message": message,
            "isDataAvailable": trigger_active,
            "isTriggerActive": trigger_active,
            "tasksActive": None,
            "tasksCompleted": None,
            "lastTaskAt": None,
            **more,
        }
        return {"queries": [polled], "listedAt": time.time()}

    def progress(self, query: SimulatedQuery, batch: int | None = None, **more: Any) -> tuple[str, Json]:
        query.batch = query.batch + 1 if batch is None else batch
        rows = 100
        return "progress", {
            "id": query.query_id,
            "runId": query.run_id,
            "name": query.name,
            "timestamp": stamp(time.time() - 0.5),
            "batchId": query.batch,
            "batchDuration": 400,
            "numInputRows": rows,
            "inputRowsPerSecond": 100.0,
            "processedRowsPerSecond": 250.0,
            "durationMs": {"addBatch": 350, "triggerExecution": 400},
            "stateOperators": [
                {"operatorName": "stateStoreSave", "numRowsTotal": 10, "memoryUsedBytes": 2880}
            ],
            "sources": [
                {
                    "description": "KafkaV2[Subscribe[orders]]",
                    "startOffset": {"orders": {"0": query.batch * rows}},
                    "endOffset": {"orders": {"0": (query.batch + 1) * rows}},
                    "latestOffset": {"orders": {"0": (query.batch + 1) * rows + 7}},
                    "numInputRows": rows,
                    "inputRowsPerSecond": 100.0,
                    "processedRowsPerSecond": 250.0,
                }
            ],
            "sink": {"description": "NoopTable", "numOutputRows": rows},
            **more,
        }

    def terminated(
        self, query: SimulatedQuery, exception: str | None = None, error: str | None = None
    ) -> Json:
        query.active = False
        ids = {"id": query.query_id, "runId": query.run_id}
        return self.send(("terminated", {**ids, "exception": exception, "errorClassOnException": error}))

    # -- commands ------------------------------------------------------------------------------------

    def poll(self, wait: float = 5.0) -> list[Json]:
        answer = self.http.get(f"/api/v1/agents/{self.agent}/commands", params={"wait": wait})
        if answer.status_code == 204:
            return []
        answer.raise_for_status()
        commands: list[Json] = answer.json()["commands"]
        self.commands += commands
        return commands

    def answer(self, command: Json, result: Json) -> Json:
        reply = self.http.post(f"/api/v1/commands/{command['id']}/result", json=result)
        reply.raise_for_status()
        action: Json = reply.json()["action"]
        self.results.append(action)
        return action

    def serve_commands(self, obey: Obey, wait: float = 0.3) -> None:
        """Poll and obey on a thread of its own, until `close`."""

        def loop() -> None:
            while not self._stop.is_set():
                try:
                    for command in self.poll(wait):
                        self.answer(command, obey(self, command))
                except httpx.HTTPError:
                    self._stop.wait(0.1)

        self._thread = threading.Thread(target=loop, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(5)
        self.http.close()


def restarts(query: SimulatedQuery, then: Callable[[SimulatedAgent], Any] = lambda agent: None) -> Obey:
    """Handle commands like a healthy driver: start a new run, then call `then`."""

    def obey(agent: SimulatedAgent, command: Json) -> Json:
        if command["action"] == "inventory":
            return {"state": "refused", "code": "inventory_off", "reason": "this driver takes no inventories"}
        previous = query.run_id
        if command["action"] in ("stop", "restart") and query.active:
            agent.terminated(query)
        if command["action"] == "stop":
            evidence: Json = {"previous_run_id": previous, "batch_cut": False}
            return {"state": "succeeded", "reason": "stopped between two batches", "evidence": evidence}
        query.run_id = str(uuid.uuid4())
        agent.start(query)
        then(agent)
        evidence = {"previous_run_id": previous, "run_id": query.run_id, "query_id": query.query_id}
        return {"state": "succeeded", "code": "started", "reason": "run has begun", "evidence": evidence}

    return obey
