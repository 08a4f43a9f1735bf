"""Kill driver and server in turns while batches run on real Spark."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.spark.deployment import Deployment, Feed, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.soak]
KILLS = 4
BATCHES_BETWEEN = 6


def committed(base: Path, name: str = "orders") -> int:
    """The newest batch in the commit log of the checkpoint; -1: none."""
    return max((int(p.name) for p in (base / f"checkpoint-{name}" / "commits").glob("[0-9]*")), default=-1)


def missing_from(deployment: Deployment, base: Path, query_id: str) -> tuple[set[int], set[int]]:
    """Batches that Spark committed and the store has not, and those that it reports as gaps."""
    stored = {batch for _, batch in deployment.batches(query_id)}
    gaps = deployment.get(f"/api/v1/queries/{query_id}")["gaps"]
    reported = {batch for gap in gaps for batch in range(gap["from"], gap["to"] + 1)}
    return set(range(committed(base) + 1)) - stored, reported


def test_every_batch_is_stored_once_or_reported_as_missing(deployment: Deployment, tmp_path: Path) -> None:
    base = tmp_path / "base"
    feed = Feed(base / "in")

    def run_on() -> None:
        target = committed(base) + BATCHES_BETWEEN

        def is_there() -> bool:
            feed.add(5)
            return committed(base) >= target

        wait_for(is_there, 300, 0.2)

    def is_reported(name: str = "orders") -> dict[str, Any] | None:
        return deployment.queries().get(name)

    program = deployment.drive("two_queries.py", str(base))
    run_on()
    query_id = wait_for(is_reported, 300)["query_id"]
    for turn in range(KILLS):
        if turn % 2 == 0:
            deployment.kill_server()
        run_on()
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
        program = deployment.drive("two_queries.py", str(base))
        run_on()
        if turn % 2 == 0:
            deployment.start_server()

    def settled() -> bool:
        missing, reported = missing_from(deployment, base, query_id)
        return missing == reported and max(missing, default=0) <= committed(base)

    wait_for(settled, 300, 1.0)
    assert max(Counter(deployment.batches(query_id)).values()) == 1
    left = [path for path in (tmp_path / "spool").iterdir() if path.is_dir()]
    wait_for(lambda: len([path for path in left if path.exists()]) == 1, 300, 1.0)
