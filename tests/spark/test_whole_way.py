"""The whole way on real Spark: a plain program, a real server, the command line, a verified recovery."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.spark.deployment import Deployment, Feed, wait_for

pytestmark = pytest.mark.spark


class Feeding:
    """A file every `every` seconds until the block ends."""

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


def running(deployment: Deployment, *names: str) -> dict[str, dict[str, Any]]:
    """The queries by name once each has shown a batch."""

    def shown() -> Any:
        found = deployment.queries()
        return found if all(found.get(name, {}).get("batch_id") is not None for name in names) else None

    return dict(wait_for(shown, 90))


def handle(base: Path) -> tuple[str, str]:
    run_id, _, active = (base / "handle").read_text().partition(" ")
    return run_id, active


@pytest.mark.parametrize("restarts", [3, pytest.param(10, marks=pytest.mark.soak)])
def test_a_program_survives_stop_start_and_restarts_of_one_query_and_keeps_every_row(
    deployment, feed, spark, tmp_path, restarts
):
    base = tmp_path / "base"
    program = deployment.drive("two_queries.py", str(base))
    found = running(deployment, "orders", "neighbour")
    neighbour_run = found["neighbour"]["run_id"]
    with Feeding(feed, 0.4):
        assert deployment.act("stop", "orders", "--reason", "maintenance")["action"]["state"] == "succeeded"
        wait_for(lambda: deployment.queries()["orders"]["status"] == "stopped")
        time.sleep(1.0)  # a program that ends on a stop needs a moment to show it
        assert program.poll() is None and not (base / "ended").exists()
        deployment.act("start", "orders")
        for _ in range(restarts):
            action = deployment.act("restart", "two-queries/orders", "--wait", "120")["action"]
            assert action["state"] == "succeeded" and action["evidence"]["verified_by"], action
            run_id = action["evidence"]["run_id"]
            wait_for(lambda run_id=run_id: handle(base) == (run_id, "True"), 5)
    assert program.poll() is None and not (base / "ended").exists()
    for name in ("orders", "neighbour"):
        wait_for(lambda name=name: feed.sink_holds_all(spark, base / f"out-{name}"), 60, 1.0)

    neighbour = deployment.queries()["neighbour"]
    assert neighbour["run_id"] == neighbour_run
    ids = [batch for _, batch in deployment.batches(neighbour["query_id"])]
    assert ids == list(range(len(ids)))
    orders = deployment.batches(deployment.queries()["orders"]["query_id"])
    assert all(later[1] in (earlier[1], earlier[1] + 1) for earlier, later in pairwise(orders))
    runs = deployment.get(f"/api/v1/queries/{neighbour['query_id']}/runs")["runs"]
    assert len(runs) == 1
    actions = deployment.get("/api/v1/actions?limit=50")["actions"]
    assert len(actions) == 2 + restarts and {action["state"] for action in actions} == {"succeeded"}
    assert all(action["actor"] for action in actions)


def test_a_restart_at_idle_input_is_verified_by_the_first_trigger_without_data(deployment, feed, tmp_path):
    deployment.drive("two_queries.py", str(tmp_path / "base"))
    running(deployment, "orders")
    wait_for(lambda: deployment.queries()["orders"]["status"] == "idle", 60)
    began = time.monotonic()
    action = deployment.act("restart", "orders")["action"]
    assert action["evidence"]["verified_by"] == "resumed_idle", action
    assert time.monotonic() - began < 15 + action["evidence"].get("stopped_in_seconds", 0)
    assert "found no new data" in action["reason"]


def test_a_killed_server_loses_no_event_and_no_program_notices(deployment, feed, spark, tmp_path):
    base = tmp_path / "base"
    program = deployment.drive("two_queries.py", str(base))
    before = running(deployment, "orders", "neighbour")
    with Feeding(feed, 0.3):
        for _ in range(3):
            deployment.kill_server()
            time.sleep(2.0)
            deployment.start_server()
            wait_for(lambda: deployment.queries().get("orders", {}).get("status") == "running", 60)
    wait_for(lambda: feed.sink_holds_all(spark, base / "out-orders"), 60, 1.0)
    assert program.poll() is None
    for name in ("orders", "neighbour"):
        committed = max(int(path.name) for path in (base / f"checkpoint-{name}" / "commits").glob("[0-9]*"))

        def all_stored(name: str = name, committed: int = committed) -> bool:
            return [batch for _, batch in deployment.batches(before[name]["query_id"])] == list(
                range(committed + 1)
            )

        wait_for(all_stored, 60, 0.5)
        assert deployment.queries()[name]["run_id"] == before[name]["run_id"]


def test_a_start_that_fails_tells_sparks_own_words_and_can_be_tried_again(deployment, feed, spark, tmp_path):
    base = tmp_path / "base"
    program = deployment.drive("two_queries.py", str(base))
    found = running(deployment, "orders", "neighbour")
    feed.add()
    wait_for(lambda: (deployment.queries()["orders"]["batch_id"] or 0) >= 1, 30)
    deployment.act("stop", "orders")
    checkpoint = base / "checkpoint-orders"
    newest = checkpoint / "offsets" / str(max(int(p.name) for p in (checkpoint / "offsets").glob("[0-9]*")))
    lost = newest.read_bytes()
    newest.unlink()  # the commit log is now ahead of the offset log: the first trigger fails
    feed.add()
    look = f"/api/v1/checkpoints/{found['orders']['query_id']}"
    deployment.post(look + "/inventory", {})
    wait_for(lambda: deployment.get(look)["checkpoint"]["verdict"] == "broken", 30)
    done = deployment.cli("start", "orders", "--wait", "120")
    assert done.returncode == 1 and "the checkpoint is broken" in done.stdout, done
    done = deployment.cli("start", "orders", "--force", "--wait", "120")
    assert done.returncode == 1 and "CONCURRENT_STREAM_LOG_UPDATE" in done.stdout, done
    assert "Traceback" not in done.stdout + done.stderr
    wait_for(lambda: deployment.queries()["orders"]["status"] == "failed", 30)

    metadata = (checkpoint / "metadata").read_bytes()
    newest.write_bytes(lost)
    (checkpoint / "metadata").write_bytes(b"")  # start() itself raises now; no listener hears of it
    done = deployment.cli("start", "orders", "--force", "--wait", "120")
    assert done.returncode == 1 and "refused to start" in done.stdout, done

    (checkpoint / "metadata").write_bytes(metadata)
    deployment.act("start", "orders")
    assert program.poll() is None and not (base / "ended").exists()
    for name in ("orders", "neighbour"):
        wait_for(lambda name=name: feed.sink_holds_all(spark, base / f"out-{name}"), 60, 1.0)
    assert deployment.queries()["neighbour"]["run_id"] == found["neighbour"]["run_id"]


def test_a_mistake_on_the_command_line_is_one_clear_line(deployment, feed, tmp_path):
    done = deployment.cli("restart", "nothing-like-it")
    assert done.returncode == 2 and "nothing-like-it" in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
