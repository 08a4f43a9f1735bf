"""The server's checkpoint verdicts on real Spark: a prediction, a refused start, and a start after the repair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.spark.deployment import Deployment, Feed, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.long]


def seen(deployment: Deployment, query_id: str) -> dict[str, Any]:
    return dict(deployment.get(f"/api/v1/checkpoints/{query_id}"))


def verdict(deployment: Deployment, query_id: str, why: str) -> str | None:
    checkpoint = seen(deployment, query_id)["checkpoint"]
    return checkpoint["verdict"] if checkpoint["why"] == why and not checkpoint["stale"] else None


def test_a_start_that_would_fail_is_refused_and_runs_once_the_checkpoint_is_mended(
    deployment: Deployment, feed: Feed, tmp_path: Path
) -> None:
    base = tmp_path / "base"
    deployment.drive("two_queries.py", str(base))
    wait_for(lambda: (deployment.queries().get("orders") or {}).get("batch_id") is not None, 300)
    feed.add()
    wait_for(lambda: deployment.queries()["orders"]["batch_id"] >= 1, 300)
    query_id = deployment.queries()["orders"]["query_id"]
    wait_for(lambda: verdict(deployment, query_id, "started") in ("ok", "ok_at_check", "outdated"))
    reported = deployment.queries()["orders"]["batch_id"]
    assert seen(deployment, query_id)["checkpoint"]["next_batch"] > reported
    deployment.act("stop", "orders")
    wait_for(lambda: verdict(deployment, query_id, "stopped") == "ok")

    [checkpoint] = [path for path in base.rglob("metadata") if query_id in path.read_text()]
    next_batch = seen(deployment, query_id)["checkpoint"]["next_batch"]
    committed = max(int(path.name) for path in (checkpoint.parent / "commits").glob("[0-9]*"))
    newest = (
        checkpoint.parent / "offsets" / str(committed)
    )  # the one after it, if any, was cut and never reported
    whole = newest.read_bytes()
    newest.write_bytes(b"v1\n")
    look = f"/api/v1/checkpoints/{query_id}/inventory"
    deployment.post(look, {})
    wait_for(lambda: verdict(deployment, query_id, "asked") == "broken")
    refused = deployment.cli("start", "orders", "--json")
    action = json.loads(refused.stdout)["action"]
    assert (refused.returncode, action["state"]) == (1, "refused")
    assert action["evidence"]["code"] == "checkpoint_broken"
    assert f"offsets/{newest.name}" in action["reason"]
    findings = {finding["check"] for finding in seen(deployment, query_id)["findings"]}
    assert {"log.offset-unreadable", "log.offset-rebuildable"} <= findings

    newest.write_bytes(whole)
    deployment.post(look, {})
    wait_for(lambda: verdict(deployment, query_id, "asked") == "ok")
    started = deployment.act("start", "orders", "--wait", "120")["action"]
    assert started["state"] == "succeeded"
    assert started["evidence"]["checkpoint"]["summary"] == f"The next start resumes at batch {next_batch}."
    wait_for(lambda: (seen(deployment, query_id)["shape"] or {}).get("verdict") == "allowed")
