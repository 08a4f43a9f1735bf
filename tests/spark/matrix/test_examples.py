"""Spark's own streaming examples from its wheel, with the agent: one on each Spark, all on the newest.

On the newest they run under `controlplane run` before a real server, whose figures must be those of Spark's event log.
The example that reads from Kafka needs a broker and a connector that the wheel lacks.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.recording_server import RecordingServer
from tests.spark.deployment import Deployment, wait_for
from tests.spark.matrix.sparks import NEWEST, VERSIONS, environment, interpreter

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


@pytest.mark.parametrize("version", VERSIONS)
def test_an_example_of_sparks_is_followed_and_not_disturbed(
    version: str, agent_zip: Path, recorder: RecordingServer, tmp_path: Path
) -> None:
    python = interpreter(version)
    environ = environment(python, recorder.url, tmp_path, agent_zip)
    with expected() as port:
        program = str(example(python, "structured_network_wordcount_windowed.py"))
        command = [python, program, "127.0.0.1", str(port), "10", "5"]
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


# -- all of them under `controlplane run` --------------------------------------------------------------

#: Spark's settings of the examples; `spark.eventLog` keeps what each query's `lastProgress` was.
DEFAULTS = """
spark.master local[2]
spark.driver.memory 700m
spark.ui.enabled false
spark.sql.shuffle.partitions 2
spark.eventLog.enabled true
spark.eventLog.compress false
spark.eventLog.rolling.enabled false
spark.eventLog.dir file://{logs}
"""
PROGRESS = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
newest_only = pytest.mark.skipif(NEWEST not in VERSIONS, reason=f"the matrix is without {NEWEST}")


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the event log of a program goes that is started from now on."""
    (tmp_path / "logs").mkdir()
    configure(tmp_path, monkeypatch)
    return tmp_path / "logs"


