"""The command line against a real server: names, exit codes and error messages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Cli, CliResult
from tests.acceptance.live import LiveServer
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery, restarts


@pytest.fixture
def query(agent: SimulatedAgent) -> SimulatedQuery:
    started = SimulatedQuery(f"enrich-{agent.agent[:6]}")
    agent.start(started)
    agent.send(agent.progress(started), agent.progress(started))
    return started


def mistake(printed: CliResult) -> str:
    """The one line of a user's mistake."""
    assert (printed.code, printed.out) == (2, "")
    assert len(printed.err.strip().splitlines()) == 1
    return printed.err


def test_the_fleet_is_a_table_or_json(cli: Cli, query: SimulatedQuery) -> None:
    table = cli("queries")
    assert table.code == 0
    assert table.out.startswith("STATUS")
    assert f"orders/{query.name}" in table.out
    document = json.loads(cli("queries", "--json", "--app", "orders").out)
    assert query.query_id in [q["query_id"] for q in document["queries"]]
    assert json.loads(cli("queries", "--json", "--label", "a=b").out)["queries"] == []


@pytest.mark.parametrize("way", ["name", "app/name", "id", "prefix"])
def test_a_restart_by_any_name_ends_with_0_when_it_is_verified(
    cli: Cli, agent: SimulatedAgent, query: SimulatedQuery, way: str
) -> None:
    agent.serve_commands(restarts(query, lambda driver: driver.send(driver.progress(query))))
    names = {
        "name": query.name,
        "app/name": f"orders/{query.name}",
        "id": query.query_id,
        "prefix": query.query_id[:13],
    }
    printed = cli("restart", str(names[way]), "--reason", "test", "--wait", "20")
    assert printed.code == 0
    assert "succeeded: resumed at batch 2" in printed.out
    assert "requested" in printed.err


def test_a_failure_ends_with_1_and_names_condition_and_advice(
    cli: Cli, agent: SimulatedAgent, query: SimulatedQuery
) -> None:
    text = "[STREAM_FAILED] Query terminated.\nCaused by: java.lang.OutOfMemoryError: Java heap space"
    agent.serve_commands(restarts(query, lambda driver: driver.terminated(query, text, "STREAM_FAILED")))
    printed = cli("restart", query.query_id)
    assert printed.code == 1
    assert " failed: " in printed.out
    assert printed.out.count("Restart the query once") == 1


def test_a_refusal_exits_with_1_and_json_has_the_action(cli: Cli, query: SimulatedQuery) -> None:
    printed = cli("start", query.query_id, "--json")
    assert printed.code == 1
    assert json.loads(printed.out)["action"]["evidence"]["code"] == "already_running"


def test_a_wait_that_is_too_short_exits_with_1_and_shows_how_to_follow_the_action(
    cli: Cli, query: SimulatedQuery
) -> None:
    printed = cli("stop", query.query_id, "--wait", "0.1")
    assert printed.code == 1
    assert "still requested" in printed.out
    listed = json.loads(cli("actions", "--json", "--query", query.query_id).out)["actions"]
    assert [a["action"] for a in listed] == ["stop"]
    assert "stop" in cli("actions").out


