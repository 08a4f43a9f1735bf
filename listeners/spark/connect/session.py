"""Spark Connect sessions: the gRPC implementation of `listeners.spark.engine`, for Spark 3.5 and later.

A client sees all queries of its own session, but not the driver: no tasks, no heap, no checkpoint. Facts
about a query come from the request that started it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any, Callable

from listeners.protocol.errors import AgentError, ConnectError, RunUnknown, SessionGone
from listeners.spark.connect import bus, calls, pipelines
from listeners.spark.connect import plan as connect_plan
from listeners.spark.connect.event_dedup import idle_timestamp, report_key
from listeners.spark.connect.events import EventStream
from listeners.spark.engine import SparkOutage, SparkRun, SparkStatus, SparkTasks, Start
from listeners.spark.patching import Patches

LOCATION = "spark.sql.streaming.checkpointLocation"
#: A query without a checkpoint gets one whose name begins so; the client cannot see the rest.
TEMPORARY_PREFIX = "temporary-"


class ConnectRun:
    """One run, identified by its ids. Raises `listeners.protocol.errors.ConnectError`."""

    def __init__(
        self, session: Any, query_id: str, run_id: str, name: str | None, start: Start | None = None
    ):
        self.session, self.query_id, self.run_id, self.name = session, query_id, run_id, name
        self._write: Any = start.writer._write_proto if start is not None else None
        #: Read now: the writer may be configured for another query later.
        self._facts = connect_plan.facts(self._write) if start is not None else {}
        if start is not None and start.interval is not None:
            self._facts["triggerInterval"] = start.interval  # its writer has the program's own interval again

    def is_active(self) -> bool:
        try:
            return bool(self._ask(status=True).status.is_active)
        except (SessionGone, RunUnknown):
            return False

    def is_over(self) -> bool:
        """Whether the run has ended; also True if the server forgot it."""
        if self.is_active():
            return False
        try:
            return calls.has_terminated(self.session, self.query_id, self.run_id)
        except ConnectError as error:
            return not error.retryable or "STREAM_FAILED" in str(error)

    def status(self) -> SparkStatus:
        found = self._ask(status=True).status
        return SparkStatus(
            str(found.status_message), bool(found.is_data_available), bool(found.is_trigger_active)
        )

    def stop(self) -> None:
        self._ask(seconds=None, stop=True)

    def failure(self) -> Exception | None:
        from pyspark.sql.connect.streaming.query import StreamingQuery

        return StreamingQuery(self.session, self.query_id, self.run_id, self.name).exception()

    def checkpoint(self) -> str | None:
        """The location as the program set it, unresolved. None if its start was not seen."""
        if not self._facts:
            return None
        named = self._facts["checkpoint"]
        if named is not None:
            return str(named)
        location = calls.settings(self.session, LOCATION).get(LOCATION)
        if not location:
            return TEMPORARY_PREFIX
        return (
            location.rstrip("/") + "/" + self.name if self.name else None
        )  # otherwise the server makes up a name

    def facts(self) -> dict[str, Any]:
        """Facts of the recorded start; those of a pipeline's flow, or none, if it was not seen."""
        if not self._facts:
            return pipelines.flow_facts()
        root = self.checkpoint()
        is_temporary = root == TEMPORARY_PREFIX
        return {
            **self._facts,
            "checkpoint": None if is_temporary else root,
            "checkpointIsTemporary": is_temporary if root else None,
            "watermarkDelay": connect_plan.watermark_of(self._write.input),
        }

    def shape(self, redact: Callable[[str], str] | None) -> dict[str, Any] | None:
        """None: a client cannot see the analyzed plan."""
        return None

    def thread(self) -> dict[str, Any] | None:
        """None: a client cannot see the driver's threads."""
        return None

    def batches_on_record(self) -> tuple[int | None, int | None]:
        """The committed batch of the last report, which is made after the commit. The logs cannot be read."""
        try:
            reports = self._ask(last_progress=True).recent_progress.recent_progress_json
        except ConnectError:
            return None, None
        if not reports:
            return None, None
        batch = report_key(reports[-1])[0]
        if idle_timestamp(reports[-1]) is not None:
            batch -= 1  # the report has the number of the next batch
        return None, batch if batch >= 0 else None

    def _ask(self, **fields: Any) -> Any:
        return calls.query(self.session, self.query_id, self.run_id, **fields)


