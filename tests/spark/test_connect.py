"""The agent on a real Spark Connect server: every batch once, restarts, and broken connections."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from tests.recording_server import RecordingServer
from tests.spark.connect_server import ConnectServer, Wire, connect_server
from tests.spark.deployment import ROOT, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.long]

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with connect_server(tmp_path_factory.mktemp("connect")) as server:
        yield server


@pytest.fixture
def wire(server: ConnectServer) -> Iterator[Wire]:
    made = Wire(server.port)
    yield made
    made.close()


@pytest.fixture
def client(server: ConnectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setenv("CONTROLPLANE_SPOOL_DIR", str(tmp_path / "spool"))
    client = Client(server, tmp_path)
    yield client
    client.close()


class Client:
    """Sessions of the server in this process, and the agent in it."""

    def __init__(self, server: ConnectServer, directory: Path):
        self._server, self.directory = server, directory
        self._sessions: list[Any] = []
        self.attachment: Any = None

    def session(self, more: str = "", url: str | None = None) -> Any:
        from pyspark.sql.connect.session import SparkSession

        made = SparkSession.builder.remote((url or self._server.url) + more).create()
        self._sessions.append(made)
        return made

    def attach(self, spark: Any, recorder: RecordingServer) -> Any:
        from listeners.attach import attach

        self.attachment = attach(spark, server=recorder.url, app="connect", token="t")
        assert self.attachment
        return self.attachment

    def writer(self, spark: Any, name: str, source: Any = None) -> Any:
        read = spark.readStream.format("rate").option("rowsPerSecond", 5).load() if source is None else source
        write = read.writeStream.format("noop").queryName(name).trigger(processingTime="500 milliseconds")
        return write.option("checkpointLocation", str(self.checkpoint(name)))

    def checkpoint(self, name: str) -> Path:
        return self.directory / f"checkpoint-{name}"

    def committed(self, name: str) -> list[int]:
        return sorted(int(p.name) for p in (self.checkpoint(name) / "commits").glob("[0-9]*"))

    def close(self) -> None:
        if self.attachment:
            self.attachment.detach()
        for session in self._sessions:
            with suppress(PySparkException):  # the server knows it no more, or it was another's too
                for query in session.streams.active:
                    query.stop()
            session.stop()


def batches(recorder: RecordingServer, run_id: str) -> list[int]:
    return [p["batchId"] for p in recorder.of_type("progress", runId=run_id)]


def runs_on(recorder: RecordingServer, run_id: str, more: int = 2) -> None:
    """At least so many batches more than now have been reported."""
    before = len(batches(recorder, run_id))
    recorder.wait_for(lambda: len(batches(recorder, run_id)) >= before + more)


def facts_of(recorder: RecordingServer, name: str) -> dict[str, Any]:
    output = [q for s in recorder.of_type("status") for q in s["queries"]]
    return next((q["facts"] for q in output if q.get("name") == name and "facts" in q), {})


def run_aside(act: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


# -- events ---------------------------------------------------------------------------------------


def test_every_batch_of_a_query_is_reported_once_between_its_start_and_its_end(client, recorder):
    spark = client.session()
    client.attach(spark, recorder)
    query = client.writer(spark, "plain").start()
    runs_on(recorder, query.runId, 4)
    query.stop()
    end = recorder.wait_for(lambda: recorder.of_type("terminated", runId=query.runId))[0]
    assert end["id"] == query.id and not end.get("exception")
    recorder.wait_for(lambda: batches(recorder, query.runId) == client.committed("plain"))
    types = [e["type"] for e in recorder.events if e["data"].get("runId") == query.runId]
    assert types[0] == "started" and types.count("started") == 1 and types.count("terminated") == 1
    assert recorder.events[0]["app"]["spark_version"].startswith("4.")


def test_the_facts_are_read_from_the_request_that_started_the_query(client, recorder):
    spark = client.session()
    client.attach(spark, recorder)
    late = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute 30 seconds")
    client.writer(spark, "told", late).start()
    facts = recorder.wait_for(lambda: facts_of(recorder, "told"))
    assert (facts["trigger"], facts["triggerInterval"]) == ("processing_time", 0.5)
    assert facts["checkpoint"] == str(client.checkpoint("told")) and facts["checkpointIsTemporary"] is False
    assert (facts["sink"], facts["outputMode"], facts["watermarkDelay"]) == ("noop", "append", 90.0)
    assert (facts["restart"], facts["shape"]) == ("reuse", None)


def test_a_query_that_another_client_of_the_session_starts_is_reported(client, recorder):
    spark = client.session()
    client.attach(spark, recorder)
    other = client.session(f"/;session_id={spark.session_id}")
    query = other.readStream.format("rate").load().writeStream.format("noop").queryName("foreign")
    # Below the wrapped methods: as it is in another process.
    query.option("checkpointLocation", str(client.checkpoint("foreign")))
    started = query._start_internal(queryName="foreign")
    recorder.wait_for(lambda: batches(recorder, started.runId))
    output = recorder.of_type("started", runId=started.runId)
    assert [(t["id"], t["name"]) for t in output] == [(started.id, "foreign")]
    assert recorder.command("stop", started.id)["evidence"]["code"] == "unknown_query"


def test_the_recent_progress_of_a_query_that_ran_before_is_reported(client, recorder):
    spark = client.session()
    query = client.writer(spark, "before").start()
    wait_for(lambda: len(query.recentProgress) >= 3)
    client.attach(spark, recorder)
    runs_on(recorder, query.runId, 5)
    reported = batches(recorder, query.runId)
    assert sorted(reported) == list(range(len(reported)))
    assert recorder.of_type("started", runId=query.runId)[0]["name"] == "before"


def test_a_failure_is_reported_with_its_condition_and_raised_as_pyspark_does(client, recorder):
    from pyspark.errors import StreamingQueryException

    spark = client.session()
    client.attach(spark, recorder)
    broken = spark.readStream.format("rate").load().selectExpr("assert_true(value < 0) AS never")
    query = client.writer(spark, "broken", broken).start()
    with pytest.raises(StreamingQueryException, match="STREAM_FAILED"):
        query.awaitTermination()
    end = recorder.wait_for(lambda: recorder.of_type("terminated", runId=query.runId))[0]
    assert "is not true" in end["exception"]


# -- beside the program's own listeners ------------------------------------------------------------


def counting_listener() -> Any:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Counting(StreamingQueryListener):
        def __init__(self) -> None:
            self.batches: list[int] = []

        def onQueryStarted(self, event: Any) -> None: ...

        def onQueryProgress(self, event: Any) -> None:
            self.batches.append(event.progress.batchId)

        def onQueryIdle(self, event: Any) -> None: ...

        def onQueryTerminated(self, event: Any) -> None: ...

    return Counting()


def test_the_programs_own_listener_and_the_agent_both_get_every_event(client, recorder):
    spark = client.session()
    client.attach(spark, recorder)
    query = client.writer(spark, "shared").start()
    runs_on(recorder, query.runId)
    own = counting_listener()
    spark.streams.addListener(own)
    wait_for(lambda: len(own.batches) >= 3)
    spark.streams.removeListener(own)
    received = len(own.batches)
    runs_on(recorder, query.runId, 3)
    assert len(own.batches) == received
    assert not [t for t in threading.enumerate() if "_query_event_handler" in t.name]
    query.stop()
    recorder.wait_for(lambda: recorder.of_type("terminated", runId=query.runId))
    recorder.wait_for(lambda: batches(recorder, query.runId) == client.committed("shared"))


def test_a_listener_that_the_program_had_before_keeps_its_stream(client, recorder):
    spark = client.session()
    own = counting_listener()
    spark.streams.addListener(own)
    client.attach(spark, recorder)
    query = client.writer(spark, "guests").start()
    runs_on(recorder, query.runId, 3)
    wait_for(lambda: len(own.batches) >= 3)
    client.attachment.detach()
    received = len(own.batches)
    wait_for(lambda: len(own.batches) >= received + 2)
    assert spark.streams._sqlb._listener_bus == [own]
    spark.streams.removeListener(own)


# -- commands --------------------------------------------------------------------------------------


def test_a_restart_resumes_after_the_last_batch_and_handle_and_wait_follow(client, recorder):
    spark = client.session()
    client.attach(spark, recorder)
    query = client.writer(spark, "again").start()
    first = query.runId
    runs_on(recorder, first)
    waiter = run_aside(query.awaitTermination)
    result = recorder.command("restart", query.id)
    assert result["state"] == "succeeded", result
    assert query.runId == result["evidence"]["run_id"] != first
    runs_on(recorder, query.runId)
    assert waiter.is_alive() and query.isActive
    query.stop()
    waiter.join(20)
    assert not waiter.is_alive()
    recorder.wait_for(
        lambda: sorted(batches(recorder, first) + batches(recorder, query.runId)) == client.committed("again")
    )


def test_await_any_termination_outlives_a_stop_and_a_start_by_command(client, recorder):
    spark = client.session()
    client.attach(spark, recorder)
    query, other = client.writer(spark, "one").start(), client.writer(spark, "other").start()
    runs_on(recorder, query.runId)
    waiter = run_aside(spark.streams.awaitAnyTermination)
    assert recorder.command("stop", query.id)["state"] == "succeeded"
    runs_on(recorder, other.runId)
    assert recorder.command("start", query.id)["state"] == "succeeded"
    assert waiter.is_alive()
    other.stop()
    waiter.join(20)
    assert not waiter.is_alive()


def test_static_data_and_a_made_up_checkpoint_need_a_factory_and_with_it_the_query_resumes(client, recorder):
    spark = client.session()
    attachment = client.attach(spark, recorder)
    spark.range(10).write.parquet(str(client.directory / "static"))

    def joined() -> Any:
        static = spark.read.parquet(str(client.directory / "static"))
        rate = spark.readStream.format("rate").load()
        return client.writer(spark, "joined", rate.join(static, rate.value == static.id)).start()

    query = joined()
    runs_on(recorder, query.runId, 1)
    assert "parquet" in recorder.command("restart", query.id)["reason"]
    attachment.factory("joined")(joined)
    assert recorder.command("restart", query.id)["state"] == "succeeded"
    bare = spark.readStream.format("rate").load().writeStream.format("noop").queryName("bare").start()
    assert recorder.command("restart", bare.id)["evidence"]["code"] == "temporary_checkpoint"


# -- what breaks -----------------------------------------------------------------------------------


def test_after_the_connection_was_cut_every_batch_is_reported_once(wire, client, recorder):
    spark = client.session(url=wire.url)
    client.attach(spark, recorder)
    query = client.writer(spark, "cut").start()
    runs_on(recorder, query.runId)
    before = client.committed("cut")[-1]
    wire.cut()
    wait_for(lambda: client.committed("cut")[-1] > before + 10)
    wire.mend()
    runs_on(recorder, query.runId, 20)
    # New reports may arrive by the stream before the missed ones are read from Spark's memory.
    recorder.wait_for(lambda: set(range(before + 10)) <= set(batches(recorder, query.runId)))
    reported = batches(recorder, query.runId)
    assert len(reported) == len(set(reported))
    receiving = _receiving(spark)
    wait_for(receiving.is_streaming)
    query.stop()
    recorder.wait_for(lambda: recorder.of_type("terminated", runId=query.runId))


def _receiving(spark: Any) -> Any:
    from listeners.spark.connect.session import ENGINE

    return ENGINE._streams[ENGINE.key(spark)]


def test_a_killed_server_ends_its_queries_and_the_agent_goes_on_with_a_new_session(client, recorder, server):
    spark = client.session()
    client.attach(spark, recorder)
    query = client.writer(spark, "killed").start()
    runs_on(recorder, query.runId)
    server.kill()
    server.start()
    end = recorder.wait_for(lambda: recorder.of_type("terminated", runId=query.runId), 300)[0]
    assert "session is gone" in end["exception"]
    new = client.session()
    again = client.writer(new, "killed").start()  # attaches its session by itself
    assert again.id == query.id
    runs_on(recorder, again.runId)
    recorder.wait_for(lambda: [s for s in recorder.of_type("status") if s["queries"]][-1:])


def test_a_program_with_the_agent_ends_by_itself_and_prints_what_it_does_without(server, recorder, tmp_path):
    printed = {}
    for kind in ("plain", "attached"):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "CONTROLPLANE_URL": recorder.url}
        environment |= {"CONTROLPLANE_TOKEN": "t", "CONTROLPLANE_SPOOL_DIR": str(tmp_path / "spool")}
        program = [sys.executable, str(PROGRAMS / "connect_guest.py"), kind, server.url, str(tmp_path / kind)]
        ended = subprocess.run(
            program, check=False, env=environment, capture_output=True, text=True, timeout=120
        )
        printed[kind] = (ended.returncode, ended.stdout, ended.stderr)
    assert printed["plain"] == printed["attached"] == (0, '{"batches": 3, "stopped": true}\n', "")
    assert recorder.of_type("app_ended") and recorder.of_type("terminated")
