"""A plain program on real Spark, a real server and the command line: stops, starts and verified restarts.

One server and one program serve all tests in their order. Each test leaves both queries running; the last damages
the checkpoint of `orders` and repairs it.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.spark.deployment import Deployment, Feed, wait_for

pytestmark = pytest.mark.spark


class Feeding:
    """Adds a file every `every` seconds until the block ends."""

    def __init__(self, feed: Feed, every: float):
        self._feed, self._every, self._over = feed, every, threading.Event()

    def __enter__(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(self._every):
            self._feed.add()

    def __exit__(self, *args: Any) -> None:
        self._over.set()
        self._thread.join()


@dataclass
class Application:
    """A running server and a program with two queries, `orders` and `neighbour`, that read the files of `feed`."""

    deployment: Deployment
    feed: Feed
    base: Path
    program: subprocess.Popen[bytes]

    def running(self) -> dict[str, dict[str, Any]]:
        """The queries by name once each has reported a batch."""

        def shown() -> Any:
            found = self.deployment.queries()
            reported = all(
                found.get(name, {}).get("batch_id") is not None for name in ("orders", "neighbour")
            )
            return found if reported else None

        return dict(wait_for(shown))

    def is_alive(self) -> bool:
        """Whether the program still waits in `awaitTermination`."""
        return self.program.poll() is None and not (self.base / "ended").exists()

    def handle(self) -> tuple[str, str]:
        """Run id and `isActive` of `orders` as the program's own handle has them."""
        run_id, _, active = (self.base / "handle").read_text().partition(" ")
        return run_id, active

    def wait_for_rows(self, spark: Any, *queries: str) -> None:
        """Wait until each sink holds every row of the feed once."""
        for query in queries:
            wait_for(
                lambda query=query: self.feed.sink_holds_all(spark, self.base / f"out-{query}"), 300, 1.0
            )

    def batches(self, log: str, query: str) -> list[int]:
        """The batches in the offset or commit log of a query's checkpoint."""
        return sorted(int(p.name) for p in (self.base / f"checkpoint-{query}" / log).glob("[0-9]*"))


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    directory = tmp_path_factory.mktemp("deployment")
    feed = Feed(directory / "base" / "in")
    feed.add()
    deployment = Deployment(directory)
    try:
        program = deployment.drive("two_queries.py", str(directory / "base"))
        yield Application(deployment, feed, directory / "base", program)
    finally:
        deployment.close()


def test_a_killed_server_loses_no_event_and_the_program_is_not_affected(
    application: Application, spark: Any
) -> None:
    deployment, before = application.deployment, application.running()
    with Feeding(application.feed, 0.3):
        for _ in range(3):
            deployment.kill_server()
            committed = application.batches("commits", "orders")[-1]
            wait_for(
                lambda committed=committed: application.batches("commits", "orders")[-1] >= committed + 2
            )
            deployment.start_server()
            wait_for(lambda: deployment.queries().get("orders", {}).get("status") == "running")
    application.wait_for_rows(spark, "orders")
    assert application.is_alive()
    for name in ("orders", "neighbour"):
        expected = list(range(application.batches("commits", name)[-1] + 1))

        def all_stored(name: str = name, expected: list[int] = expected) -> bool:
            return [batch for _, batch in deployment.batches(before[name]["query_id"])] == expected

        wait_for(all_stored, 300, 0.5)
        assert deployment.queries()[name]["run_id"] == before[name]["run_id"]