def test_retire_needs_a_query_that_does_not_run(
    cli: Cli, agent: SimulatedAgent, query: SimulatedQuery
) -> None:
    assert "stop it first" in mistake(cli("retire", query.query_id))
    agent.terminated(query)
    printed = cli("retire", query.query_id, "--reason", "old")
    assert (printed.code, "is retired" in printed.out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("stop", "nobody"), "no query matches nobody"),
        (("stop", "aaaaaaaa-0000-4000-8000-000000000001"), "there is no query"),
        (("stop",), "give QUERY… or --selector"),
        (("stop", "x", "--wait", "-1"), "--wait"),
        (("stop", "x", "--wait", "soon"), "--wait"),
        (("explode",), "No such command 'explode'"),
        (("queries", "--status", "unwell"), "status"),
        (("queries", "--server", "http://127.0.0.1:1"), "no server answers at http://127.0.0.1:1"),
        (("queries", "--server", "ftp://x"), "CONTROLPLANE_URL"),
        (("queries", "--data-dir", "/nowhere"), "CONTROLPLANE_TOKEN"),
        (("token", "create"), "--role"),
        (("token", "create", "--role", "king"), "--role"),
        (("token", "create", "--role", "viewer", "--app", "x"), "--app"),
        (("token", "list", "--data-dir", "/nowhere"), "there is no store"),
        (("token", "revoke", "zzz"), "no tokens begin with"),
        (("token", "list", "--database-url", "mysql://x"), "sqlite or postgresql"),
        (("run", "/nowhere.py"), "is not a file"),
        (("serve", "--port", "70000"), "--port"),
        (("serve", "--host", "256.1.1.1"), "cannot listen"),
        (("serve", "--port", "0"), "another server uses the data directory"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(cli: Cli, arguments: tuple[str, ...], expected: str) -> None:
    assert expected in mistake(cli(*arguments))


def test_a_bad_token_is_the_users_mistake(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTROLPLANE_TOKEN", "wrong")
    assert "CONTROLPLANE_TOKEN" in mistake(cli("queries"))
    monkeypatch.delenv("CONTROLPLANE_TOKEN")
    monkeypatch.setenv("CONTROLPLANE_TOKEN_FILE", "/nowhere")
    assert "cannot read the token file" in mistake(cli("queries"))


def test_a_viewer_may_read_and_not_act(
    cli: Cli, query: SimulatedQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = cli("token", "create", "--role", "viewer").out.strip()
    monkeypatch.setenv("CONTROLPLANE_TOKEN", secret)
    assert cli("queries").code == 0
    assert "viewer is not allowed to do this" in mistake(cli("stop", query.query_id))


def test_tokens_are_made_listed_and_revoked(cli: Cli, server: LiveServer) -> None:
    made = json.loads(cli("token", "create", "--role", "agent", "--name", "ci", "--app", "a", "--json").out)
    listed = cli("token", "list").out
    assert made["id"] in listed
    assert made["token"] not in listed
    rows = {t["id"]: t for t in json.loads(cli("token", "list", "--json").out)["tokens"]}
    assert (rows[made["id"]]["role"], rows[made["id"]]["app"]) == ("agent", "a")
    assert cli("token", "revoke", made["id"]).code == 0
    assert "revoked" in mistake(cli("token", "revoke", made["id"]))
    server.plane.stored_tokens.reload()
    assert server.plane.tokens.find(made["token"]) is None


def test_every_mistake_of_the_configuration_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("config", "check").code == 0
    monkeypatch.setenv("CONTROLPLANE_TOKEN", "cp_admin_hunter2")
    assert "hunter2" not in cli("config", "check").out
    monkeypatch.setenv("CONTROLPLANE_PORT", "eighty")
    monkeypatch.setenv("CONTROLPLANE_RETENTION_DAYS", "0")
    printed = cli("config", "check")
    assert printed.code == 2
    assert [line.split(":")[1].strip() for line in printed.err.splitlines()] == [
        "CONTROLPLANE_PORT",
        "CONTROLPLANE_RETENTION_DAYS",
    ]


def test_the_store_is_upgraded_as_often_as_one_likes(cli: Cli, tmp_path: Path) -> None:
    for _ in range(2):
        assert cli("db", "upgrade", "--data-dir", str(tmp_path)).code == 0


@pytest.mark.parametrize("arguments", [(), ("--help",), ("stop", "--help"), ("--version",)])
def test_help_is_help(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "controlplane.cli.main", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30)
    assert done.returncode == (0 if arguments else 2)
    assert "Traceback" not in done.stderr


def test_run_hands_the_agent_its_settings_and_the_program_its_arguments(tmp_path: Path, cli: Cli) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys; print(sys.argv[1:], {k: v for k, v in os.environ.items() if 'CONTROLPLANE' in k})"
    )
    options = [
        "--app",
        "a",
        "--label",
        "team=x",
        "--label",
        "env=y",
        "--actions",
        "stop",
        "--server",
        "http://h:1",
    ]
    command = [
        sys.executable,
        "-m",
        "controlplane.cli.main",
        "run",
        *options,
        str(program),
        "--app",
        "own",
        "-x",
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "['--app', 'own', '-x']" in done.stdout
    for part in (
        "'CONTROLPLANE_APP': 'a'",
        "'CONTROLPLANE_LABELS': 'team=x,env=y'",
        "http://h:1",
        "agent.token",
    ):
        assert part in done.stdout


def test_a_label_must_be_a_pair(cli: Cli, tmp_path: Path) -> None:
    program = tmp_path / "p.py"
    program.write_text("")
    assert "NAME=VALUE" in mistake(cli("run", "--label", "nonsense", str(program)))


def test_actions_of_a_server_that_goes_away_are_waited_for() -> None:
    from controlplane.cli.actions import follow
    from controlplane.console.client import ApiClient
    from controlplane.console.errors import Unreachable

    answers: list[Any] = [Unreachable("gone"), {"state": "succeeded", "reason": "resumed at batch 3"}]

    class Away(ApiClient):
        def get(self, path: str, **parameters: Any) -> Any:
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return {"action": {"id": "x", **answer}}

    first = {"id": "x", "state": "requested", "reason": ""}
    assert follow(Away("http://x", None), first, None, sleep=lambda _: None)["state"] == "succeeded"
