"""Time to the first new batch: restart of one query beside resubmission of its program.

A real server, a real driver with two queries, input that never stops. *Restart*: the action is asked of
the server over HTTP. *Resubmit*: the program (without the agent) gets SIGTERM, and when its processes are
gone it is started again. Both clocks run from the ask to the first commit after it that the new run
writes to the query's checkpoint.

    python bench/restart.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["PYSPARK_PYTHON"] = sys.executable

from controlplane.runtime.java import java_environment
from tests.spark.deployment import PROGRAMS, Deployment, Feed, wait_for

QUERY = "orders"
RESTARTS_A_ROUND = 4


class Commits:
    """The commit log of the query's checkpoint."""

    def __init__(self, base: Path):
        self._directory = base / f"checkpoint-{QUERY}" / "commits"

    def newest(self) -> int:
        return max((int(path.name) for path in self._directory.glob("[0-9]*")), default=-1)

    def time_of(self, batch: int) -> float | None:
        """When it was committed, Unix seconds; None before."""
        try:
            return (self._directory / str(batch)).stat().st_mtime
        except FileNotFoundError:
            return None

    def wait(self, batch: int) -> float:
        return float(wait_for(lambda: self.time_of(batch), 120, 0.02))


@contextmanager
def feeding(feed: Feed) -> Iterator[None]:
    over = threading.Event()

    def run() -> None:
        while not over.wait(0.2):
            feed.add(5)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join()


def ask_restart(deployment: Deployment, query_id: str) -> dict[str, Any]:
    """Ask, and follow until it has ended; the action."""
    token = (deployment.data / "admin.token").read_text().strip()
    request = urllib.request.Request(
        f"{deployment.url}/api/v1/queries/{query_id}/actions",
        json.dumps({"action": "restart", "reason": "bench"}).encode(),
        {"Authorization": "Bearer " + token, "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            ident = json.load(answer)["action"]["id"]
    except urllib.error.HTTPError as error:
        raise SystemExit(f"the restart was refused: {error.read().decode()}") from None

    def ended() -> Any:
        action = deployment.get(f"/api/v1/actions/{ident}")["action"]
        return action if action["finished_at"] else None

    action = dict(wait_for(ended, 150, 0.05))
    assert action["state"] == "succeeded", action
    return action


def restart(deployment: Deployment, commits: Commits) -> float:
    asked_at = time.time()
    action = ask_restart(deployment, deployment.queries()[QUERY]["query_id"])
    first = commits.wait(action["evidence"]["committed_batch"] + 1)
    return first - asked_at


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, and wait until its JVM is gone too: two drivers must not share a checkpoint."""
    os.killpg(process.pid, signal.SIGTERM)
    process.wait()

    def is_gone() -> bool:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return True
        return False

    wait_for(is_gone, 60, 0.02)


def resubmit(
    deployment: Deployment, base: Path, commits: Commits, old: subprocess.Popen[bytes]
) -> tuple[float, Any]:
    asked_at = time.time()
    end(old)
    last = commits.newest()
    process = deployment._spawn([str(PROGRAMS / "two_queries.py"), str(base)], "resubmitted")
    return commits.wait(last + 1) - asked_at, process


def attached(deployment: Deployment, base: Path) -> subprocess.Popen[bytes]:
    """The program with the agent, once the server knows a batch of this process's run."""
    before = deployment.queries().get(QUERY, {}).get("run_id")
    process = deployment.drive("two_queries.py", str(base))

    def works() -> bool:
        query = deployment.queries().get(QUERY, {})
        return query.get("run_id") not in (None, before) and query["status"] in ("running", "idle")

    wait_for(works, 120)
    return process


def measure(rounds: int) -> tuple[list[float], list[float]]:
    restarts, resubmissions = [], []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        base = Path(directory) / "base"
        feed, commits = Feed(base / "in"), Commits(base)
        feed.add()
        deployment = Deployment(Path(directory))
        try:
            with feeding(feed):
                for number in range(rounds):
                    if number:  # else the server takes the drivers that were just ended for living ones
                        wait_for(lambda: deployment.queries()[QUERY]["status"] == "lost", 150, 1.0)
                    process = attached(deployment, base)
                    restarts += [restart(deployment, commits) for _ in range(RESTARTS_A_ROUND)]
                    seconds, process = resubmit(deployment, base, commits, process)
                    resubmissions.append(seconds)
                    end(process)
        finally:
            deployment.close()
    return restarts, resubmissions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one round, under a minute")
    rounds = 1 if parser.parse_args().quick else 4
    os.environ.update(java_environment() or {})
    restarts, resubmissions = measure(rounds)
    figures = {
        "restart_seconds": statistics.median(restarts),
        "restart_seconds_worst": max(restarts),
        "resubmit_seconds": statistics.median(resubmissions),
        "resubmit_seconds_best": min(resubmissions),
        "restarts": len(restarts),
        "resubmissions": len(resubmissions),
        "load_average": os.getloadavg()[0],
    }
    ratios = {"resubmit_over_restart_seconds": figures["resubmit_seconds"] / figures["restart_seconds"]}
    print(
        json.dumps(
            {
                "bench": "restart",
                "machine": {"cpus": os.cpu_count(), "python": platform.python_version()},
                "figures": {name: round(value, 3) for name, value in figures.items()},
                "ratios": {name: round(value, 2) for name, value in ratios.items()},
            }
        )
    )


if __name__ == "__main__":
    main()
