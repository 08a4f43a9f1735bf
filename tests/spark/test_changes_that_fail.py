"""Changes that Spark fails on, in a real deployment: status, checkpoint and actions name the change as the cause."""

from __future__ import annotations

import signal
import subprocess
from typing import Any

import pytest

from tests.spark.deployment import Deployment, Feed, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.long]

CHANGES = {
    "source_type": "source 0 was FileStreamSource and is RateStreamV2",
    "new_state": "the stateful operators were none and are aggregate",
    "keys": "the keys were (key integer) and are (value string)",
}


def all_queries(deployment: Deployment, holds: Any) -> bool:
    found = deployment.queries()
    return CHANGES.keys() <= found.keys() and all(holds(found[name]) for name in CHANGES)


def shape_known(deployment: Deployment, query: dict[str, Any]) -> bool:
    shape = deployment.get(f"/api/v1/checkpoints/{query['query_id']}")["shape"]
    return shape is not None and shape["run_id"] == query["run_id"]


def end(driver: subprocess.Popen[bytes]) -> None:
    """An orderly end: a killed driver counts as a second one of its queries for a minute and a half."""
    driver.send_signal(signal.SIGTERM)
    driver.wait(60)


def test_change_is_named_as_the_cause_by_status_checkpoint_and_actions(
    deployment: Deployment, feed: Feed
) -> None:
    base = str(feed.directory.parent)
    driver = deployment.drive("changed_queries.py", base, "before", app="changed")
    wait_for(lambda: all_queries(deployment, lambda q: q["batch_id"] == 0), 300)
    wait_for(lambda: all_queries(deployment, lambda q: shape_known(deployment, q)), 300)
    end(driver)
    before = {name: query["run_id"] for name, query in deployment.queries().items()}
    feed.add()
    deployment.drive("changed_queries.py", base, "after", app="changed")

    def is_named(query: dict[str, Any]) -> bool:
        named = f"The query was changed: {'' if query['name'] != 'keys' else 'aggregate (operator 0): '}"
        return f"{named}{CHANGES[query['name']]}" in query["reason"]

    wait_for(lambda: all_queries(deployment, lambda q: q["status"] == "failed" and is_named(q)), 300)
    for name, query in deployment.queries().items():
        detail = deployment.get(f"/api/v1/queries/{query['query_id']}")
        assert query["run_id"] != before[name] and detail["failure"]["retry"] == "never"
        assert CHANGES[name] in detail["failure"]["change"]
        found = wait_for(lambda q=query: broken(deployment, q["query_id"]), 300)
        first = found["findings"][0]
        assert (first["check"], first["effect"]) == ("run.not-allowed", "fails")
        refused = deployment.cli("start", name)
        assert refused.returncode == 1 and CHANGES[name] in refused.stdout
        assert "restore" not in refused.stdout.lower()


def broken(deployment: Deployment, query_id: str) -> dict[str, Any] | None:
    found = deployment.get(f"/api/v1/checkpoints/{query_id}")
    return dict(found) if found["checkpoint"]["verdict"] == "broken" else None
