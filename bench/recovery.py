"""Time from a failure to the next commit: an application under a restart policy beside the same program in a shell loop.

A real server, a real driver with one query of a rate source. *Query failed*: the sink raises once. Under the policy the program
goes on without its query; in the loop it waits for the query, so it ends and is run again. *Driver killed*: SIGKILL to the
driver's processes. The clock runs from the exception or the signal to the first batch that the next run commits in the
query's checkpoint. Both sides wait one second before they start again.

    python bench/recovery.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ["PYSPARK_PYTHON"] = sys.executable

from controlplane.runtime.java import java_environment  # noqa: E402
from tests.spark.deployment import Deployment, wait_for  # noqa: E402

PROGRAM = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession

base = Path(sys.argv[1])

def write(rows, batch):
    if (base / "fail").exists():
        (base / "fail").rename(base / "failed")
        (base / "failed_at").write_text(repr(time.time()))
        raise ConnectionError("the sink does not answer")
    rows.count()

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate").option("rowsPerSecond", 10).option("numPartitions", 1).load()
writer = rows.writeStream.queryName("copy").option("checkpointLocation", str(base / "checkpoint"))
query = writer.foreachBatch(write).trigger(processingTime="200 milliseconds").start()
if sys.argv[2] == "wait":
    query.awaitTermination()
while True:
    time.sleep(1)
"""
POLICIES = """
policies:
  - name: quick
    mode: act
    restart: {in_driver: true, backoff: {initial: 1s, factor: 1, jitter: 0}, budget: {restarts: 1000, per: 1h}}
conditions: {FOREACH_BATCH_USER_FUNCTION_ERROR: now}
"""
SUBMIT = "--master local[1] --conf spark.ui.enabled=false --conf spark.log.level=ERROR pyspark-shell"
SIDE = "RECOVERY_BENCH_SIDE"
#: Batches that are committed before each failure.
HEALTHY_BATCHES = 3
MAX_SECONDS = 300.0