class ConnectEngine:
    """Implements `listeners.spark.engine.Engine` with gRPC."""

    independent_sessions = True

    def __init__(self) -> None:
        self._streams: dict[int, EventStream] = {}
        self._patches = Patches()
        self._process = os.getpid()
        self._lock = threading.RLock()

    def classes(self) -> Mapping[str, type]:
        from pyspark.sql.connect.session import SparkSession
        from pyspark.sql.connect.streaming.query import StreamingQuery, StreamingQueryManager
        from pyspark.sql.connect.streaming.readwriter import DataStreamWriter

        return {
            "session": SparkSession,
            "query": StreamingQuery,
            "manager": StreamingQueryManager,
            "writer": DataStreamWriter,
        }

    def app(self, session: Any) -> dict[str, Any]:
        found = calls.settings(session, "spark.app.name", "spark.app.id", "spark.master")
        return {
            "name": found.get("spark.app.name") or "spark-connect",
            "id": found.get("spark.app.id"),
            "spark_version": calls.version(session),
            "master": found.get("spark.master"),
            "ui_url": None,
        }

    def setting(self, session: Any, name: str) -> str | None:
        return calls.settings(session, name).get(name)

    def key(self, session: Any) -> int:
        """Python's client objects may share a session: server, user and session id identify it."""
        client = session.client
        return hash((str(client._builder.host), client._user_id, client._session_id))

    def key_of(self, manager: Any) -> int:
        return self.key(manager._session)

    def session_of(self, writer: Any) -> Any:
        return writer._session

    def on_signal(self, session: Any, act: Callable[[str], None]) -> Callable[[], None]:
        """Nothing: a client cannot see how the server ends."""
        return lambda: None

    def run(self, query: Any, start: Start | None = None) -> ConnectRun:
        """The run of a handle.

        A start that was seen is also reported: Connect reports it only to this client.
        """
        run = ConnectRun(query._session, query._query_id, query._run_id, query._name, start)
        stream = self._stream_of(query._session) if start is not None else None
        if stream is not None:
            stream.run_started(run.query_id, run.run_id, run.name)
        return run

    def run_id(self, query: Any) -> str:
        return str(query._run_id)

    def rebind(self, query: Any, run: Any) -> None:
        query._run_id = run.run_id

    def active(self, session: Any) -> list[ConnectRun]:
        """The active runs; none in a session that has ended, because its queries ended with it."""
        try:
            found = calls.manager(session, active=True).active.active_queries
        except SessionGone:
            return []
        return [ConnectRun(session, each.id.id, each.id.run_id, each.name or None) for each in found]

    def active_of(self, manager: Any) -> list[ConnectRun]:
        return self.active(manager._session)

    def reset_terminated(self, manager: Any) -> None:
        calls.manager(manager._session, reset_terminated=True)

    def is_outage(self, failure: Exception) -> bool:
        """Whether this is not the failure of a query."""
        from pyspark.errors import StreamingQueryException

        return not isinstance(failure, StreamingQueryException)

    def outage(self, error: Exception | None) -> SparkOutage | None:
        """By gRPC's status code; without an error nothing is known."""
        cause = error.outage if isinstance(error, ConnectError) else None
        return None if cause is None else SparkOutage(cause, str(error))

    def permanent_outage(self, run: SparkRun) -> Exception | None:
        """A server that does not answer may come back; a session that has ended does not."""
        try:
            run.status()
        except ConnectError as error:
            return None if error.retryable else error
        return None

    def tasks(self, session: Any, run_id: str) -> SparkTasks | None:
        """None: a client cannot see the driver's jobs."""
        return None

    def driver_figures(self, session: Any) -> dict[str, Any]:
        """Empty: a client cannot see the driver."""
        return {}

    def pool(self, session: Any) -> str | None:
        """None: scheduler pools are not available to clients."""
        return None

    def activate(self, session: Any, pool: str | None) -> None:
        type(session)._active_session.session = session

    def stream_formats(self, writer: Any) -> list[str]:
        return _leaf_names(writer, "stream")

    def static_leaves(self, writer: Any) -> list[str]:
        return _leaf_names(writer, "static")

    # -- events ----------------------------------------------------------------------------------

    def listen(self, session: Any, listener: Any) -> Callable[[], None]:
        """Receive the session's events through an `EventStream`."""
        if not hasattr(type(session), "streams"):
            raise AgentError("this PySpark's Connect has no streaming; use PySpark 3.5 or later")
        key = self.key(session)
        with self._lock:
            if not self._streams:
                self._patches, self._process = Patches(), os.getpid()
                bus.wrap_bus(self._patches, self._stream_of)
            self._streams[key] = stream = EventStream(session, listener)
        stream.start()
        return partial(self._stop_listening, key, stream)

    def _stop_listening(self, key: int, stream: EventStream) -> None:
        with self._lock:
            if self._streams.get(key) is stream:
                del self._streams[key]
            if not self._streams:
                self._patches.undo()
        stream.close()

    def _stream_of(self, session: Any) -> EventStream | None:
        """None in a forked child: the threads belong to the parent."""
        return self._streams.get(self.key(session)) if os.getpid() == self._process else None


ENGINE = ConnectEngine()


def _leaf_names(writer: Any, kind: str) -> list[str]:
    return [leaf.name for leaf in connect_plan.leaves(writer._write_proto.input) if leaf.kind == kind]
