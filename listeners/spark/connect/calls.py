"""The agent's calls to a Spark Connect server: each with its own deadline, without retries.

PySpark's own calls retry for minutes while the server is unreachable, which the agent must not. These calls
use the session's channel and request builder (`pyspark.sql.connect.client`, 3.5 to 4.3) below its public
objects, so Spark's JSON stays unparsed. Errors are `ConnectError` and its subclasses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from listeners.protocol.errors import ConnectError, RunUnknown, SessionGone
from listeners.protocol.wire import NO_ANSWER, SERVER_AWAY, SESSION_GONE

ANSWER_SECONDS = 10.0
#: For a setting or the version, which are read on the program's own thread while it attaches.
SETTING_SECONDS = 3.0
#: Error conditions of a session that has ended for good.
GONE = ("INVALID_HANDLE.SESSION", "NO_ACTIVE_SESSION", "SESSION_CLOSED", "SESSION_CHANGED")
#: The type of the stream's first event, sent once the server has added the listener.
ADDED = "added"
#: Spark's `StreamingQueryEventType` by number.
EVENTS = {1: "progress", 2: "terminated", 3: "idle"}

_UNKNOWN_RUN = re.compile(r"Streaming query \S+ is not found")


def query(
    session: Any, query_id: str, run_id: str, seconds: float | None = ANSWER_SECONDS, **fields: Any
) -> Any:
    """The `StreamingQueryCommandResult` for one run; `fields` are fields of `StreamingQueryCommand`."""
    command = _proto().Command()
    command.streaming_query_command.query_id.id = query_id
    command.streaming_query_command.query_id.run_id = run_id
    for name, value in fields.items():
        setattr(command.streaming_query_command, name, value)
    return _answer(session, command, "streaming_query_command_result", seconds)


def has_terminated(session: Any, query_id: str, run_id: str) -> bool:
    """Whether a run has ended, including its last batch; ConnectError if it ended with a failure."""
    command = _proto().Command()
    command.streaming_query_command.query_id.id = query_id
    command.streaming_query_command.query_id.run_id = run_id
    command.streaming_query_command.await_termination.timeout_ms = 1
    found = _answer(session, command, "streaming_query_command_result", ANSWER_SECONDS)
    return bool(found.await_termination.terminated)


def manager(session: Any, wait_for_ready: bool = False, **fields: Any) -> Any:
    """The `StreamingQueryManagerCommandResult`; `fields` are fields of `StreamingQueryManagerCommand`.

    `wait_for_ready`: without a connection, wait for the next one, for as long as for an answer.
    """
    command = _proto().Command()
    for name, value in fields.items():
        setattr(command.streaming_query_manager_command, name, value)
    return _answer(session, command, "streaming_query_manager_command_result", ANSWER_SECONDS, wait_for_ready)


def settings(session: Any, *names: str) -> dict[str, str]:
    """The values of these settings on the server; settings without value or default are left out."""
    client = session.client
    try:
        request = client._config_request_with_metadata()
        request.operation.get_option.keys.extend(names)
        answer = client._stub.Config(request, metadata=client._builder.metadata(), timeout=SETTING_SECONDS)
    except Exception as error:
        raise _connect_error(error) from error
    return {pair.key: pair.value for pair in answer.pairs if pair.HasField("value")}


def version(session: Any) -> str:
    """The server's Spark version."""
    client = session.client
    try:
        request = client._analyze_plan_request_with_metadata()
        request.spark_version.SetInParent()
        answer = client._stub.AnalyzePlan(
            request, metadata=client._builder.metadata(), timeout=SETTING_SECONDS
        )
    except Exception as error:
        raise _connect_error(error) from error
    return str(answer.spark_version.version)


def can_listen() -> bool:
    """Whether this PySpark supports events sent to the client (4.0 and later)."""
    return hasattr(_proto(), "StreamingQueryListenerBusCommand")


def open_events(session: Any) -> Any:
    """Request the session's events. The returned call is the argument of `events` and has `cancel()`.

    A session has one such stream (Spark 4.3). If there is one already, this call stays silent forever:
    it does not even send ADDED.
    """
    command = _proto().Command()
    command.streaming_query_listener_bus_command.add_listener_bus_listener = True
    try:
        return _execute(session, command, None)
    except Exception as error:
        raise _connect_error(error) from error


def events(call: Any) -> Iterator[tuple[str, str]]:
    """(type, JSON) of each event as it arrives, ADDED first. Ends when the listener is removed."""
    try:
        for response in call:
            if response.HasField("streaming_query_listener_events_result"):
                found = response.streaming_query_listener_events_result
                if found.HasField("listener_bus_listener_added"):
                    yield ADDED, ""
                for event in found.events:
                    if event.event_type in EVENTS:
                        yield EVENTS[event.event_type], event.event_json
    except Exception as error:
        raise _connect_error(error) from error


def close_events(session: Any, seconds: float = ANSWER_SECONDS) -> None:
    """Remove the session's listener, whoever added it; its stream ends.

    Cancelling a stream does not do that.
    """
    command = _proto().Command()
    command.streaming_query_listener_bus_command.remove_listener_bus_listener = True
    try:
        for _ in _execute(session, command, seconds):
            pass
    except Exception as error:
        raise _connect_error(error) from error


def _proto() -> Any:
    import pyspark.sql.connect.proto as proto

    return proto


def _answer(
    session: Any, command: Any, field: str, seconds: float | None, wait_for_ready: bool = False
) -> Any:
    found = None
    try:
        for response in _execute(session, command, seconds, wait_for_ready):
            if response.HasField(field):
                found = getattr(response, field)
    except Exception as error:
        raise _connect_error(error) from error
    if found is None:
        raise ConnectError("the Spark Connect server's answer lacks " + field)
    return found


def _execute(session: Any, command: Any, seconds: float | None, wait_for_ready: bool = False) -> Any:
    client = session.client
    request = client._execute_plan_request_with_metadata()
    request.plan.command.CopyFrom(command)
    metadata = client._builder.metadata()
    return client._stub.ExecutePlan(
        request, metadata=metadata, timeout=seconds, wait_for_ready=wait_for_ready
    )


def _connect_error(error: Exception) -> ConnectError:
    """A ConnectError for gRPC's error, which has `code()` and `details()`, or a closed client's error."""
    if isinstance(error, ConnectError):
        return error
    details = getattr(error, "details", None)
    text = str(details() if callable(details) else error)
    short = text.strip().splitlines()[0][:500] if text.strip() else type(error).__name__
    if "STREAMING_QUERY_NOT_FOUND" in text or _UNKNOWN_RUN.search(text):
        return RunUnknown("the Spark Connect server does not know this run: " + short)
    if any(condition in text for condition in GONE) or "closed channel" in text:
        return SessionGone(f"{SESSION_GONE}: {short}")
    return ConnectError("the Spark Connect server did not answer: " + short, _outage(error))


def _outage(error: Exception) -> str | None:
    """The cause by gRPC's status code; every other code is an answer of the server."""
    code = getattr(error, "code", None)
    name = getattr(code(), "name", None) if callable(code) else None
    return {"UNAVAILABLE": SERVER_AWAY, "DEADLINE_EXCEEDED": NO_ANSWER}.get(str(name))
