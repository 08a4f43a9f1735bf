"""Applications over HTTP and by the command line, with real local processes."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.model import Role
from tests.acceptance.conftest import Cli
from tests.acceptance.live import LiveServer, eventually, live_server

PROGRAM = """
import os, sys
import listeners.protocol.wire
print("labels", os.environ["CONTROLPLANE_LABELS"], "password=hunter2", flush=True)
sys.stdin.read()
import time; time.sleep(600)
"""
FILE = """
apps:
  - name: {name}
    launcher: {{kind: process, command: [{python}, {program}]}}
    version: "7"
    env: {{DB_PASSWORD: hunter2}}
    stop: {{grace: 5s, drain: 0s}}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with live_server(Path(tmp_path_factory.mktemp("data")), launchers=("process",)) as running:
        yield running
        with running.client() as admin:
            for app in admin.get("/api/v1/apps").json()["apps"]:
                admin.post(f"/api/v1/apps/{app['name']}/actions", json={"action": "stop"})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    program, written = tmp_path / "billing.py", tmp_path / "apps.yaml"
    program.write_text(PROGRAM)
    written.write_text(FILE.format(name="billing", python=sys.executable, program=program))
    return written


def app_of(admin: httpx.Client) -> dict[str, Any]:
    return dict(admin.get("/api/v1/apps/billing").json())


def test_an_application_from_file_to_end(
    cli: Cli, server: LiveServer, admin: httpx.Client, file: Path
) -> None:
    assert cli("apps", "check", str(file)).out == f"{file}: 1 application\n"
    assert cli("apps", "apply", str(file)).out == "added  billing\n"
    assert cli("apps", "apply", str(file)).out == "unchanged  billing\n"
    assert (app_of(admin)["state"], app_of(admin)["desired"]) == ("none", "running"), (
        "applying starts nothing"
    )

    assert cli("apps", "start", "billing", "--reason", "deploy").code == 0
    assert (app_of(admin)["state"], app_of(admin)["running_version"], app_of(admin)["env"]) == (
        "running",
        "7",
        ["DB_PASSWORD"],
    )
    assert "Nothing to do" in cli("apps", "start", "billing").out
    assert eventually(lambda: "labels version=7" in cli("apps", "logs", "billing").out)
    assert "hunter2" not in cli("apps", "logs", "billing").out
    assert "hunter2" not in admin.get("/api/v1/apps").text
    assert cli("apps", "list").out.splitlines()[1].split()[:5] == [
        "running",
        "running",
        "billing",
        "process",
        "7",
    ]

    first = app_of(admin)["started_at"]
    assert cli("apps", "restart", "billing").code == 0
    assert app_of(admin)["started_at"] > first
    gone = cli("apps", "apply", str(file.with_name("none.yaml")))
    assert gone.code == 2
    file.with_name("none.yaml").write_text("apps: []")
    refused = cli("apps", "apply", str(file.with_name("none.yaml")))
    assert (refused.code, "driver has not ended: billing" in refused.err) == (2, True)

    stopped = cli("apps", "stop", "billing", "--json")
    assert (stopped.code, json.loads(stopped.out)["action"]["state"]) == (0, "succeeded")
    assert (app_of(admin)["state"], app_of(admin)["desired"]) == ("ended", "stopped")
    assert cli("apps", "apply", str(file.with_name("none.yaml"))).out == "removed  billing\n"


def test_a_driver_of_another_origin_holds_a_start_back(
    cli: Cli, server: LiveServer, admin: httpx.Client, file: Path
) -> None:
    agent = server.agent(app="billing")
    agent.begin()
    assert cli("apps", "apply", str(file)).code == 0
    refused = cli("apps", "start", "billing")
    assert refused.code == 1
    assert "Another driver of billing may still run" in refused.out
    operator = server.client(server.token(Role.OPERATOR))
    body = {"action": "start", "force": True}
    assert operator.post("/api/v1/apps/billing/actions", json=body).status_code == 403
    answer = operator.post("/api/v1/apps/billing/actions", json={"action": "start"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "driver_may_live")
    assert cli("apps", "start", "billing", "--force").code == 0
    assert cli("apps", "stop", "billing").code == 0
    agent.close()


def test_a_killed_driver_is_started_by_its_policy_and_the_ledger_records_it(
    cli: Cli, server: LiveServer, admin: httpx.Client, file: Path
) -> None:
    policies = file.with_name("policies.yaml")
    policies.write_text("policies: [{name: now, mode: act, restart: {backoff: {initial: 1s, jitter: 0}}}]")
    assert cli("policy", "apply", str(policies)).code == 0
    file.write_text(
        file.read_text().replace("name: billing", "name: orders") + "    restart: {policy: now}\n"
    )
    assert cli("apps", "apply", str(file)).code == 0
    assert cli("apps", "start", "orders").code == 0
    driver = server.plane.apps.app("orders").driver
    assert driver is not None
    assert driver.handle is not None
    os.kill(driver.handle["pid"], signal.SIGKILL)

    def started_by() -> str:
        server.plane.apps.tick()
        return str(admin.get("/api/v1/apps/orders").json()["started_by"])

    assert eventually(lambda: started_by() == "policy:now")
    entries = json.loads(cli("ledger", "--query", "app:orders", "--json").out)["entries"]
    assert ("orders", "restart", True) in [(e["app"], e["decision"], e["acted"]) for e in entries]
    assert cli("apps", "stop", "orders").code == 0  # also while the policy's start is under way


def test_roles(server: LiveServer, file: Path) -> None:
    body = {"text": file.read_text()}
    for role, statuses in ((Role.VIEWER, (200, 403, 403, 403)), (Role.OPERATOR, (200, 403, 404, 404))):
        client = server.client(server.token(role))
        asked = (
            client.get("/api/v1/apps"),
            client.put("/api/v1/apps", json=body),
            client.post("/api/v1/apps/nothing/actions", json={"action": "stop"}),
            client.get("/api/v1/apps/nothing/logs"),
        )
        assert tuple(answer.status_code for answer in asked) == statuses


def test_mistakes_have_places_and_kinds_that_are_off_are_refused(
    cli: Cli, admin: httpx.Client, file: Path
) -> None:
    wrong = file.with_name("wrong.yaml")
    wrong.write_text("apps:\n  - name: a\n")
    for verb in ("check", "apply"):
        found = cli("apps", verb, str(wrong))
        assert found.code == 2
        assert found.err.startswith(f"{wrong}:2:5: an app needs a launcher")
    answer = admin.put("/api/v1/apps", json={"text": wrong.read_text()})
    assert answer.json()["error"]["detail"]["mistakes"][0]["line"] == 2
    command = "{kind: command, start: [a], stop: [a], state: [a]}"
    wrong.write_text(f"apps:\n  - name: a\n    launcher: {command}\n")
    assert "--launcher command" in cli("apps", "apply", str(wrong)).err
