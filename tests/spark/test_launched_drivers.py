"""Drivers that the server starts: one that is killed is started again, and its checkpoint loses and doubles no row."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml

from tests import class_archive
from tests.paths import ROOT
from tests.ports import free_port
from tests.spark.deployment import PROGRAMS, Deployment, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.long]
SPARK_HOME = Path(pyspark.__file__).parent
FILES, ROWS = 16, 10
#: For any wait: much more than on a quiet machine.
LIMIT_SECONDS = 600.0
CONF = "--conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=1"


class Copy:
    """The application: its files, its declaration, and what it has written."""

    def __init__(self, tmp_path: Path, deployment: Deployment):
        self.folder, self.deployment = tmp_path / "copy", deployment
        (self.folder / "in").mkdir(parents=True)
        for number in range(FILES):
            rows = (json.dumps({"id": number * ROWS + row}) for row in range(ROWS))
            (self.folder / "in" / f"{number:03}.json").write_text("\n".join(rows))

    @property
    def command(self) -> list[str]:
        folders = [str(self.folder / name) for name in ("in", "out", "checkpoint")]
        return [str(PROGRAMS / "file_copy.py"), *folders]

    def declare(self, launcher: dict[str, Any], policy: str | None = None) -> None:
        spool = {"CONTROLPLANE_SPOOL_DIR": str(self.folder / "spool"), "PYTHONPATH": str(ROOT)}
        env = spool | {"PYSPARK_SUBMIT_ARGS": f"--master local[1] {CONF} pyspark-shell"}
        app = {"name": "copy", "launcher": launcher, "version": "7", "labels": {"team": "tests"}, "env": env}
        if policy is not None:
            rule = {"name": policy, "mode": "act", "restart": {"backoff": {"initial": "1s"}}}
            (self.folder / "policies.yaml").write_text(yaml.safe_dump({"policies": [rule]}))
            done = self.deployment.cli("policy", "apply", str(self.folder / "policies.yaml"))
            assert done.returncode == 0, done.stderr
            app |= {"restart": {"policy": policy}}
        file = self.folder / "apps.yaml"
        file.write_text(yaml.safe_dump({"apps": [app]}))
        applied = self.deployment.cli("apps", "apply", str(file))
        assert (applied.returncode, applied.stdout) == (0, "added  copy\n"), applied.stderr

    def run(self, *arguments: str) -> str:
        done = self.deployment.cli("apps", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def state(self) -> dict[str, Any]:
        return dict(self.deployment.get("/api/v1/apps/copy"))

    def written(self) -> list[int]:
        """The ids in the files that the sink's log has committed."""
        log = self.folder / "out" / "_spark_metadata"
        lines = [line for file in log.glob("[0-9]*") for line in file.read_text().splitlines()[1:]]
        paths = {json.loads(line)["path"].removeprefix("file://") for line in lines}
        return [json.loads(row)["id"] for path in paths for row in Path(path).read_text().splitlines()]

    def wait_until_written(self, rows: int) -> None:
        wait_for(lambda: len(self.written()) >= rows, LIMIT_SECONDS)

    def processes(self) -> list[int]:
        """The processes of the driver: Python and its JVM."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            except OSError:
                continue
            if str(self.folder).encode() in command and b"process_keeper" not in command:
                found.append(int(entry.name))
        return found

    def kill_processes(self) -> None:
        for pid in self.processes():
            with suppress(ProcessLookupError):  # the JVM ends with its Python process
                os.kill(pid, signal.SIGKILL)

    def check_all_rows_once(self) -> None:
        self.wait_until_written(FILES * ROWS)
        assert sorted(self.written()) == list(range(FILES * ROWS))


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Copy]:
    monkeypatch.setenv("CONTROLPLANE_LAUNCHERS", "process,standalone")
    deployment = Deployment(tmp_path)
    made = Copy(tmp_path, deployment)
    yield made
    deployment.close()
    made.kill_processes()


def killed(copy: Copy) -> None:
    copy.run("start", "copy")
    copy.wait_until_written(2 * ROWS)
    found = wait_for(lambda: (app := copy.state()) and app["queries"] and app, LIMIT_SECONDS)
    assert (found["state"], found["running_version"], found["queries"][0]["name"]) == ("running", "7", "copy")
    copy.kill_processes()
    assert len(copy.written()) < FILES * ROWS, "the kill came too late to prove anything"


def test_a_killed_local_driver_is_started_by_its_policy_and_resumes(copy: Copy) -> None:
    copy.declare({"kind": "process", "command": ["python", *copy.command]}, policy="copies")
    killed(copy)
    wait_for(lambda: copy.state()["started_by"] == "policy:copies", LIMIT_SECONDS)
    copy.check_all_rows_once()
    copy.deployment.kill_server()
    copy.deployment.start_server()
    wait_for(lambda: copy.state()["state"] == "running", LIMIT_SECONDS)
    assert "Nothing to do" in copy.run("start", "copy")
    copy.run("stop", "copy", "--drain")
    assert copy.processes() == []
    assert copy.state()["state"] == "ended"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A master with its REST API and one worker: the addresses of both APIs."""
    port, rest, page = (free_port() for _ in range(3))
    options = f"-Dspark.master.rest.enabled=true -Dspark.master.rest.port={rest}"
    environment = {
        **os.environ,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "SPARK_MASTER_OPTS": options,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    address = ["--host", "127.0.0.1", "--webui-port"]
    master = ["org.apache.spark.deploy.master.Master", *address, str(page), "--port", str(port)]
    worker = ["org.apache.spark.deploy.worker.Worker", *address, "0", "--cores", "4", "--memory", "4g"]
    with ExitStack() as stack:
        for arguments in (master, [*worker, f"spark://127.0.0.1:{port}"]):
            command = [str(SPARK_HOME / "bin/spark-class"), *arguments]
            log = stack.enter_context((tmp_path / f"{arguments[0]}.log").open("wb"))
            process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)
        wait_for(lambda: alive_workers(page) == 1, LIMIT_SECONDS)
        yield {"spark_master": f"spark://127.0.0.1:{port}", "rest": f"http://127.0.0.1:{rest}"}


def alive_workers(page: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError):
        return 0


def test_a_killed_driver_of_a_standalone_cluster_resumes(copy: Copy, cluster: dict[str, str]) -> None:
    program, *arguments = copy.command
    properties = {
        "spark.cores.max": "1",
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": class_archive.jvm_options(),
        "spark.executor.extraJavaOptions": class_archive.jvm_options(),
    }
    copy.declare(
        {
            "kind": "standalone",
            "masters": ["http://127.0.0.1:1", cluster["rest"]],  # the first one is down
            "spark_master": cluster["spark_master"],
            "program": program,
            "arguments": arguments,
            "properties": properties,
        }
    )
    killed(copy)
    wait_for(lambda: copy.state()["state"] == "ended", LIMIT_SECONDS)
    copy.run("start", "copy")
    copy.check_all_rows_once()
    copy.run("stop", "copy")
    assert copy.state()["state"] == "ended"
