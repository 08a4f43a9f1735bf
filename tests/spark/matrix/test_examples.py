"""Spark's own streaming examples from its wheel, with the agent, on each Spark version."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.recording_server import RecordingServer
from tests.spark.matrix.sparks import NEWEST, ROOT, VERSIONS, environment, interpreter

pytestmark = pytest.mark.matrix

#: Program → its arguments after host and port.
SOCKET_EXAMPLES = {
    "structured_network_wordcount.py": (),
    "structured_network_wordcount_windowed.py": ("10", "5"),
    "structured_network_wordcount_session_window.py": (),
}
#: A Python data source on the default trigger; it needs no socket, and only a new Spark has it.
BLOCKCHAIN = "structured_blockchain_admission_control.py"


@contextmanager
def expected() -> Iterator[int]:
    """A line server that sends the same few words to every client until it is closed."""
    stopped = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while not stopped.is_set():
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=speak, args=(connection,), daemon=True).start()

        def speak(connection: socket.socket) -> None:
            with connection:
                while not stopped.wait(0.2):
                    try:
                        connection.sendall(b"apache spark apache\n")
                    except OSError:
                        return

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield server.getsockname()[1]
        finally:
            stopped.set()


def example(python: str, name: str) -> Path:
    """The program in the wheel of this Spark."""
    found = subprocess.run(
        [python, "-c", "import pyspark; print(pyspark.__path__[0])"],
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(found.stdout.strip(), "examples/src/main/python/sql/streaming", name)


#: Two partitions instead of two hundred: the programs are Spark's, the size of this machine is ours.
SMALL = (
    "--master local[2] --driver-memory 700m --conf spark.ui.enabled=false "
    "--conf spark.sql.shuffle.partitions=2 pyspark-shell"
)


def run(command: list[str], environ: dict[str, str], directory: Path) -> subprocess.Popen[bytes]:
    environ = {**environ, "PYSPARK_SUBMIT_ARGS": SMALL}
    with open(directory / "example.log", "wb") as log:
        return subprocess.Popen(command, env=environ, cwd=directory, stdout=log, stderr=log)


def follow(recorder: RecordingServer, process: subprocess.Popen[bytes], directory: Path) -> dict[str, Any]:
    """The first report of a batch with rows in it, while the program lives."""

    def reported() -> list[dict[str, Any]]:
        assert process.poll() is None, (directory / "example.log").read_text()[-3000:]
        return [report for report in recorder.of_type("progress") if report["numInputRows"] > 0]

    return recorder.wait_for(reported, 300)[0]


#: All of them on the newest Spark, one on each older.
CASES = [(v, name) for v in VERSIONS for name in SOCKET_EXAMPLES if v == NEWEST or "windowed" in name]


@pytest.mark.parametrize(("version", "name"), CASES)
def test_an_example_of_sparks_is_followed_and_not_disturbed(
    version: str, name: str, agent_zip: Path, recorder: RecordingServer, tmp_path: Path
) -> None:
    python = interpreter(version)
    environ = environment(python, recorder.url, tmp_path, agent_zip)
    with expected() as port:
        command = [python, str(example(python, name)), "127.0.0.1", str(port), *SOCKET_EXAMPLES[name]]
        process = run(command, environ, tmp_path)
        try:
            report = follow(recorder, process, tmp_path)
            assert report["sources"][0]["description"].startswith("TextSocket")
            assert recorder.of_type("started", runId=report["runId"])
            process.terminate()
            assert process.wait(240) == -15
        finally:
            process.kill()
    printed = (tmp_path / "example.log").read_text()
    assert "apache" in printed or "Batch: 0" in printed
    assert "listeners" not in printed and "control plane" not in printed


@pytest.mark.parametrize("version", [version for version in VERSIONS if version == NEWEST])
def test_an_example_that_spark_refuses_fails_as_without_the_agent_and_is_reported(
    version: str, agent_zip: Path, recorder: RecordingServer, tmp_path: Path
) -> None:
    """Session windows have no output mode `update`; the example asks for it."""
    python = interpreter(version)
    with expected() as port:
        command = [python, str(example(python, "structured_sessionization.py")), "127.0.0.1", str(port)]
        assert run(command, environment(python, recorder.url, tmp_path, agent_zip), tmp_path).wait(240) == 1
    assert "AnalysisException" in (tmp_path / "example.log").read_text()
    failed = recorder.of_type("start_failed")
    assert [reported["errorClass"] for reported in failed] == ["STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"]
    assert [end["reason"] for end in recorder.of_type("app_ended")] == ["exception"]


@pytest.mark.parametrize("version", [version for version in VERSIONS if version == NEWEST])
def test_an_example_with_a_python_source_is_followed(
    version: str, agent_zip: Path, recorder: RecordingServer, tmp_path: Path
) -> None:
    python = interpreter(version)
    command = [python, str(example(python, BLOCKCHAIN))]
    process = run(command, environment(python, recorder.url, tmp_path, agent_zip), tmp_path)
    try:
        assert follow(recorder, process, tmp_path)["numInputRows"] == 20
        process.terminate()
        process.wait(240)
    finally:
        process.kill()
    assert "control plane" not in (tmp_path / "example.log").read_text()


@pytest.mark.parametrize("version", [version for version in VERSIONS if version == NEWEST])
def test_an_example_outlives_a_stop_of_its_query_by_command(
    version: str, recorder: RecordingServer, tmp_path: Path
) -> None:
    python = interpreter(version)
    program = str(example(python, "structured_network_wordcount.py"))
    environ = environment(python, recorder.url, tmp_path, ROOT)
    command = [python, "-m", "controlplane", "run", "--server", recorder.url, "--app", "expected", program]
    with expected() as port:
        process = run([*command, "127.0.0.1", str(port)], environ, tmp_path)
        try:
            report = follow(recorder, process, tmp_path)
            result = recorder.command("stop", report["id"])
            assert result["state"] == "succeeded", result
            assert process.poll() is None  # its awaitTermination outlives a commanded stop
            assert {event["app"]["name"] for event in recorder.events} == {"expected"}
            process.terminate()
            assert process.wait(240) == -15
        finally:
            process.kill()
