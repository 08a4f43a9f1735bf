"""The command line over two servers side by side, each with a part of the applications."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from controlplane.cli.main import cli
from tests.acceptance.live import LiveServer, live_server
from tests.acceptance.simulated import SimulatedQuery


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[str, LiveServer]]:
    """Two servers; `orders` runs on the first, `billing` on the second."""
    with live_server(tmp_path / "eu") as eu, live_server(tmp_path / "us") as us:
        found = {"eu": eu, "us": us}
        agents = [server.agent(app=name) for name, server in found.items()]
        for agent in agents:
            agent.begin()
            query = SimulatedQuery(f"of-{agent.app}")
            agent.start(query)
            agent.send(agent.progress(query))
        yield found
        for agent in agents:
            agent.close()


def run(servers: dict[str, LiveServer], *command: str) -> Result:
    tokens = {f"CONTROLPLANE_TOKEN_{name.upper()}": server.admin_token for name, server in servers.items()}
    where = [f"--server={name}={server.url}" for name, server in servers.items()]
    return CliRunner().invoke(cli, [*command, *where], env=tokens)


def test_lists_are_those_of_both_and_an_object_is_found_where_it_is(servers: dict[str, LiveServer]) -> None:
    shown = run(servers, "queries")
    assert shown.output.splitlines()[0].startswith("SERVER  STATUS"), shown.output
    assert {line.split()[0] for line in shown.output.splitlines()[1:]} == {"eu", "us"}
    found: list[dict[str, Any]] = json.loads(run(servers, "queries", "--json").stdout)["queries"]
    assert sorted((q["server"], q["app"], q["name"]) for q in found) == [
        ("eu", "eu", "of-eu"),
        ("us", "us", "of-us"),
    ]
    retired = run(servers, "retire", "of-us")
    assert (retired.exit_code, retired.output) == (2, "Error: the query is running; stop it first\n")
    refused = run(servers, "silence", "add", "alertname=A", "--for", "1h")
    assert (refused.exit_code, "give one --server" in refused.output) == (2, True)


def test_a_server_that_is_away_is_named_and_the_other_is_shown(servers: dict[str, LiveServer]) -> None:
    where = [f"--server=eu={servers['eu'].url}", "--server=us=http://127.0.0.1:1"]
    env = {"CONTROLPLANE_TOKEN": servers["eu"].admin_token}
    shown = CliRunner().invoke(cli, ["queries", *where], env=env)
    assert (shown.exit_code, "of-eu" in shown.stdout, "us is left out" in shown.stderr) == (0, True, True)
    unnamed = CliRunner().invoke(cli, ["queries", "--server=http://a", "--server=http://b"], env=env)
    assert (unnamed.exit_code, "must be named" in unnamed.output) == (2, True)
