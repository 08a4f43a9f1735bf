"""Policies on real Spark: a sink that comes back, a poison record, a broken checkpoint, a person's stop.

One driver has a query for each, under one document of policies.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.deployment import Deployment, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.long]

POLICIES = """\
policies:
  - name: patient
    match: ['query=~"damaged|unwanted"']
    mode: act
    restart: {backoff: {initial: 20s, jitter: 0}, max_parallel: {app: 4}}
  - name: quick
    mode: act
    restart: {backoff: {initial: 1s, jitter: 0}, max_parallel: {app: 4}}
"""


IN_DRIVER = """\
policies:
  - name: quick
    mode: act
    restart: {in_driver: true, backoff: {initial: 1s, jitter: 0}}
conditions: {FOREACH_BATCH_USER_FUNCTION_ERROR: now}
"""


def entries(deployment: Deployment, name: str) -> list[dict[str, Any]]:
    """The ledger's entries about a query, oldest first."""
    query_id = deployment.queries()[name]["query_id"]
    found: list[dict[str, Any]] = deployment.get(f"/api/v1/ledger?query_id={query_id}")["entries"]
    return found[::-1]


def decided(deployment: Deployment, name: str, decision: str, **wanted: Any) -> dict[str, Any]:
    """The first entry with this decision and these fields, awaited."""

    def found() -> dict[str, Any] | None:
        matching = (e for e in entries(deployment, name) if e["decision"] == decision)
        return next((e for e in matching if all(e[key] == value for key, value in wanted.items())), None)

    return dict(wait_for(found))


def has_status(deployment: Deployment, name: str, *statuses: str) -> Callable[[], bool]:
    return lambda: (deployment.queries().get(name) or {}).get("status") in statuses


def damage(checkpoint: Path) -> None:
    """Replace the newest offsets by a file that Spark cannot read."""
    newest = max(
        (p for p in (checkpoint / "offsets").iterdir() if p.name.isdigit()), key=lambda p: int(p.name)
    )
    newest.write_bytes(b"v1\n")


def test_each_query_is_brought_back_or_a_person_is_called(deployment: Deployment, tmp_path: Path) -> None:
    base = tmp_path / "base"
    (base / "in").mkdir(parents=True)
    (base / "in" / "good.txt").write_text("1\n2\n")
    policies = tmp_path / "policies.yaml"
    policies.write_text(POLICIES)
    applied = deployment.cli("policy", "apply", str(policies))
    assert applied.returncode == 0, applied.stderr
    deployment.drive("troubled_queries.py", str(base), app="troubled")
    for name in ("flaky", "damaged", "unwanted", "poison"):
        wait_for(lambda name=name: (deployment.queries().get(name) or {}).get("batch_id") is not None, 300)

    (base / "in" / "bad.txt").write_text("three\n")
    for name in ("damaged", "flaky", "unwanted"):
        (base / f"{name}.fail").touch()
    wait_for(has_status(deployment, "damaged", "failed"))
    damage(base / "checkpoint-damaged")
    decided(deployment, "unwanted", "wait", code="backoff")
    stopped = deployment.cli("stop", "unwanted", "--reason", "not today")
    assert stopped.returncode == 1 and "not running" in stopped.stdout

    back = decided(deployment, "flaky", "restart", outcome="recovered")
    assert (back["acted"], back["policy"], back["assessment"]) == (True, "quick", "helped")
    wait_for(has_status(deployment, "flaky", "running", "idle"))

    paged = decided(deployment, "poison", "page")
    assert (paged["code"], paged["condition"]) == ("cannot_help", "CAST_INVALID_INPUT")
    assert wait_for(lambda: _alert(deployment, "RestartCannotHelp", "poison"))["status"]["state"] == "active"
    wait_for(lambda: _alert(deployment, "QueryFailed", "poison")["status"]["inhibitedBy"])

    refused = decided(deployment, "damaged", "page", code="checkpoint_broken")
    assert "offsets/" in refused["why"]

    decided(deployment, "unwanted", "nothing", code="desired_state")
    explained = deployment.cli("policy", "explain", "unwanted").stdout
    assert "desired: stopped" in explained and "now: nothing" in explained
    assert [e["decision"] for e in entries(deployment, "poison")] == ["page"]
    assert "restart" not in {e["decision"] for e in entries(deployment, "unwanted")}
    starts = {name: query["starts"] for name, query in deployment.queries().items()}
    assert starts == {"flaky": 2, "damaged": 1, "unwanted": 1, "poison": 1}


def test_a_driver_restarts_its_query_while_the_server_is_away(deployment: Deployment, tmp_path: Path) -> None:
    base, policies = tmp_path / "base", tmp_path / "policies.yaml"
    (base / "in").mkdir(parents=True)
    policies.write_text(IN_DRIVER)
    assert deployment.cli("policy", "apply", str(policies)).returncode == 0
    deployment.drive("troubled_queries.py", str(base), app="troubled")
    wait_for(lambda: (deployment.queries().get("flaky") or {}).get("batch_id") is not None, 300)

    fail_once(base, "flaky")
    decided(deployment, "flaky", "restart", outcome="recovered")
    deployment.kill_server()
    fail_once(base, "flaky")
    deployment.start_server()

    def both() -> list[dict[str, Any]]:
        """The restarts, once two have held."""
        found = [e for e in entries(deployment, "flaky") if e["decision"] == "restart"]
        return found if [e["outcome"] for e in found] == ["recovered"] * 2 else []

    restarts = wait_for(both, 300)
    assert {(e["acted"], e["inputs"]["by"]) for e in restarts} == {(True, "driver")}
    assert deployment.queries()["flaky"]["starts"] == 3
    assert deployment.get("/api/v1/actions")["actions"] == []  # the server has started nothing


def fail_once(base: Path, name: str) -> None:
    """Let the sink fail, and wait until the query writes again."""
    fail, batch = base / f"{name}.fail", base / f"{name}.batch"
    fail.touch()
    wait_for(lambda: not fail.exists(), 300)
    wait_for(lambda: _moves(batch), 300)


def _moves(batch: Path) -> bool:
    before = batch.stat().st_mtime_ns
    time.sleep(2.5)  # five triggers
    return batch.stat().st_mtime_ns != before


def _alert(deployment: Deployment, name: str, query: str) -> dict[str, Any] | None:
    for alert in deployment.get("/alertmanager/api/v2/alerts"):
        if (alert["labels"]["alertname"], alert["labels"].get("query")) == (name, query):
            return dict(alert)
    return None
