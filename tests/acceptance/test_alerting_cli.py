"""`controlplane alerts`, `silence` and `rules` against a real server: names, exit codes and error messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import Cli
from tests.acceptance.live import LiveServer, eventually, live_server
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery
from tests.acceptance.test_cli import mistake

RULES = """
groups:
  - name: lifecycle
    interval: 1s
    rules:
      - alert: QueryFailed
        expr: spark_streaming_query_status{status="failed"} == 1
        labels: {severity: critical}
        annotations: {summary: "{{ $labels.query }} has failed"}
      - alert: Waits
        expr: spark_streaming_query_status{status="failed"} == 1
        for: 1h
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = Path(tmp_path_factory.mktemp("alerting-cli"))
    (folder / "rules.yaml").write_text(RULES)
    changes = {"rules": (str(folder / "rules.yaml"),), "series_step": 1.0}
    with live_server(folder / "data", **changes) as running:
        yield running


@pytest.fixture
def failed(cli: Cli, agent: SimulatedAgent) -> SimulatedQuery:
    """A query that has failed, and whose alert fires."""
    query = SimulatedQuery(f"enrich-{agent.agent[:6]}")
    agent.start(query)
    agent.send(agent.progress(query))
    agent.terminated(query, "java.lang.OutOfMemoryError: Java heap space", "STREAM_FAILED")
    asked = ("alerts", "--json", "--state", "firing", "--query", query.query_id)
    assert eventually(lambda: json.loads(cli(*asked).out)["alerts"])
    return query


def fingerprint_of(cli: Cli, query: SimulatedQuery) -> str:
    found = json.loads(cli("alerts", "--json", "--state", "firing", "--query", query.query_id).out)["alerts"]
    return str(found[0]["fingerprint"])


def test_alerts_are_a_table_or_json(cli: Cli, failed: SimulatedQuery) -> None:
    result = cli("alerts", "--query", str(failed.name))
    assert (result.code, result.err.count("\n")) == (0, 1)
    assert result.err.startswith(
        "Nobody is notified of alerts: the receiver default has no integration. Start the server with"
    )
    head, first, second = result.out.splitlines()
    assert head.startswith("STATE")
    assert first.split()[:4] == ["firing", "critical", "QueryFailed", f"orders/{failed.name}"]
    assert first.endswith(f"{failed.name} has failed")
    assert second.split()[0] == "pending"
    pending = json.loads(cli("alerts", "--json", "--state", "pending", "--query", failed.query_id).out)
    assert [alert["name"] for alert in pending["alerts"]] == ["Waits"]
    assert cli("alerts", "--label", "app=nobody").out == "no alerts\n"


def test_an_alert_is_acknowledged_by_its_fingerprint(cli: Cli, failed: SimulatedQuery) -> None:
    result = cli("alerts", "ack", fingerprint_of(cli, failed)[:10], "--comment", "on it")
    assert result.code == 0, result.err
    assert result.out == f"QueryFailed of orders/{failed.name} is acknowledged\n"
    assert "acknowledged by" in cli("alerts", "--query", failed.query_id).out


def test_what_fired_is_in_the_history(cli: Cli, failed: SimulatedQuery) -> None:
    listed = json.loads(cli("alerts", "history", "--json", "--query", failed.query_id).out)["alerts"]
    assert [alert["name"] for alert in listed] == ["QueryFailed"]
    assert f"orders/{failed.name}" in cli("alerts", "history", "--since", "1h").out


def test_a_silence_is_made_listed_and_ended(cli: Cli, failed: SimulatedQuery) -> None:
    matcher = f'query_id="{failed.query_id}"'
    result = cli("silence", "add", "QueryFailed", matcher, "--for", "2h", "--comment", "planned")
    assert result.code == 0, result.err
    assert "covers 1 firing alert now" in result.out
    id = result.out.split()[0]
    assert "silenced" in cli("alerts", "--query", failed.query_id).out
    assert id in cli("silence", "list").out
    [item] = [s for s in json.loads(cli("silence", "list", "--json").out)["silences"] if s["id"] == id]
    assert [matcher["name"] for matcher in item["matchers"]] == ["alertname", "query_id"]
    assert cli("silence", "expire", id[:13]).out == f"{id}  {item['text']} has ended\n"
    assert id not in cli("silence", "list").out
    assert id in cli("silence", "list", "--expired").out
    assert cli("silence", "expire", id).code == 0
    until = cli("silence", "add", "app=x", "--until", "2099-01-01T00:00:00Z", "--json")
    assert json.loads(until.out)["silence"]["ends_at"] == "2099-01-01T00:00:00.000Z"


def test_a_replay_lists_when_rules_would_have_fired(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("groups: [{name: g, rules: [{alert: Now, expr: vector(1) > 0, labels: {team: x}}]}]")
    result = cli("rules", "replay", str(file), "--since", "10m")
    assert result.code == 0, result.err
    line, last = result.out.splitlines()
    assert line.startswith("Now would have fired at ")
    assert line.endswith('until now, on {team="x"}')
    assert last.startswith("1 alert in 40 evaluations from ")
    assert json.loads(cli("rules", "replay", str(file), "--since", "10m", "--json").out)["evaluations"] == 40


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("alerts", "--state", "unwell"), "--state"),
        (("alerts", "explode"), "No such command 'explode'"),
        (("alerts", "--query", "nobody"), "no query matches nobody"),
        (("alerts", "ack", "0000000000000000"), "no firing alert matches 0000000000000000"),
        (("alerts", "ack"), "Missing argument 'FINGERPRINT'"),
        (("alerts", "history", "--since", "yesterday"), "is not a valid duration"),
        (("silence", "add", "app=x"), "--for 2h or --until"),
        (("silence", "add", "app=x", "--for", "1h", "--until", "x"), "--for 2h or --until"),
        (("silence", "add", "--for", "1h"), "Missing argument 'MATCHER…'"),
        (("silence", "add", "app=~(", "--for", "1h"), "the pattern of app"),
        (("silence", "add", "app=~.*", "--for", "1h"), "all alerts would be silenced"),
        (("silence", "add", "app=x", "--for", "soon"), "is not a valid duration"),
        (("silence", "add", "app=x", "--until", "soon"), "ends_at"),
        (("silence", "expire", "zzz"), "no silences begin with"),
        (("rules", "replay", "/nowhere.yaml"), "cannot read /nowhere.yaml"),
        (("rules", "replay", "{rules}", "--since", "1h", "--until", "2h"), "start must be before end"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(
    cli: Cli, server: LiveServer, arguments: tuple[str, ...], text: str
) -> None:
    given = [argument.replace("{rules}", server.plane.settings.rules[0]) for argument in arguments]
    assert text in mistake(cli(*given))
