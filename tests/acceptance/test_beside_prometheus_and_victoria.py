"""Metrics kept elsewhere, and rules evaluated there: Debian's Prometheus and VictoriaMetrics beside a real server.

Samples go out by remote write and by federation; alerts of rules that Prometheus and vmalert evaluate over them come back.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.model import Role
from tests.acceptance.live import LiveServer, eventually, live_server
from tests.acceptance.simulated import SimulatedQuery
from tests.peers import program, prometheus, victoria_metrics
from tests.ports import free_port

pytestmark = pytest.mark.long
Json = dict[str, Any]
CHOSEN = '{__name__=~"spark_streaming_query_up|spark_streaming_batches_total|controlplane_agents|fleet:up"}'
OURS = """
groups:
  - {name: own, interval: 1s, rules: [{record: "fleet:up", expr: sum(spark_streaming_query_up)}]}
"""
#: What `rules export` would give to Prometheus, in one rule.
THEIRS = """
groups:
  - name: elsewhere
    interval: 1s
    rules:
      - alert: QueryDown
        expr: spark_streaming_query_up{site="fra"} == 0
        labels: {severity: critical}
        annotations: {summary: "{{ $labels.query }} is down"}
"""


@contextmanager
def sending_to(folder: Path, *urls: str) -> Iterator[LiveServer]:
    """A server that writes to these receivers each second."""
    (folder / "rules.yaml").write_text(OURS)
    written = [{"url": url, "interval": "1s", "match": [CHOSEN]} for url in urls]
    config = {"global": {"external_labels": {"site": "fra"}}, "remote_write": written}
    (folder / "notify.yaml").write_text(json.dumps(config))
    options = {"rules": (str(folder / "rules.yaml"),), "notify": folder / "notify.yaml", "series_step": 1.0}
    with live_server(folder / "server", **options) as server:
        yield server


def query(url: str, expression: str) -> list[Json]:
    return list(httpx.get(f"{url}/api/v1/query", params={"query": expression}).json()["data"]["result"])


def value(url: str, expression: str) -> float | None:
    found = query(url, expression)
    return float(found[0]["value"][1]) if len(found) == 1 else None


def metrics_arrive(server: LiveServer, url: str) -> None:
    """Labels, values, counters and the end of a series are those of the server."""
    agent, shown = server.agent(), SimulatedQuery("shown")
    agent.start(shown)
    agent.send(agent.progress(shown), agent.progress(shown))
    series = f'{{query_id="{shown.query_id}"}}'
    assert eventually(lambda: value(url, f"spark_streaming_batches_total{series}") == 2.0)
    (found,) = query(url, f"spark_streaming_query_up{series}")
    with server.client() as client:
        asked = {"query": f"spark_streaming_query_up{series}"}
        (ours,) = client.get("/prometheus/api/v1/query", params=asked).json()["data"]["result"]
        assert found["metric"] == {**ours["metric"], "site": "fra"}
        assert value(url, 'controlplane_agents{way=""}') == 1.0
        assert eventually(lambda: value(url, '{__name__="fleet:up",way=""}') == 1.0)
        assert query(url, "spark_streaming_batch_duration_seconds") == []  # not selected
        agent.terminated(shown, "boom", "STREAM_FAILED")
        agent.start(SimulatedQuery("shown"))  # with another checkpoint: the former query is no longer shown
        # The staleness marker ends the series at once, not after five minutes.
        assert eventually(lambda: query(url, f"spark_streaming_batches_total{series}") == [])
        figures = client.get("/metrics").text
    assert "controlplane_remote_write_samples_dropped_total 0.0" in figures
    agent.close()


@pytest.mark.soak  # where Prometheus' first request fails, it sends the alert a minute later
def test_prometheus_takes_the_metrics_evaluates_rules_and_sends_the_alerts_back(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.yml").write_text(THEIRS)
    port = free_port()
    with sending_to(tmp_path, f"http://127.0.0.1:{port}/api/v1/write") as server:
        address = httpx.URL(server.url)
        log_in = {"username": "prometheus", "password": server.token(Role.AGENT)}
        home = {"static_configs": [{"targets": [f"{address.host}:{address.port}"]}]}
        federated = {
            **home,
            "job_name": "federated",
            "honor_labels": True,
            "metrics_path": "/prometheus/federate",
            "params": {"match[]": ['{__name__="controlplane_agents"}', '{__name__="fleet:up"}']},
            "basic_auth": {"username": "prometheus", "password": server.token(Role.VIEWER)},
            "scrape_interval": "1s",
            "metric_relabel_configs": [{"target_label": "way", "replacement": "federation"}],
        }
        config = {
            "global": {"evaluation_interval": "1s"},
            "rule_files": [str(tmp_path / "elsewhere.yml")],
            "alerting": {"alertmanagers": [{**home, "path_prefix": "/alertmanager", "basic_auth": log_in}]},
            "scrape_configs": [federated],
        }
        with prometheus(
            tmp_path / "prometheus", config, "--web.enable-remote-write-receiver", port=port
        ) as url:
            metrics_arrive(server, url)
            comes_back(server, url)
            assert value(url, '{__name__="fleet:up",way="federation",site="fra"}') is not None


def test_victoriametrics_takes_the_metrics_and_vmalert_sends_the_alerts_back(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.yml").write_text(THEIRS)
    vmalert = program("vmalert", "victoria-metrics")
    with (
        victoria_metrics(tmp_path / "victoria", "-search.latencyOffset=0s") as url,
        sending_to(tmp_path, f"{url}/api/v1/write") as server,
    ):
        command = [
            vmalert,
            f"-rule={tmp_path / 'elsewhere.yml'}",
            f"-datasource.url={url}",
            f"-notifier.url={server.url}/alertmanager",
            "-notifier.basicAuth.username=vmalert",
            f"-notifier.basicAuth.password={server.token(Role.AGENT)}",
            f"-httpListenAddr=127.0.0.1:{free_port()}",
            "-evaluationInterval=1s",
        ]
        with (tmp_path / "vmalert.log").open("w") as log, subprocess.Popen(command, stderr=log) as process:
            try:
                metrics_arrive(server, url)
                comes_back(server, url)
            finally:
                process.terminate()


def comes_back(server: LiveServer, url: str) -> None:
    """A query that fails is an alert of the rules elsewhere, on the pages of this server, until it runs again."""
    agent, broken = server.agent(), SimulatedQuery("broken")
    agent.start(broken)
    agent.send(agent.progress(broken))
    agent.terminated(broken, "boom", "STREAM_FAILED")
    with server.client() as client:

        def alerts() -> list[Json]:
            found = client.get("/api/v1/alerts", params={"query_id": broken.query_id}).json()["alerts"]
            return [alert for alert in found if alert["name"] == "QueryDown"]

        # Prometheus sends an alert again after a minute where the first request failed.
        assert eventually(alerts, 300), query(url, '{__name__=~"ALERTS|spark_streaming_query_up"}')
        (alert,) = alerts()
        assert (alert["state"], alert["group"], alert["severity"]) == ("firing", "received", "critical")
        assert alert["annotations"]["summary"] == "broken is down"
        assert (alert["labels"]["alert_source"], alert["labels"]["site"]) == ("external", "fra")
        broken.run_id = str(uuid.uuid4())
        agent.start(broken)
        agent.send(agent.progress(broken))
        assert eventually(lambda: [alert["state"] for alert in alerts()] in (["resolved"], []), 300)
    agent.close()
