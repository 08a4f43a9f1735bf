"""Notifications from a query's failure to a webhook, with a real server and a simulated driver."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from alerts.matching.labels import parse_matchers
from alerts.silences import Silence
from alerts.state import AlertState
from controlplane.app import ControlPlane
from controlplane.errors import StoreUnavailable
from controlplane.store.engine import probe_write
from tests.acceptance.live import LiveServer, eventually, live_server
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery
from tests.stores import postgres_database
from tests.webhook_receiver import WebhookReceiver, running_webhook

#: Windows and waiting times are a hundredth: ten minutes are six seconds.
QUICK: dict[str, Any] = {"rules_scale": 0.01, "series_step": 0.5}


@pytest.fixture
def webhook() -> Iterator[WebhookReceiver]:
    with running_webhook() as receiver:
        yield receiver


@pytest.fixture
def server(tmp_path: Path, webhook: WebhookReceiver) -> Iterator[LiveServer]:
    with live_server(
        tmp_path, webhook=webhook.url, external_url="https://pages.example/cp/", **QUICK
    ) as running:
        yield running


@pytest.fixture
def agent(server: LiveServer) -> Iterator[SimulatedAgent]:
    driver = server.agent(labels={"team": "data"})
    driver.begin()
    yield driver
    driver.close()


def failed(agent: SimulatedAgent, name: str = "orders") -> SimulatedQuery:
    query = SimulatedQuery(name)
    agent.start(query)
    agent.send(agent.progress(query))
    agent.terminated(
        query, "org.apache.spark.SparkException: [CAST_INVALID_INPUT] no number", "CAST_INVALID_INPUT"
    )
    return query


def test_a_failed_query_is_notified_with_labels_reason_and_links(
    agent: SimulatedAgent, webhook: WebhookReceiver
) -> None:
    query = failed(agent)
    assert eventually(lambda: webhook.alerts("QueryFailed"))
    (message,) = [m for m in webhook.messages if m["groupLabels"]["alertname"] == "QueryFailed"]
    (alert,) = message["alerts"]
    assert alert["labels"]["query_id"] == query.query_id
    assert alert["labels"]["team"] == "data"
    assert alert["labels"]["severity"] == "critical"
    assert "orders" in alert["annotations"]["summary"]
    assert message["externalURL"] == "https://pages.example/cp"
    assert alert["generatorURL"] == f"https://pages.example/cp/alerts?alert={alert['fingerprint']}"
    assert message["notification_reason"] == "first notification"


def test_a_resolved_alert_is_notified_when_the_query_runs_again(
    agent: SimulatedAgent, webhook: WebhookReceiver
) -> None:
    query = failed(agent)
    assert eventually(lambda: webhook.alerts("QueryFailed"))
    query.run_id = "11111111-2222-3333-4444-555555555555"
    agent.start(query)
    agent.send(agent.progress(query))
    assert eventually(lambda: webhook.alerts("QueryFailed", "resolved"))


def test_alerts_and_their_notifications_survive_a_restart_of_the_server(
    tmp_path: Path, webhook: WebhookReceiver
) -> None:
    with live_server(tmp_path, webhook=webhook.url, **QUICK) as first:
        driver = first.agent()
        driver.begin()
        query = failed(driver)
        assert eventually(lambda: webhook.alerts("QueryFailed"))
        driver.close()
        (before,) = [
            v for v in first.plane.alerts.alerts(first.plane.clock()) if v.alert.rule == "QueryFailed"
        ]
    with live_server(tmp_path, webhook=webhook.url, **QUICK) as second:
        (after,) = [
            v for v in second.plane.alerts.alerts(second.plane.clock()) if v.alert.rule == "QueryFailed"
        ]
        assert (after.alert.fired_at, after.alert.state) == (before.alert.fired_at, AlertState.FIRING)
        evaluated = second.plane.alerts.rules()[0].evaluated_at
        assert eventually(lambda: second.plane.alerts.rules()[0].evaluated_at != evaluated)
        assert len(webhook.alerts("QueryFailed")) == 1
        (note,) = [n for n in second.plane.alerts.notes(10, after.alert.fingerprint) if n.outcome == "sent"]
        assert note.receiver == "default/webhook[0]"
        driver = second.agent()
        driver.begin()
        query.run_id = "11111111-2222-3333-4444-555555555555"
        driver.start(query)
        driver.send(driver.progress(query))
        assert eventually(lambda: webhook.alerts("QueryFailed", "resolved"))
        driver.close()


def test_a_failed_notification_is_retried_until_the_receiver_accepts_it(
    server: LiveServer, agent: SimulatedAgent, webhook: WebhookReceiver
) -> None:
    webhook.status = 503
    failed(agent)
    notes = server.plane.alerts.notes
    assert eventually(lambda: [n for n in notes(10) if n.outcome == "failed" and "503" in n.reason])
    assert not webhook.messages
    webhook.status = 200
    assert eventually(lambda: webhook.alerts("QueryFailed"))
    assert eventually(lambda: [n for n in notes(10) if n.outcome == "sent"])


def test_a_silenced_alert_is_not_notified_and_the_log_has_the_reason(
    server: LiveServer, agent: SimulatedAgent, webhook: WebhookReceiver
) -> None:
    alert_queries, now = server.plane.alerts, server.plane.clock()
    silence = Silence("", parse_matchers('query="quiet"'), now, now + 3600, "ada", "known")
    added = alert_queries.add_silence(silence, "ada", "test")
    failed(agent, "quiet")
    failed(agent, "loud")
    assert eventually(lambda: webhook.alerts("QueryFailed"))
    assert {alert["labels"]["query"] for alert in webhook.alerts("QueryFailed")} == {"loud"}
    (muted,) = [v for v in alert_queries.alerts(server.plane.clock()) if v.alert.labels["query"] == "quiet"]
    assert muted.silenced_by == (added.id,)


def test_an_alert_of_the_cause_inhibits_its_consequences(server: LiveServer, agent: SimulatedAgent) -> None:
    query = SimulatedQuery("looping")
    agent.start(query)
    for number in range(4):
        text = "org.apache.spark.SparkException: [STREAMING_CHECKPOINT_MISSING_METADATA_FILE] gone"
        agent.terminated(query, text, "STREAMING_CHECKPOINT_MISSING_METADATA_FILE")
        query.run_id = f"11111111-2222-3333-4444-55555555555{number}"
        if number < 3:
            agent.start(query)
    alert_queries = server.plane.alerts

    def muted() -> list[Any]:
        views = [v for v in alert_queries.alerts(server.plane.clock()) if v.alert.rule == "QueryFailed"]
        return [v for v in views if v.inhibited_by]

    assert eventually(muted), [v.alert for v in alert_queries.alerts(server.plane.clock())]
    assert muted()[0].inhibited_by[0].rule in ("CheckpointTrouble", "CrashLoop")


def test_the_fleet_counts_the_alerts_of_each_query(server: LiveServer, agent: SimulatedAgent) -> None:
    query = failed(agent)
    with server.client() as client:

        def row() -> Any:
            rows = client.get("/api/v1/queries").json()["queries"]
            (found,) = [row for row in rows if row["query_id"] == query.query_id]
            return found if found["alerts"] else None

        assert eventually(row)["alert_severity"] == "critical"


# -- other stores, and one that is full ------------------------------------------------------------


def test_a_server_on_postgresql_notifies_of_a_failure_and_its_resolution(
    postgres: str, tmp_path: Path, webhook: WebhookReceiver
) -> None:
    with (
        postgres_database(postgres) as url,
        live_server(tmp_path, database_url=url, webhook=webhook.url, **QUICK) as running,
    ):
        driver = running.agent()
        driver.begin()
        query = failed(driver)
        assert eventually(lambda: webhook.alerts("QueryFailed"))
        query.run_id = "11111111-2222-3333-4444-555555555555"
        driver.start(query)
        driver.send(driver.progress(query))
        assert eventually(lambda: webhook.alerts("QueryFailed", "resolved"))
        driver.close()
        alert_queries = running.plane.alerts
        (past,) = [
            v for v in alert_queries.history(0.0, 1e12, query.query_id, 9) if v.alert.rule == "QueryFailed"
        ]
        assert past.alert.state is AlertState.RESOLVED
        assert eventually(lambda: len([n for n in alert_queries.notes(9) if n.outcome == "sent"]) == 2)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 MiB in memory; only root can make one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("a small disk needs root: mount -t tmpfs is not allowed here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=False)


def fill(disk: Path) -> Path:
    """Fill the disk with a file of another program."""
    file = disk / "stranger"
    with contextlib.suppress(OSError), open(file, "wb", buffering=0) as out:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    out.write(b"x" * size)
    return file


def fill_store(plane: ControlPlane, driver: SimulatedAgent, query: SimulatedQuery) -> None:
    """Write until not even a small row fits into the database's log."""
    with contextlib.suppress(httpx.HTTPStatusError):
        for _ in range(500):
            driver.send(*[driver.progress(query, noise=os.urandom(20_000).hex()) for _ in range(5)])
    for number in range(50_000):
        try:
            plane.writer.write(lambda conn, at=number: probe_write(conn, at))
        except StoreUnavailable:
            return
    pytest.fail("the disk never became full")


def test_alerts_are_notified_on_a_full_disk_and_stored_once_there_is_space(
    small_disk: Path, tmp_path: Path, webhook: WebhookReceiver
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("groups: []")
    with live_server(small_disk, webhook=webhook.url, rules=(str(rules),), **QUICK) as server:
        plane, query, driver = server.plane, SimulatedQuery("orders"), server.agent()
        driver.begin()
        driver.start(query)
        stranger = fill(small_disk)
        fill_store(plane, driver, query)
        rules.write_text("groups: [{name: g, rules: [{alert: Always, expr: vector(1)}]}]")
        assert eventually(lambda: webhook.alerts("Always"), 300)
        assert plane.alerts.notes(9) == []
        assert plane.alerts.history(0.0, 1e12, None, 9) == []
        stranger.unlink()
        assert eventually(lambda: plane.alerts.history(0.0, 1e12, None, 9))
        assert eventually(lambda: plane.alerts.notes(9))
        (view,) = plane.alerts.history(0.0, 1e12, None, 9)
        (note,) = [item for item in plane.alerts.notes(9) if item.outcome == "sent"]
        assert note.fingerprints == (view.alert.fingerprint,)
        assert len(webhook.alerts("Always")) == 1
        driver.close()
