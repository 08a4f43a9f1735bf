"""A fake Spark Connect server: real gRPC, one session's queries, only the calls that the agent makes."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc
import pyspark.sql.connect.proto as proto
from pyspark.sql.connect.proto import base_pb2_grpc

EVENTS = {"progress": 1, "terminated": 2, "idle": 3}
GONE = "[INVALID_HANDLE.SESSION_CHANGED] The existing Spark server driver instance has restarted."


@dataclass
class FakeRun:
    """One run of a query, as the server knows it."""

    query_id: str
    run_id: str
    name: str = ""
    reports: list[str] = field(default_factory=list)
    failure: str | None = None
    active: bool = True

    def report(self, batch_id: int, is_idle: bool = False) -> str:
        """Commit a batch: returns Spark's JSON, which `recentProgress` contains from now on.

        `is_idle`: no batch ran; Spark's report has the number of the next one.
        """
        phases = {"triggerExecution": 100, "latestOffset": 1}
        document = {
            "id": self.query_id,
            "runId": self.run_id,
            "name": self.name or None,
            "timestamp": f"2026-01-01T00:00:{batch_id:02d}.000Z",
            "batchId": batch_id,
            "batchDuration": 100,
            "durationMs": phases if is_idle else {**phases, "addBatch": 90},
        }
        self.reports.append(json.dumps(document, separators=(",", ":")))
        return self.reports[-1]


class FakeConnect(base_pb2_grpc.SparkConnectServiceServicer):
    """`runs` by run id; `confs`; `stream` is set while a client has the session's event stream."""

    def __init__(self) -> None:
        self.runs: dict[str, FakeRun] = {}
        self.confs = {"spark.app.name": "fake", "spark.app.id": "local-1", "spark.master": "local[1]"}
        self.is_gone = self.is_away = False
        self.stream: queue.Queue[Any] | None = None
        #: A busy server adds a listener only once this is set.
        self.added_after = threading.Event()
        self.added_after.set()
        self.stopped: list[str] = []
        self._server = grpc.server(ThreadPoolExecutor(max_workers=16))
        base_pb2_grpc.add_SparkConnectServiceServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def close(self) -> None:
        if self.stream is not None:
            self.stream.put(None)
        self._server.stop(grace=0).wait()

    def session(self) -> Any:
        from pyspark.sql.connect.session import SparkSession

        return SparkSession.builder.remote(f"sc://127.0.0.1:{self.port}").create()

    def run(self, run_id: str, name: str = "") -> FakeRun:
        made = FakeRun("11111111-1111-4111-8111-111111111111", run_id, name)
        self.runs[run_id] = made
        return made

    def send(self, type: str, text: str) -> None:
        """Send an event on the stream."""
        found = proto.StreamingQueryListenerEventsResult()
        found.events.add(event_type=EVENTS[type], event_json=text)  # type: ignore[arg-type]
        assert self.stream is not None
        self.stream.put(found)

    # -- the service -----------------------------------------------------------------------------

    def Config(self, request: Any, context: Any) -> Any:
        self._refuse_if_gone(context)
        answer = proto.ConfigResponse(session_id=request.session_id, server_side_session_id="s")
        for key in request.operation.get_option.keys:
            answer.pairs.add(key=key, value=self.confs.get(key))
        return answer

    def AnalyzePlan(self, request: Any, context: Any) -> Any:
        self._refuse_if_gone(context)
        answer = proto.AnalyzePlanResponse(session_id=request.session_id, server_side_session_id="s")
        answer.spark_version.version = "4.3.0"
        return answer

    def ReleaseSession(self, request: Any, context: Any) -> Any:
        return proto.ReleaseSessionResponse(session_id=request.session_id, server_side_session_id="s")

    def ReleaseExecute(self, request: Any, context: Any) -> Any:
        return proto.ReleaseExecuteResponse(session_id=request.session_id, server_side_session_id="s")

    def ExecutePlan(self, request: Any, context: Any) -> Iterator[Any]:
        self._refuse_if_gone(context)
        command = request.plan.command
        kind = command.WhichOneof("command_type")
        field, answers = {
            "streaming_query_command": ("streaming_query_command_result", self._of_run),
            "streaming_query_manager_command": ("streaming_query_manager_command_result", self._of_manager),
            "streaming_query_listener_bus_command": (
                "streaming_query_listener_events_result",
                self._of_stream,
            ),
        }[kind]
        for answer in answers(getattr(command, kind), context):
            response = proto.ExecutePlanResponse(
                session_id=request.session_id,
                server_side_session_id="s",
                operation_id=request.operation_id,
                response_id="r",
            )
            getattr(response, field).CopyFrom(answer)
            yield response
        done = proto.ExecutePlanResponse(session_id=request.session_id, server_side_session_id="s")
        done.result_complete.SetInParent()
        yield done

    def _of_run(self, command: Any, context: Any) -> Iterator[Any]:
        run = self.runs.get(command.query_id.run_id)
        if run is None:
            context.abort(grpc.StatusCode.INTERNAL, "Streaming query x is not found")
            return
        answer = proto.StreamingQueryCommandResult()
        if command.HasField("stop"):
            run.active = False
            self.stopped.append(run.run_id)
        if command.HasField("await_termination"):
            answer.await_termination.terminated = not run.active
        if command.HasField("status"):
            answer.status.is_active = run.active
        if command.HasField("last_progress"):
            answer.recent_progress.recent_progress_json.extend(run.reports[-1:])
        if command.HasField("recent_progress"):
            answer.recent_progress.recent_progress_json.extend(run.reports)
        if command.HasField("exception"):
            answer.exception.SetInParent()
            if run.failure:
                answer.exception.exception_message = run.failure
        yield answer

    def _of_manager(self, command: Any, context: Any) -> Iterator[Any]:
        answer = proto.StreamingQueryManagerCommandResult()
        answer.active.SetInParent()
        for run in self.runs.values():
            if run.active:
                answer.active.active_queries.add(name=run.name).id.CopyFrom(
                    proto.StreamingQueryInstanceId(id=run.query_id, run_id=run.run_id)
                )
        yield answer

    def _of_stream(self, command: Any, context: Any) -> Iterator[Any]:
        if command.remove_listener_bus_listener:
            if self.stream is not None:
                self.stream.put(None)
            self.stream = None
            return
        if self.stream is not None:  # as in Spark: the call neither answers nor ends
            ended = threading.Event()
            context.add_callback(ended.set)
            ended.wait()
            return
        self.added_after.wait(20)
        self.stream = mine = queue.Queue()
        yield proto.StreamingQueryListenerEventsResult(listener_bus_listener_added=True)
        while (event := mine.get()) is not None:  # a cancelled call leaves the listener in place, as in Spark
            yield event

    def _refuse_if_gone(self, context: Any) -> None:
        if self.is_away:
            context.abort(grpc.StatusCode.UNAVAILABLE, "away")
        if self.is_gone:
            context.abort(grpc.StatusCode.INTERNAL, GONE)
