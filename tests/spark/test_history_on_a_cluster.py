"""The jobs where people run them: on a standalone cluster whose workers lack our code, and by spark-submit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from controlplane.lake.lake import Lake
from tests.paths import ROOT
from tests.ports import free_port
from tests.unit.controlplane.lake.lakes import by_glob, by_manifest, put, reports

pytestmark = [pytest.mark.spark, pytest.mark.long]


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def without_our_code(tmp_path: Path) -> Path:
    """An interpreter with all packages of this one, but for ours: no .pth file of an editable install is read."""
    python = tmp_path / "python"
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    return python


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A master and two workers, each of one core; its URL once both are registered."""
    port, page = free_port(), free_port()
    environment = {**os.environ, "SPARK_WORKER_DIR": str(tmp_path / "work"), "SPARK_HOME": str(spark_home())}
    environment.pop("PYTHONPATH", None)
    java = [str(spark_home() / "bin/spark-class")]
    url = f"spark://127.0.0.1:{port}"
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    worker = [
        "org.apache.spark.deploy.worker.Worker",
        "--host",
        "127.0.0.1",
        "--cores",
        "1",
        "--memory",
        "1g",
    ]
    with ExitStack() as stack:
        for number, arguments in enumerate(
            [[*master, "--webui-port", str(page)], *[[*worker, "--webui-port", "0", url]] * 2]
        ):
            log = stack.enter_context((tmp_path / f"{number}.log").open("wb"))
            process = subprocess.Popen(
                java + arguments, cwd=tmp_path, env=environment, stdout=log, stderr=subprocess.STDOUT
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
        wait_for_workers(page)
        yield url


def wait_for_workers(page: int) -> None:
    until = time.monotonic() + 180
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
                if sum(item["state"] == "ALIVE" for item in json.load(answer)["workers"]) == 2:
                    return
        except (OSError, ValueError):  # a page of HTML until the master has all its pages
            pass
        time.sleep(0.2)
    raise AssertionError("two workers did not register in three minutes")


def command(arguments: list[str], cwd: Path, python: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    if python:
        environment["PYSPARK_PYTHON"] = str(python)
    return subprocess.run(
        arguments, cwd=cwd, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


def history(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "controlplane.cli.main", "history", *arguments]


def event_log(path: Path, app: str, batches: int) -> None:
    """The lines of an event log that matter, one run of one query."""
    listener = "org.apache.spark.sql.streaming.StreamingQueryListener$"
    ids = {"id": f"00000000-0000-0000-0000-{app:0>12}", "runId": f"11111111-0000-0000-0000-{app:0>12}"}
    lines: list[dict[str, Any]] = [
        {"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"},
        {
            "Event": "SparkListenerApplicationStart",
            "App Name": f"app {app}",
            "App ID": f"app-{app}",
            "Timestamp": 1772323200000,
            "User": "u",
        },
        {
            "Event": f"{listener}QueryStartedEvent",
            **ids,
            "name": "q",
            "timestamp": "2026-03-01T00:00:00.000Z",
        },
    ]
    for batch in range(batches):
        progress = {
            **ids,
            "name": "q",
            "timestamp": f"2026-03-01T00:{batch // 60:02}:{batch % 60:02}.000Z",
            "batchId": batch,
            "batchDuration": 100,
            "durationMs": {"triggerExecution": 100},
            "stateOperators": [],
            "sources": [{"description": "rate", "numInputRows": 5, "metrics": {}}],
            "sink": {"description": "console", "numOutputRows": 5},
        }
        lines.append({"Event": f"{listener}QueryProgressEvent", "progress": progress})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_the_interpreter_of_the_workers_has_no_code_of_ours(tmp_path: Path) -> None:
    python = without_our_code(tmp_path)
    looked = command([str(python), "-c", "import pyarrow, pyspark; import controlplane"], tmp_path)
    assert looked.returncode == 1
    assert "No module named 'controlplane'" in looked.stderr


@pytest.mark.soak
def test_logs_are_imported_and_compacted_on_a_cluster_whose_workers_lack_our_code(
    cluster: str, tmp_path: Path
) -> None:
    python, lake, logs = without_our_code(tmp_path), tmp_path / "lake", tmp_path / "logs"
    logs.mkdir()
    for number in range(10):
        event_log(logs / f"app-2026030100000{number}-0001", str(number), 20 + number)
    done = command(history("import", str(logs), "--lake", str(lake), "--master", cluster), tmp_path, python)
    assert done.returncode == 0, done.stderr[-3000:]
    expected = sorted(batch for number in range(10) for batch in range(20 + number))
    assert by_manifest(Lake.open(str(lake))) == by_glob(lake) == expected
    compacted = command(
        history("compact", "--lake", str(lake), "--master", cluster, "--json"), tmp_path, python
    )
    assert compacted.returncode == 0, compacted.stderr[-3000:]
    assert json.loads(compacted.stdout)["files_before"] >= 20  # of progress and of sources, at least
    assert by_manifest(Lake.open(str(lake))) == by_glob(lake) == expected
    rolled = command(history("rollup", "--lake", str(lake), "--master", cluster), tmp_path, python)
    assert rolled.returncode == 0, rolled.stderr[-3000:]
    days = Lake.open(str(lake)).read("rollup_1d", columns=["batches"])["batches"].to_pylist()
    assert sorted(days) == [20 + number for number in range(10)]
    assert len(list((tmp_path / "work").glob("app-*/*"))) >= 2  # executors on the workers did it


def test_spark_submit_runs_the_same_commands(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    for number in range(9):
        put(lake, "ingest", f"q-{number}", reports([number]))
    submit = [str(spark_home() / "bin/spark-submit"), "--master", "local[1]"]
    job = str(ROOT / "controlplane/cli/history/job.py")
    done = command([*submit, job, "compact", "--lake", str(tmp_path / "lake")], tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "9 files merged into 1" in done.stdout
    assert [pq.read_metadata(path).num_rows for path in tmp_path.glob("lake/progress/*/*.parquet")] == [9]
    wrong = command([*submit, job, "compact", "--lake", str(tmp_path / "none")], tmp_path)
    # Spark's launcher passes both outputs of the program on as one.
    assert wrong.returncode == 2 and "controlplane: there is no lake" in wrong.stdout
