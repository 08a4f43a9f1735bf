"""The whole agent with a Spark that hangs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from listeners import attachment
from listeners.protocol import wire
from listeners.spark.engine import SparkOutage


class HangingEngine:
    """An engine whose listeners cannot be removed."""

    independent_sessions = False
    spark_outage: SparkOutage | None = None

    def __init__(self) -> None:
        self.asked, self.released = threading.Event(), threading.Event()

    def app(self, session: Any) -> dict[str, Any]:
        return {"name": "orders", "id": "local-1"}

    def setting(self, session: Any, name: str) -> str | None:
        return None

    def classes(self) -> dict[str, type]:
        return {}

    def on_signal(self, session: Any, act: Callable[[str], None]) -> Callable[[], None]:
        return lambda: None

    def outage(self, error: Exception | None) -> SparkOutage | None:
        return self.spark_outage

    def key(self, session: Any) -> int:
        return id(session)

    def listen(self, session: Any, listener: Any) -> Callable[[], None]:
        def remove() -> None:
            self.asked.set()
            assert self.released.wait(20)

        return remove


class Session:
    pass


KILLED = SparkOutage("jvm_exited", "the driver's JVM has ended by signal 9", certain=True)
TERMINATED = KILLED._replace(by_sigterm=True)


@pytest.mark.parametrize(
    ("outage", "exception", "interrupted", "asked", "reason"),
    [
        (None, None, False, "exit", "exit"),
        (None, "ValueError: x", False, "exit", "exception"),
        (None, None, True, "exit", "sigint"),
        (KILLED, "Py4JNetworkError: refused", False, "exit", "jvm_exited"),
        (KILLED, None, False, "session_stopped", "jvm_exited"),
        (TERMINATED, "Py4JNetworkError: refused", False, "exit", "sigterm"),
        (KILLED, None, False, "sigterm", "sigterm"),
    ],
)
def test_end_of_the_jvm_explains_an_exception_and_a_signal_explains_both(
    outage: SparkOutage | None,
    exception: str | None,
    interrupted: bool,
    asked: str,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = HangingEngine()
    engine.released.set()
    engine.spark_outage = outage
    monkeypatch.setenv("CONTROLPLANE_SPOOL_DIR", str(tmp_path))
    monkeypatch.setattr(attachment, "engine_of", lambda session: engine)
    made = attachment.Attachment(Session(), "http://127.0.0.1:9", None, {}, None, "all")
    made.exception, made.interrupted = exception, interrupted
    made.agent.start()
    made.detach(asked, timeout=0.5)
    spooled = b"".join(path.read_bytes() for path in tmp_path.rglob("*.events"))
    assert f'"reason":"{reason}"'.encode() in spooled


def _fails(session: Any) -> Any:
    raise ConnectionError("away")


@pytest.mark.parametrize(
    ("connect", "reason", "released", "active", "listed"),
    [
        (True, "sigterm", "false", lambda session: [SimpleNamespace(run_id="r1")], ["r1"]),
        (True, "exit", "false", lambda session: [], []),
        (True, "exit", "true", lambda session: [SimpleNamespace(run_id="r1")], []),
        (True, "session_stopped", "false", lambda session: [SimpleNamespace(run_id="r1")], []),
        (True, "exit", "false", _fails, ["known"]),
        (False, "exit", "false", lambda session: [SimpleNamespace(run_id="r1")], []),
        (False, "detached", "false", lambda session: [SimpleNamespace(run_id="r1")], ["r1"]),
    ],
    ids=[
        "a client's end",
        "its query ended",
        "it releases its session",
        "its session ended",
        "no answer",
        "a driver's end",
        "detached",
    ],
)
def test_the_end_of_an_agent_lists_the_runs_that_go_on(
    connect: bool,
    reason: str,
    released: str,
    active: Callable[[Any], Any],
    listed: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, session = HangingEngine(), Session()
    engine.released.set()
    engine.independent_sessions, engine.active = connect, active  # type: ignore[attr-defined]
    monkeypatch.setenv("CONTROLPLANE_SPOOL_DIR", str(tmp_path))
    monkeypatch.setenv("SPARK_CONNECT_RELEASE_SESSION_ON_EXIT", released)
    monkeypatch.setattr(attachment, "engine_of", lambda session: engine)
    made = attachment.Attachment(session, "http://127.0.0.1:9", None, {}, None, "all")
    run = SimpleNamespace(run_id="known", is_active=lambda: True)
    known = SimpleNamespace(run_id="known", run=run, session=session, session_key=engine.key(session))
    monkeypatch.setattr(made.registry, "entries", lambda: [known])
    monkeypatch.setattr(made.agent, "_probe", lambda: {"queries": []})
    made.agent.start()
    made.detach(*([] if reason == "detached" else [reason]), timeout=0.5)
    spooled = b"".join(path.read_bytes() for path in tmp_path.rglob("*.events"))
    (end,) = [json.loads(line)["data"] for line in _events(spooled) if b'"app_ended"' in line]
    assert (end["reason"], end["activeRuns"]) == (reason, listed)


def _events(spooled: bytes) -> list[bytes]:
    return [line[line.index(b"{") :] for line in spooled.splitlines() if b"{" in line]


@pytest.mark.parametrize(("outage", "reports"), [(None, 1), (KILLED, 0)])
def test_start_that_fails_because_spark_is_gone_is_no_failure_of_the_query(
    outage: SparkOutage | None, reports: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = HangingEngine()
    engine.spark_outage = outage
    monkeypatch.setenv("CONTROLPLANE_SPOOL_DIR", str(tmp_path))
    monkeypatch.setattr(attachment, "engine_of", lambda session: engine)
    made = attachment.Attachment(Session(), "http://127.0.0.1:9", None, {}, None, "all")
    made.start_failed("orders", "start", ConnectionRefusedError("refused"))
    assert [item.type for item in made.inbox.take(0.0)].count("start_failed") == reports


def test_hanging_spark_does_not_delay_the_end_of_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, terminated = HangingEngine(), []
    monkeypatch.setenv("CONTROLPLANE_SPOOL_DIR", str(tmp_path))
    monkeypatch.setattr(attachment, "engine_of", lambda session: engine)
    monkeypatch.setattr(attachment, "REMOVAL_SECONDS", 0.05)
    made = attachment.Attachment(
        Session(), "http://127.0.0.1:9", None, {}, None, "all", on_end=terminated.append
    )
    session = Session()
    made.add_session(session)
    made.agent.start()
    made.detach(timeout=0.5)
    assert terminated == [made] and engine.asked.is_set() and not engine.released.is_set()
    assert any(b'"app_ended"' in path.read_bytes() for path in tmp_path.rglob("*.events"))
    engine.released.set()


def test_command_that_fails_because_the_jvm_has_ended_names_that_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = HangingEngine()
    monkeypatch.setenv("CONTROLPLANE_SPOOL_DIR", str(tmp_path))
    monkeypatch.setattr(attachment, "engine_of", lambda session: engine)
    made = attachment.Attachment(Session(), "http://127.0.0.1:9", None, {}, None, "all")
    refused = wire.CommandResult("failed", "ConnectionRefusedError: [Errno 111] Connection refused")
    monkeypatch.setattr(made._executor, "execute", lambda command: refused)
    command = wire.Command("c", "restart", "q")
    assert made._execute(command) == refused
    engine.spark_outage = KILLED
    result = made._execute(command)
    assert (result.state, result.code) == ("failed", "jvm_exited")
    assert result.reason == "the driver's JVM has ended by signal 9; start the application"