@pytest.mark.parametrize("restarts", [3, pytest.param(10, marks=pytest.mark.soak)])
def test_a_program_survives_stop_start_and_restarts_of_one_query_and_keeps_every_row(
    application: Application, spark: Any, restarts: int
) -> None:
    deployment, found = application.deployment, application.running()
    neighbour_run = found["neighbour"]["run_id"]
    known = {action["id"] for action in deployment.get("/api/v1/actions?limit=50")["actions"]}
    with Feeding(application.feed, 0.4):
        assert deployment.act("stop", "orders", "--reason", "maintenance")["action"]["state"] == "succeeded"
        wait_for(lambda: deployment.queries()["orders"]["status"] == "stopped")
        time.sleep(1.0)  # a program that ends on a stop needs a moment to show it
        assert application.is_alive()
        deployment.act("start", "orders")
        for _ in range(restarts):
            action = deployment.act("restart", "two-queries/orders", "--wait", "120")["action"]
            assert action["state"] == "succeeded" and action["evidence"]["verified_by"], action
            run_id = action["evidence"]["run_id"]
            wait_for(lambda run_id=run_id: application.handle() == (run_id, "True"))
    assert application.is_alive()
    application.wait_for_rows(spark, "orders", "neighbour")

    neighbour = deployment.queries()["neighbour"]
    assert neighbour["run_id"] == neighbour_run
    ids = [batch for _, batch in deployment.batches(neighbour["query_id"])]
    assert ids == list(range(len(ids)))
    orders = deployment.batches(deployment.queries()["orders"]["query_id"])
    assert all(later[1] in (earlier[1], earlier[1] + 1) for earlier, later in pairwise(orders))
    runs = deployment.get(f"/api/v1/queries/{neighbour['query_id']}/runs")["runs"]
    assert len(runs) == 1
    actions = [a for a in deployment.get("/api/v1/actions?limit=50")["actions"] if a["id"] not in known]
    assert len(actions) == 2 + restarts and {action["state"] for action in actions} == {"succeeded"}
    assert all(action["actor"] for action in actions)


def test_a_restart_at_idle_input_is_verified_by_the_first_trigger_without_data(
    application: Application,
) -> None:
    deployment = application.deployment
    application.running()
    wait_for(lambda: deployment.queries()["orders"]["status"] == "idle")
    began = time.monotonic()
    action = deployment.act("restart", "orders")["action"]
    assert action["evidence"]["verified_by"] == "resumed_idle", action
    assert time.monotonic() - began < 15 + action["evidence"].get("stopped_in_seconds", 0)
    assert "found no new data" in action["reason"]


def test_a_mistake_on_the_command_line_is_one_clear_line(application: Application) -> None:
    done = application.deployment.cli("restart", "nothing-like-it")
    assert done.returncode == 2 and "nothing-like-it" in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_failed_start_quotes_sparks_error_and_can_be_tried_again(
    application: Application, spark: Any
) -> None:
    deployment, feed, found = application.deployment, application.feed, application.running()
    batch = found["orders"]["batch_id"]
    feed.add()
    wait_for(lambda: deployment.queries()["orders"]["batch_id"] > batch)
    deployment.act("stop", "orders")
    checkpoint = application.base / "checkpoint-orders"
    newest = checkpoint / "offsets" / str(application.batches("offsets", "orders")[-1])
    lost = newest.read_bytes()
    newest.unlink()  # the commit log is now ahead of the offset log: the first trigger fails
    feed.add()
    path = f"/api/v1/checkpoints/{found['orders']['query_id']}"
    deployment.post(path + "/inventory", {})
    wait_for(lambda: deployment.get(path)["checkpoint"]["verdict"] == "broken")
    done = deployment.cli("start", "orders", "--wait", "120")
    assert done.returncode == 1 and "the checkpoint is broken" in done.stdout, done
    done = deployment.cli("start", "orders", "--force", "--wait", "120")
    assert done.returncode == 1 and "CONCURRENT_STREAM_LOG_UPDATE" in done.stdout, done
    assert "Traceback" not in done.stdout + done.stderr
    wait_for(lambda: deployment.queries()["orders"]["status"] == "failed")

    metadata = (checkpoint / "metadata").read_bytes()
    newest.write_bytes(lost)
    (checkpoint / "metadata").write_bytes(b"")  # start() itself raises now; no listener is notified
    done = deployment.cli("start", "orders", "--force", "--wait", "120")
    assert done.returncode == 1 and "refused to start" in done.stdout, done

    (checkpoint / "metadata").write_bytes(metadata)
    deployment.act("start", "orders")
    assert application.is_alive()
    application.wait_for_rows(spark, "orders", "neighbour")
    assert deployment.queries()["neighbour"]["run_id"] == found["neighbour"]["run_id"]
