"""A Connect program that is up before its server: the agent attaches at a start of a query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from listeners import attach
from tests.recording_server import RecordingServer
from tests.unit.listeners.fake_connect import FakeConnect

RUN = "22222222-2222-4222-8222-222222222222"


@pytest.fixture
def server() -> Iterator[FakeConnect]:
    made = FakeConnect()
    yield made
    made.close()


@pytest.fixture
def writer(server: FakeConnect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A writer whose `start` waits for the server, as PySpark's does, and whose query the server knows."""
    from pyspark.sql.connect.plan import LogicalPlan
    from pyspark.sql.connect.streaming.readwriter import DataStreamWriter

    def start(self: Any) -> Any:
        server.is_away = False
        run = server.run(RUN, "orders")
        return SimpleNamespace(_session=self._session, _query_id=run.query_id, _run_id=RUN, _name="orders")

    monkeypatch.setattr(DataStreamWriter, "start", start)
    monkeypatch.setenv("CONTROLPLANE_SPOOL_DIR", str(tmp_path))
    session = server.session()
    yield DataStreamWriter(LogicalPlan(None), session).format("noop")
    current = attach.current()
    if current is not None:
        current.detach(timeout=0.5)
    session.client.close()


@pytest.mark.parametrize("back_before_the_start", [True, False])
def test_agent_attaches_at_the_first_start_and_knows_it(
    back_before_the_start: bool, server: FakeConnect, writer: Any, recorder: RecordingServer
) -> None:
    from pyspark.sql.connect.streaming.readwriter import DataStreamWriter

    server.is_away = True
    attachment = attach.attach(writer._session, server=recorder.url, app="late", token="t")
    assert not attachment
    attachment.factory("orders")(len)
    server.is_away = not back_before_the_start
    query = writer.start()
    current = attach.current()
    assert current is not None
    entry = current.registry.entry(query._query_id)
    assert entry is not None and entry.start is not None and entry.start.writer is writer
    assert current.registry.factory("orders") is len
    recorder.wait_for(lambda: recorder.of_type("started", runId=RUN))
    current.detach(timeout=0.5)
    assert DataStreamWriter.start.__code__.co_filename == __file__


def test_server_that_stays_away_leaves_the_program_as_it_is(
    server: FakeConnect, writer: Any, recorder: RecordingServer
) -> None:
    server.is_away = True
    attachment = attach.attach(writer._session, server=recorder.url, app="late", token="t")
    attachment.detach()
    server.is_away = False
    writer.start()
    assert attach.current() is None


def test_refusal_that_no_retry_changes_is_final(server: FakeConnect, writer: Any) -> None:
    server.is_gone = True
    assert not attach.attach(writer._session, server="http://127.0.0.1:9", app="late", token="t")
    server.is_gone = False
    writer.start()
    assert attach.current() is None