class MeasuredSide:
    """A program's folder, its checkpoint and its processes, which a variable of their environment marks."""

    def __init__(self, folder: Path):
        self.folder, self.program = folder, folder / "program.py"
        folder.mkdir()
        self.program.write_text(PROGRAM)
        self.environment = {SIDE: str(folder), "PYSPARK_SUBMIT_ARGS": SUBMIT, "PYTHONPATH": str(ROOT)}

    def newest(self) -> int:
        """The newest committed batch; -1 before the first."""
        return max((int(p.name) for p in (self.folder / "checkpoint/commits").glob("[0-9]*")), default=-1)

    def time_of(self, batch: int) -> float | None:
        """When a batch was committed, Unix seconds; None before."""
        with suppress(FileNotFoundError):
            return (self.folder / "checkpoint/commits" / str(batch)).stat().st_mtime
        return None

    def wait_until_healthy(self) -> None:
        wanted = self.newest() + HEALTHY_BATCHES
        wait_for(lambda: self.newest() >= wanted, MAX_SECONDS, 0.1)

    def processes(self) -> list[int]:
        """The processes of the driver: Python and its JVM, without the shell and the keeper that start them."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                command = (entry / "cmdline").read_bytes()
                mine = f"{SIDE}={self.folder}".encode() in (entry / "environ").read_bytes().split(b"\0")
                if mine and b"process_keeper" not in command and not command.startswith(b"bash\0"):
                    found.append(int(entry.name))
        return found

    def kill(self) -> float:
        """Kill the driver; when."""
        killed_at = time.time()
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return killed_at

    def fail(self) -> float:
        """Let the sink fail once; when it did."""
        (self.folder / "failed").unlink(missing_ok=True)
        (self.folder / "fail").touch()
        wait_for((self.folder / "failed").exists, MAX_SECONDS, 0.01)
        return float(wait_for((self.folder / "failed_at").read_text, MAX_SECONDS, 0.01))

    def recovery(self, fail: Callable[[], float]) -> float:
        """Seconds from the failure to the next commit."""
        self.wait_until_healthy()
        failed_at = fail()
        last = self.newest()  # of the failed run: nothing is committed between failure and start
        return float(wait_for(lambda: self.time_of(last + 1), MAX_SECONDS, 0.01)) - failed_at


def under_policy(side: MeasuredSide, directory: Path, measure: Callable[[], None]) -> None:
    """Measure the program as an application of a server."""
    os.environ["CONTROLPLANE_LAUNCHERS"] = "process"
    deployment = Deployment(directory)

    def command(*arguments: str) -> None:
        done = deployment.cli(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr

    try:
        policies, apps = directory / "policies.yaml", directory / "apps.yaml"
        policies.write_text(POLICIES)
        launcher = {"kind": "process", "command": ["python", str(side.program), str(side.folder), "go_on"]}
        app = {"name": "copy", "launcher": launcher, "restart": {"policy": "quick"}, "env": side.environment}
        apps.write_text(json.dumps({"apps": [app]}))  # JSON is YAML
        command("policy", "apply", str(policies))
        command("apps", "apply", str(apps))
        command("apps", "start", "copy")
        measure()
        command("apps", "stop", "copy")
    finally:
        deployment.close()
        side.kill()


def in_shell_loop(side: MeasuredSide, directory: Path, measure: Callable[[], None]) -> None:
    """Measure the program in a loop of a shell, without the agent."""
    python = " ".join(map(shlex.quote, (sys.executable, str(side.program), str(side.folder), "wait")))
    environment = os.environ | side.environment
    with (directory / "loop.log").open("wb") as log:
        loop = subprocess.Popen(
            ["bash", "-c", f"while true; do {python}; sleep 1; done"],
            env=environment,
            stdout=log,
            stderr=log,
        )
    try:
        measure()
    finally:
        loop.kill()
        loop.wait()
        side.kill()


SIDES = {"policy": under_policy, "shell_loop": in_shell_loop}


def measured(rounds: int, failures: int) -> dict[str, list[float]]:
    """Seconds of each recovery by side and failure. Each round runs both sides, one after the other."""
    found: dict[str, list[float]] = {}
    for number in range(rounds):
        for name, run in SIDES.items():
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
                side = MeasuredSide(Path(directory) / f"{name}-{number}")

                def measure(side: MeasuredSide = side, name: str = name) -> None:
                    for _ in range(failures):
                        for kind, fail in (("query_failed", side.fail), ("driver_killed", side.kill)):
                            seconds = side.recovery(fail)
                            print(f"{name} {kind} {seconds:.2f} s", file=sys.stderr, flush=True)
                            found.setdefault(f"{name}_{kind}", []).append(seconds)

                run(side, Path(directory), measure)
    return found


def percentile(values: list[float], share: float) -> float:
    """The nearest-rank percentile."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def figures_of(found: dict[str, list[float]]) -> dict[str, Any]:
    figures: dict[str, Any] = {"load_average": round(os.getloadavg()[0], 2)}
    for name, seconds in found.items():
        figures[f"{name}_p50_seconds"] = round(percentile(seconds, 0.5), 3)
        figures[f"{name}_p99_seconds"] = round(percentile(seconds, 0.99), 3)
        figures[f"{name}_recoveries"] = len(seconds)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one failure of each kind")
    rounds, failures = (1, 1) if parser.parse_args().quick else (3, 8)
    os.environ.update(java_environment() or {})
    figures = figures_of(measured(rounds, failures))
    ratios = {
        f"shell_loop_over_policy_{kind}_{share}": round(
            figures[f"shell_loop_{kind}_{share}_seconds"] / figures[f"policy_{kind}_{share}_seconds"], 2
        )
        for kind in ("query_failed", "driver_killed")
        for share in ("p50", "p99")
    }
    machine = {"cpus": os.cpu_count(), "python": platform.python_version()}
    print(json.dumps({"bench": "recovery", "machine": machine, "figures": figures, "ratios": ratios}))


if __name__ == "__main__":
    main()
