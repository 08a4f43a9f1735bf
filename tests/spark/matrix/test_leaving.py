"""Detaching on each Spark version: the agent detaches on request, attaches to a new session, and leaves no trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.recording_server import RecordingServer
from tests.spark.matrix.sparks import SESSION, VERSIONS, Console, environment, interpreter

pytestmark = [pytest.mark.matrix, pytest.mark.parametrize("version", VERSIONS)]

Start = Callable[..., Console]

QUERY = """
    def start(name):
        stream = spark.readStream.format("rate").load().writeStream.format("noop").queryName(name)
        return stream.option("checkpointLocation", {directory!r} + "/" + name).start()
    query = start({name!r})
    while not query.lastProgress:
        pass
    query.stop()
"""
METHODS = """
    from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    def methods():
        found = [DataStreamWriter.option, DataStreamWriter.start, StreamingQuery.awaitTermination,
                 StreamingQuery.stop, StreamingQueryManager.awaitAnyTermination, SparkSession.stop]
        return [method.__code__.co_filename.split("/")[-1] for method in found]
"""


@pytest.fixture
def drive(agent_zip: Path, tmp_path: Path, recorder: RecordingServer) -> Iterator[Start]:
    with ExitStack() as ends:

        def start(version: str, *flags: str) -> Console:
            python = interpreter(version)
            made = Console(tmp_path, python, environment(python, recorder.url, tmp_path, agent_zip), *flags)
            ends.callback(made.close)
            made.do(SESSION)
            return made

        yield start


def test_after_detach_pyspark_is_as_it_was_and_runs_on(
    version: str, drive: Start, recorder: RecordingServer, tmp_path: Path
) -> None:
    driver = drive(version)
    driver.do(METHODS)
    assert set(driver.tell("methods()")) == {"patching.py"}
    driver.do("from listeners import attach; attach.current().detach()")
    recorder.wait_for(lambda: recorder.of_type("app_ended"))
    after = driver.tell("methods()")
    assert "patching.py" not in after
    driver.do("make()")
    driver.do(QUERY.format(directory=str(tmp_path), name="unheard"))
    assert driver.tell("attach.current() is None") is True
    assert driver.leave() == 0
    assert not recorder.of_type("started")


def test_a_new_session_after_the_last_was_stopped_has_an_agent_again(
    version: str, drive: Start, recorder: RecordingServer, tmp_path: Path
) -> None:
    driver = drive(version)
    driver.do(QUERY.format(directory=str(tmp_path), name="first"))
    driver.do("spark.stop()")
    ended = recorder.wait_for(lambda: recorder.of_type("app_ended"))
    assert [end["reason"] for end in ended] == ["session_stopped"]
    driver.do("spark = make()")
    driver.do(QUERY.format(directory=str(tmp_path), name="second"))
    assert driver.leave() == 0
    assert [output["name"] for output in recorder.of_type("started")] == ["first", "second"]
    assert [output["exception"] for output in recorder.of_type("terminated")] == [None, None]
    assert [end["reason"] for end in recorder.of_type("app_ended")] == ["session_stopped", "exit"]
    agents = {event["agent"]: event["app"]["id"] for event in recorder.events}
    assert len(agents) == len(set(agents.values())) == 2


def test_a_program_without_its_server_ends_without_output_of_the_agent(
    version: str, drive: Start, recorder: RecordingServer, tmp_path: Path
) -> None:
    driver = drive(version, "-X", "dev")
    driver.do("import logging; logging.disable(logging.WARNING)")
    recorder.wait_for(lambda: recorder.of_type("app_started"))
    recorder.close()
    driver.do(QUERY.format(directory=str(tmp_path), name="untold"))
    assert driver.leave() == 0
    log = driver.log.read_text()
    assert "Exception ignored" not in log and "Traceback" not in log
    assert [line for line in log.splitlines() if "listeners/" in line] == []
