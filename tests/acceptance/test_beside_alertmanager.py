"""A server beside Debian's Alertmanager and amtool: alerts in both directions, silences that are made there."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.model import Role
from tests.acceptance.live import LiveServer, eventually, live_server
from tests.peers import alertmanager
from tests.unit.alerts.rules.test_pack import peer

Json = dict[str, Any]
RULES = """
groups:
  - {name: idle, rules: [{alert: Never, expr: vector(1) > 2}]}
"""
NOTIFY = """
route: {receiver: everybody, routes: [{matchers: ['team="z"'], receiver: team-z}]}
receivers: [{name: everybody}, {name: team-z}]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = Path(tmp_path_factory.mktemp("beside"))
    (folder / "rules.yaml").write_text(RULES)
    (folder / "notify.yaml").write_text(NOTIFY)
    changes = {"rules": (str(folder / "rules.yaml"),), "notify": folder / "notify.yaml", "series_step": 1.0}
    with live_server(folder / "data", **changes) as running:
        yield running


def amtool(server: LiveServer, folder: Path, *arguments: str) -> str:
    auth = {"authorization": {"credentials": server.token(Role.OPERATOR)}}
    (folder / "http.yaml").write_text(json.dumps(auth))
    where = f"--alertmanager.url={server.url}/alertmanager", f"--http.config.file={folder / 'http.yaml'}"
    found = peer("amtool", "prometheus-alertmanager", *where, *arguments)
    assert found.returncode == 0, found.stderr
    return found.stdout


def shown(server: LiveServer, name: str) -> list[Json]:
    with server.client() as client:
        return [alert for alert in client.get("/api/v1/alerts").json()["alerts"] if alert["name"] == name]


def test_amtool_adds_an_alert_that_is_routed_and_ends(server: LiveServer, tmp_path: Path) -> None:
    name, link = f"Disk{uuid.uuid4().hex[:6]}", "http://prometheus.example/graph"
    added = "alert", "add", name, "team=z"
    amtool(server, tmp_path, *added, "--annotation=summary=full", f"--generator-url={link}")
    (alert,) = shown(server, name)
    assert (alert["state"], alert["group"], alert["receivers"]) == ("firing", "received", ["team-z"])
    assert alert["labels"] == {"alertname": name, "team": "z", "alert_source": "external"}
    (queried,) = json.loads(amtool(server, tmp_path, "alert", "query", "-o", "json", f"alertname={name}"))
    assert queried["generatorURL"] == link
    past = "2026-01-01T00:00:00Z"
    amtool(server, tmp_path, *added, f"--start={past}", f"--end={past}")
    assert [alert["state"] for alert in shown(server, name)] == ["resolved"]


def test_a_token_bound_to_an_application_posts_only_its_alerts(server: LiveServer) -> None:
    name = f"Own{uuid.uuid4().hex[:6]}"
    alerts = [{"labels": {"alertname": name, "app": app}} for app in ("orders", "billing")]
    with server.client(server.token(Role.AGENT, "orders")) as client:
        answer = client.post("/alertmanager/api/v2/alerts", json=alerts)
    assert (answer.status_code, "application 'orders' only" in answer.json()) == (400, True)
    assert [alert["app"] for alert in shown(server, name)] == ["orders"]


# -- alerts that are sent --------------------------------------------------------------------------

SWITCH = """
groups:
  - name: agents
    interval: 1s
    rules: [{alert: Pushed, expr: controlplane_agents >= 0 unless controlplane_agents > 0, labels: {team: z}}]
"""


def sections(*urls: str) -> str:
    """Configuration that sends to these Alertmanagers; each is `http://HOST:PORT/PREFIX`."""
    parts = [httpx.URL(url) for url in urls]
    listed = [
        {"static_configs": [{"targets": [f"{p.host}:{p.port}"]}], "path_prefix": p.path, "timeout": "2s"}
        for p in parts
    ]
    return json.dumps({"global": {"external_labels": {"site": "fra"}}, "alerting": {"alertmanagers": listed}})


def test_alerts_go_to_every_alertmanager_and_their_silences_are_shown(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(SWITCH)
    away = "http://127.0.0.1:1/"
    with alertmanager(tmp_path / "am", "am") as url:
        (tmp_path / "notify.yaml").write_text(sections(url, away))
        silence = _silence(url, "team", "z")
        options = {"rules": (str(tmp_path / "rules.yaml"),), "notify": tmp_path / "notify.yaml"}
        with live_server(tmp_path / "data", series_step=1.0, **options) as server, server.client() as client:
            (alert,) = eventually(lambda: _alerts(url))
            (ours,) = shown(server, "Pushed")
            assert alert["labels"] == {**ours["labels"], "site": "fra"}
            assert alert["generatorURL"].endswith(f"/alerts?alert={ours['fingerprint']}")
            assert _seconds(alert["startsAt"]) == pytest.approx(_seconds(ours["fired_at"]), abs=0.002)
            problem = client.get("/api/v1/receivers").json()["problem"]
            assert away.rstrip("/") in problem["summary"]
            (found,) = eventually(lambda: client.get("/api/v1/silences").json()["silences"])
            assert (found["id"], found["alertmanager"], found["alerts"]) == (silence, url, 1)
            refused = client.delete(f"/api/v1/silences/{silence}")
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "elsewhere")
            assert shown(server, "Pushed")[0]["silenced_by"] == []
            server.agent().begin()  # the condition ends
            assert eventually(lambda: not _alerts(url))


def _alerts(url: str) -> list[Json]:
    return list(httpx.get(f"{url}/api/v2/alerts").json())


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _silence(url: str, name: str, value: str) -> str:
    times = [datetime.fromtimestamp(time.time() + n + 1, UTC).isoformat() for n in (0, 3600)]
    matcher = {"name": name, "value": value, "isRegex": False, "isEqual": True}
    body = {
        "matchers": [matcher],
        "startsAt": times[0],
        "endsAt": times[1],
        "createdBy": "ada",
        "comment": "x",
    }
    return str(httpx.post(f"{url}/api/v2/silences", json=body).json()["silenceID"])
