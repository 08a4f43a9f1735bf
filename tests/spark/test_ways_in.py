"""Every way to attach the agent on real Spark: spark-submit locally and on a cluster, the zip, the wheel."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from listeners.packaging import write_zip
from tests import class_archive
from tests.paths import ROOT
from tests.ports import free_port
from tests.recording_server import RecordingServer
from tests.spark.deployment import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.long]

PROGRAM = ROOT / "tests/spark/matrix/programs/copies.py"
SMALL = [
    "spark.ui.enabled=false",
    "spark.sql.shuffle.partitions=1",
    "spark.driver.memory=600m",
    f"spark.executor.extraJavaOptions={class_archive.jvm_options()}",
]
#: What a driver has of the environment of the tests; the last three let its JVMs start quickly.
KEPT = (
    *("PATH", "HOME", "JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"),
    *("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS", "SPARK_LAUNCHER_OPTS"),
)
OWN = ("alerts", "controlplane", "listeners", "ui")
TIMEOUT_SECONDS = 300.0


@dataclass
class Copy:
    """The program's arguments, what it needs around it, and what it reports."""

    directory: Path
    environ: dict[str, str]

    def __post_init__(self) -> None:
        (self.directory / "in").mkdir()
        (self.directory / "in/0.json").write_text('{"key": 1, "value": "a"}\n{"key": 2, "value": "b"}\n')

    @property
    def command(self) -> list[str]:
        places = [str(self.directory / name) for name in ("in", "out", "checkpoint", "report.json")]
        return [str(PROGRAM), *places]

    @property
    def report(self) -> dict[str, Any]:
        return json.loads((self.directory / "report.json").read_text())

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command, cwd=self.directory, env=self.environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout + done.stderr


@pytest.fixture
def copy(tmp_path: Path, recorder: RecordingServer) -> Copy:
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    settings = {"CONTROLPLANE_URL": recorder.url, "CONTROLPLANE_SPOOL_DIR": str(tmp_path / "spool")}
    return Copy(tmp_path, {**kept, **settings, "SPARK_LOCAL_IP": "127.0.0.1"})


@pytest.fixture
def agent_zip(tmp_path: Path) -> str:
    return write_zip(str(tmp_path / "agent.zip"))


def submit(*options: str) -> list[str]:
    settings = [word for setting in SMALL for word in ("--conf", setting)]
    return [str(Path(sys.executable).with_name("spark-submit")), *settings, *options]


def seen_whole(recorder: RecordingServer, copy: Copy, agent: str) -> None:
    """The query was followed from start to end by this agent, its rows are there, the workers were left alone."""
    assert copy.report["rows"] == [1, 2] and copy.report["in_worker"] == [[]]
    assert (
        agent in copy.report["agent"] and str(ROOT) not in copy.report["agent"]
    )  # Spark copies what it is given
    assert [output["name"] for output in recorder.of_type("started")] == ["copies"]
    assert [output["exception"] for output in recorder.of_type("terminated")] == [None]
    assert recorder.of_type("progress")[0]["numInputRows"] == 2
    assert [output["reason"] for output in recorder.of_type("app_ended")] == ["session_stopped"]


def test_spark_submit_with_the_zip_alone(copy: Copy, agent_zip: str, recorder: RecordingServer) -> None:
    copy.run(*submit("--master", "local[2]", "--py-files", agent_zip), *copy.command)
    seen_whole(recorder, copy, "/agent.zip/")


def test_sigterm_to_the_jvm_of_spark_submit_is_reported_before_the_pod_is_gone(
    copy: Copy, agent_zip: str, recorder: RecordingServer
) -> None:
    """A pod ends as soon as its first process, the JVM, has ended: Python has only the time until then."""
    program = ROOT / "tests/spark/programs/ends.py"
    command = submit("--py-files", agent_zip, str(program), str(copy.directory), "wait")
    process = subprocess.Popen(command, cwd=copy.directory, env=copy.environ, start_new_session=True)
    try:
        recorder.wait_for(lambda: recorder.of_type("progress"), TIMEOUT_SECONDS)
        process.terminate()
        process.wait(TIMEOUT_SECONDS)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    (ended,) = recorder.of_type("app_ended")
    assert (ended["reason"], ended["exception"]) == ("sigterm", None)


def test_spark_submit_with_a_sitecustomize_beside_the_wheel(copy: Copy, recorder: RecordingServer) -> None:
    wheel = built_wheel(copy.directory)
    hook = copy.directory / "sitecustomize.py"
    with zipfile.ZipFile(wheel) as archive:
        hook.write_bytes(archive.read("spark_controlplane/site/sitecustomize.py"))
    copy.run(*submit("--master", "local[2]", "--py-files", f"{hook},{wheel}"), *copy.command)
    seen_whole(recorder, copy, wheel.name)


def test_the_zip_on_the_path_of_plain_python(copy: Copy, agent_zip: str, recorder: RecordingServer) -> None:
    copy.environ |= {"PYTHONPATH": agent_zip, "PYSPARK_SUBMIT_ARGS": "--master local[2] pyspark-shell"}
    copy.run(sys.executable, *copy.command)
    seen_whole(recorder, copy, "/agent.zip/")