def configure(directory: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
    more = "".join(f"{name} {value}\n" for name, value in settings.items())
    (directory / "spark-defaults.conf").write_text(DEFAULTS.format(logs=directory / "logs") + more)
    monkeypatch.setenv("SPARK_CONF_DIR", str(directory))


def only_query(deployment: Deployment, process: subprocess.Popen[bytes], app: str) -> dict[str, Any]:
    """The program's query, once the server has a batch with rows of it."""

    def with_rows() -> Any:
        assert process.poll() is None, (deployment.directory / f"{app}.log").read_text()[-3000:]
        found = deployment.get("/api/v1/queries")["queries"]
        return [query for query in found if query["batch_id"] is not None and rows_of(deployment, query)]

    return dict(wait_for(with_rows, 300)[0])


def rows_of(deployment: Deployment, query: dict[str, Any]) -> int:
    return sum(report["numInputRows"] for report in stored(deployment, query).values())


def stored(deployment: Deployment, query: dict[str, Any]) -> dict[tuple[str, int], dict[str, Any]]:
    """The server's reports by run and batch; without those of idle triggers, which repeat the last batch."""
    path = f"/api/v1/queries/{query['query_id']}/events?type=progress&limit=1000"
    found = [event["data"] for event in deployment.get(path)["events"]]
    return {(report["runId"], report["batchId"]): report for report in found}


def by_spark(logs: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """What `lastProgress` was after each batch, from the event log."""
    lines = [json.loads(line) for log in logs.iterdir() for line in log.read_text().splitlines()]
    found = [line["progress"] for line in lines if line["Event"] == PROGRESS]
    return {(report["runId"], report["batchId"]): report for report in found}


def agree(deployment: Deployment, query: dict[str, Any], logs: Path) -> None:
    """The server has every batch of the event log, with each of Spark's figures."""
    ours = stored(deployment, query)
    wait_for(lambda: by_spark(logs).keys() >= ours.keys())
    theirs = by_spark(logs)
    for batch, report in ours.items():
        contains(report, theirs[batch], f"batch {batch}")
        assert report["numInputRows"] == sum(source["numInputRows"] for source in report["sources"])


def contains(ours: Any, theirs: Any, path: str) -> None:
    """`lastProgress` rounds rates. The event log lacks totals, and writes empty maps, nulls and quoted offsets."""
    if isinstance(theirs, dict):
        for name, value in theirs.items():
            if value not in ({}, None) and name != "snapshotCustomMetricNames":
                assert name in ours, f"{path}/{name}"
                contains(ours[name], offset(value) if name.endswith("Offset") else value, f"{path}/{name}")
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), path
        for number, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            contains(our, their, f"{path}[{number}]")
    else:
        assert ours == (pytest.approx(theirs, abs=0.05001) if isinstance(theirs, float) else theirs), path


def status_of(deployment: Deployment) -> str | None:
    """The status of the only query."""
    found = deployment.get("/api/v1/queries")["queries"]
    return str(found[0]["status"]) if found else None


def offset(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


@newest_only
@pytest.mark.parametrize("name", SOCKET_EXAMPLES)
def test_an_example_is_shown_with_sparks_figures_and_stops_by_command(
    name: str, deployment: Deployment, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "windowed" in name:  # it does not help
        location = logs.parent / "checkpoints"
        configure(logs.parent, monkeypatch, **{"spark.sql.streaming.checkpointLocation": location})
    with expected() as port:
        arguments = "127.0.0.1", str(port), *SOCKET_EXAMPLES[name]
        process = deployment.drive(str(example(sys.executable, name)), *arguments, app="example")
        query = only_query(deployment, process, "example")
        refused = deployment.cli("restart", query["query_id"])
        assert refused.returncode == 1
        assert "Spark's socket source cannot resume from a checkpoint" in refused.stdout
        assert deployment.act("stop", query["query_id"])["action"]["state"] == "succeeded"
        assert wait_for(lambda: status_of(deployment) == "stopped")
        assert process.poll() is None  # its awaitTermination outlives a commanded stop
    agree(deployment, query, logs)


@newest_only
def test_an_example_with_a_python_source_restarts_by_command(
    deployment: Deployment, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a name, so a location of checkpoints is all that it lacks. Its own `query.stop()` ends the new run."""
    location = logs.parent / "checkpoints"
    configure(logs.parent, monkeypatch, **{"spark.sql.streaming.checkpointLocation": location})
    release = deployment.directory / "release"
    program = str(example(sys.executable, BLOCKCHAIN))
    process = deployment.drive("held_example.py", program, str(release), app="example")
    query = only_query(deployment, process, "example")
    assert deployment.act("stop", query["query_id"])["action"]["state"] == "succeeded"
    assert deployment.act("start", query["query_id"])["action"]["state"] == "succeeded"
    assert deployment.act("restart", query["query_id"])["action"]["state"] == "succeeded"
    release.touch()
    assert process.wait(300) == 0, (deployment.directory / "example.log").read_text()[-3000:]
    assert wait_for(lambda: status_of(deployment) == "stopped")
    reports = stored(deployment, query)
    assert len({run for run, _ in reports}) == 3
    assert sorted({batch for _, batch in reports}) == list(range(1 + max(batch for _, batch in reports)))
    assert {report["numInputRows"] for report in reports.values()} <= {20}
    agree(deployment, query, logs)


@newest_only
def test_an_example_with_a_python_source_is_followed_to_its_end(deployment: Deployment, logs: Path) -> None:
    """The program sleeps for 30 s and stops its query; on a busy machine no batch may be complete by then."""
    process = deployment.drive(str(example(sys.executable, BLOCKCHAIN)), app="example")
    assert process.wait(300) == 0, (deployment.directory / "example.log").read_text()[-3000:]
    assert wait_for(lambda: status_of(deployment) == "stopped")
    query = deployment.queries()["admission_control_test"]
    reports = stored(deployment, query)
    assert {report["numInputRows"] for report in reports.values()} <= {20}
    assert sorted(batch for _, batch in reports) == list(range(len(reports)))
    agree(deployment, query, logs)