def test_the_wheel_in_an_environment_beside_packages_of_the_same_names(
    copy: Copy, recorder: RecordingServer
) -> None:
    python = copy.directory / "environment/bin/python"
    subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=True)
    install = ["-m", "pip", "--disable-pip-version-check", "install", "--no-index", "--quiet"]
    subprocess.run([str(python), *install, str(built_wheel(copy.directory))], check=True)
    own = own_packages(copy.directory / "own")
    path = os.pathsep.join([str(own), site()])
    copy.environ |= {"PYTHONPATH": path, "PYSPARK_SUBMIT_ARGS": "--master local[2] pyspark-shell"}
    copy.environ |= {
        "OWN_PACKAGES": " ".join(OWN),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
    }
    copy.run(str(python), "-m", "spark_controlplane.run", *copy.command)
    seen_whole(recorder, copy, "/environment/")
    assert copy.report["own"] == [str(own / name / "__init__.py") for name in OWN]


def own_packages(directory: Path) -> Path:
    """Packages of the program that are named like folders of the repository."""
    for name in OWN:
        (directory / name).mkdir(parents=True)
        (directory / name / "__init__.py").touch()
    return directory


def site() -> str:
    """Where the PySpark of these tests is installed."""
    command = [sys.executable, "-c", "import pyspark; print(pyspark.__path__[0])"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return str(Path(found).parent)


def built_wheel(directory: Path) -> Path:
    command = [sys.executable, "packaging/agent_wheel.py", str(directory / "dist")]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return Path(answer.stdout.strip().splitlines()[-1])


class Cluster:
    """A standalone master with one worker, from PySpark's own wheel."""

    def __init__(self, directory: Path, environ: dict[str, str]):
        self.port, self.rest, self.web = free_port(), free_port(), free_port()
        self._directory = directory
        self._environ = {**environ, "SPARK_WORKER_DIR": str(directory / "work"), "SPARK_NO_DAEMONIZE": "1"}
        rest = f"-Dspark.master.rest.enabled=true -Dspark.master.rest.port={self.rest}"
        self._environ["SPARK_MASTER_OPTS"] = f"{rest} -Dspark.master.rest.host=127.0.0.1"
        master = ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.web)]
        self._processes = [self._start("master.Master", *master)]
        worker = ["--host", "127.0.0.1", "--cores", "2", "--memory", "1500m", self.url]
        self._processes.append(self._start("worker.Worker", *worker))
        wait_for(self._has_a_worker, TIMEOUT_SECONDS)

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        launcher = str(Path(sys.executable).with_name("spark-class"))
        with open(self._directory / f"{name}.log", "wb") as log:
            command = [launcher, f"org.apache.spark.deploy.{name}", *arguments]
            return subprocess.Popen(command, env=self._environ, stdout=log, stderr=log, cwd=self._directory)

    def _has_a_worker(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.web}/json/", timeout=5) as answer:
                return bool(json.load(answer)["aliveworkers"])
        except (OSError, ValueError):  # a page of HTML until the master has all its pages
            return False

    def ask(self, path: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
        """The master's REST server for submissions."""
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.rest}/v1/submissions/{path}", body)
        request.add_header("Content-Type", "application/json;charset=UTF-8")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def close(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait(60)


@pytest.fixture
def cluster(copy: Copy) -> Iterator[Cluster]:
    made = Cluster(copy.directory, copy.environ)
    try:
        yield made
    finally:
        made.close()


def test_spark_submit_to_a_cluster_whose_executors_are_left_alone(
    copy: Copy, agent_zip: str, recorder: RecordingServer, cluster: Cluster
) -> None:
    options = ["--master", cluster.url, "--executor-memory", "600m", "--py-files", agent_zip]
    copy.run(*submit(*options), *copy.command)
    seen_whole(recorder, copy, "/agent.zip/")
    assert {event["app"]["master"] for event in recorder.events} == {cluster.url}


def test_a_driver_that_the_cluster_itself_starts(
    copy: Copy, agent_zip: str, recorder: RecordingServer, cluster: Cluster
) -> None:
    version = re.sub(r"[^\d.].*", "", __import__("pyspark").__version__)
    properties = dict(setting.split("=", 1) for setting in SMALL)
    settings = ("CONTROLPLANE_URL", "CONTROLPLANE_SPOOL_DIR", "PYSPARK_PYTHON")
    created = cluster.ask(
        "create",
        {
            "action": "CreateSubmissionRequest",
            "clientSparkVersion": version,
            "appResource": f"file:{PROGRAM}",
            "mainClass": "org.apache.spark.deploy.SparkSubmit",
            "appArgs": ["--py-files", agent_zip, *copy.command],
            "environmentVariables": {name: copy.environ[name] for name in settings if name in copy.environ},
            "sparkProperties": {
                **properties,
                "spark.app.name": "copies",
                "spark.driver.extraJavaOptions": class_archive.jvm_options(),
                "spark.master": cluster.url,
                "spark.submit.deployMode": "cluster",
                "spark.executor.memory": "500m",
                "spark.submit.pyFiles": agent_zip,
            },
        },
    )
    ended = ("FINISHED", "FAILED", "ERROR", "KILLED")
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while (state := cluster.ask(f"status/{created['submissionId']}"))["driverState"] not in ended:
        assert time.monotonic() < deadline, state
        time.sleep(0.5)
    assert state["driverState"] == "FINISHED", state
    seen_whole(recorder, copy, "/agent.zip/")
