"""Policies, desired states and the ledger, with a real server and a simulated driver."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.app import ControlPlane
from controlplane.model import Role
from tests.acceptance.conftest import Cli
from tests.acceptance.live import LiveServer, eventually, live_server
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery, restarts

Json = dict[str, Any]
ACT = """\
policies:
  - name: orders
    match: ['app="orders"']
    mode: {mode}
    restart:
      backoff: {{initial: {initial}, jitter: 0}}
      budget: {{restarts: 2, per: 1h}}
"""
FLAKY = "[STREAM_FAILED] Query terminated.\nCaused by: java.net.ConnectException: Connection refused"
POISON = "[CAST_INVALID_INPUT] The value 'x' of the type STRING cannot be cast to INT. SQLSTATE: 22018"


@pytest.fixture
def query(agent: SimulatedAgent) -> SimulatedQuery:
    started = SimulatedQuery(f"q-{uuid.uuid4().hex[:6]}")
    agent.start(started)
    agent.send(agent.progress(started), agent.progress(started))
    return started


def apply(admin: httpx.Client, mode: str = "act", initial: str = "100ms") -> Json:
    answer = admin.put(
        "/api/v1/policies", json={"text": ACT.format(mode=mode, initial=initial), "actor": "ada"}
    )
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def entries(admin: httpx.Client, query: SimulatedQuery) -> list[Json]:
    """The ledger's entries about a query, oldest first."""
    found: list[Json] = admin.get("/api/v1/ledger", params={"query_id": query.query_id}).json()["entries"]
    return found[::-1]


def decided(admin: httpx.Client, query: SimulatedQuery, decision: str, **wanted: Any) -> Json | None:
    """The first entry with this decision and these fields, awaited."""

    def found() -> Json | None:
        return next(
            (
                e
                for e in entries(admin, query)
                if e["decision"] == decision and all(e[name] == value for name, value in wanted.items())
            ),
            None,
        )

    return eventually(found)


def test_a_failed_query_is_brought_back(
    admin: httpx.Client, agent: SimulatedAgent, query: SimulatedQuery
) -> None:
    apply(admin)
    agent.serve_commands(restarts(query, lambda driver: driver.send(driver.progress(query))))
    agent.terminated(query, FLAKY, "STREAM_FAILED")
    entry = decided(admin, query, "restart", outcome="recovered")
    assert entry, entries(admin, query)
    assert (entry["acted"], entry["mode"], entry["assessment"]) == (True, "act", "helped")
    action = admin.get(f"/api/v1/actions/{entry['action_id']}").json()["action"]
    assert (action["actor"], action["action"], action["state"]) == ("policy:orders", "start", "succeeded")


def test_a_poison_record_is_paged_once_and_never_retried(
    admin: httpx.Client, agent: SimulatedAgent, query: SimulatedQuery
) -> None:
    apply(admin)
    agent.terminated(query, POISON, "CAST_INVALID_INPUT")
    entry = decided(admin, query, "page")
    assert entry and (entry["code"], entry["condition"]) == ("cannot_help", "CAST_INVALID_INPUT")
    explained = admin.get(f"/api/v1/queries/{query.query_id}/policy").json()
    assert explained["hold"]["code"] == explained["next"]["code"] == "cannot_help"
    assert explained["retry"] == "never"
    assert [e["decision"] for e in entries(admin, query)] == ["page"]
    assert agent.commands == []


def test_a_policy_that_observes_does_nothing_and_its_ledger_shows_what_it_would_have_done(
    admin: httpx.Client, agent: SimulatedAgent, query: SimulatedQuery
) -> None:
    apply(admin, mode="observe")
    agent.terminated(query, FLAKY, "STREAM_FAILED")
    entry = decided(admin, query, "restart", acted=False, outcome="open")
    assert entry and entry["action_id"] is None
    agent.serve_commands(restarts(query, lambda driver: driver.send(driver.progress(query))))
    assert agent.commands == []
    admin.post(f"/api/v1/queries/{query.query_id}/actions", json={"action": "start", "actor": "ada"})
    assert decided(admin, query, "restart", outcome="recovered_without_us", assessment="helped")
    figures = admin.get("/api/v1/ledger", params={"query_id": query.query_id}).json()["figures"]
    assert figures["observe"] == {"helped": 1, "useless": 0, "wrong": 0, "open": 0}


def test_a_persons_stop_during_the_back_off_wins(
    admin: httpx.Client, agent: SimulatedAgent, query: SimulatedQuery
) -> None:
    apply(admin, initial="2s")
    agent.serve_commands(restarts(query))
    agent.terminated(query, FLAKY, "STREAM_FAILED")
    assert decided(admin, query, "wait", code="backoff")
    refused = admin.post(f"/api/v1/queries/{query.query_id}/actions", json={"action": "stop", "actor": "ada"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "not_running")
    entry = decided(admin, query, "nothing", code="desired_state")
    assert entry and "ada" in entry["why"]
    assert admin.get(f"/api/v1/queries/{query.query_id}").json()["desired"] == "stopped"
    assert admin.get(f"/api/v1/queries/{query.query_id}/policy").json()["next"]["code"] == "desired_state"
    assert [c for c in agent.commands if c["action"] != "inventory"] == []


def test_a_start_that_no_driver_has_taken_yet_is_withdrawn_when_a_person_suspends_the_query(
    admin: httpx.Client, agent: SimulatedAgent, query: SimulatedQuery
) -> None:
    apply(admin)
    agent.terminated(query, FLAKY, "STREAM_FAILED")
    entry = decided(admin, query, "restart", acted=True)
    assert entry
    put_desired(admin, query, "suspended")
    action = admin.get(f"/api/v1/actions/{entry['action_id']}").json()["action"]
    assert (action["state"], action["evidence"]["code"]) == ("refused", "desired_state")
    assert {c["action"] for c in agent.poll(wait=0)} <= {"inventory"}
    assert decided(admin, query, "restart", outcome="overruled", assessment="wrong")


def put_desired(admin: httpx.Client, query: SimulatedQuery, state: str, **more: Any) -> Json:
    body = {"state": state, "actor": "ada", "reason": "test", **more}
    answer = admin.put(f"/api/v1/queries/{query.query_id}/desired", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_run_that_began_after_a_persons_stop_is_stopped(
    admin: httpx.Client, agent: SimulatedAgent, query: SimulatedQuery
) -> None:
    """The driver had already taken the policy's start when the person asked for the stop."""
    apply(admin)
    agent.terminated(query, FLAKY, "STREAM_FAILED")
    assert decided(admin, query, "restart", acted=True)
    obey = restarts(query, lambda driver: driver.send(driver.progress(query)))

    def taken() -> list[Json]:
        """The policy's start; inventories are refused meanwhile."""
        commands = agent.poll(0.3)
        for command in commands:
            if command["action"] == "inventory":
                agent.answer(command, obey(agent, command))
        return [command for command in commands if command["action"] == "start"]

    commands = eventually(taken)
    put_desired(admin, query, "stopped")
    agent.answer(commands[0], obey(agent, commands[0]))
    agent.serve_commands(restarts(query))
    assert eventually(lambda: not query.active)
    actions = admin.get("/api/v1/actions", params={"query_id": query.query_id}).json()["actions"]
    assert (actions[0]["action"], actions[0]["actor"]) == ("stop", "ada")


def test_a_restart_that_its_driver_forbids_pages(admin: httpx.Client, server: LiveServer) -> None:
    apply(admin)
    agent = server.agent(actions="stop")
    agent.begin()
    query = SimulatedQuery("forbidden")
    agent.start(query)
    agent.terminated(query, FLAKY, "STREAM_FAILED")
    entry = decided(admin, query, "page")
    assert entry["code"] == "forbidden_by_driver"
    agent.close()


@pytest.mark.long
def test_a_server_that_starts_again_goes_on_with_its_decisions(tmp_path: Path) -> None:
    with live_server(tmp_path) as server, server.client() as admin:
        agent = server.agent()
        agent.begin()
        query = SimulatedQuery("poison")
        agent.start(query)
        apply(admin)
        agent.terminated(query, POISON, "CAST_INVALID_INPUT")
        assert decided(admin, query, "page")
        put_desired(admin, query, "running", act=False)
        agent.close()
    with live_server(tmp_path) as server, server.client() as admin:
        path = f"/api/v1/queries/{query.query_id}/policy"
        assert eventually(lambda: admin.get(path).json()["hold"])
        answer = admin.get(path).json()
        assert (answer["policy"]["name"], answer["desired"]["actor"]) == ("orders", "ada")
        assert {e["decision"] for e in entries(admin, query)} == {"page"}


def test_a_stop_that_is_sent_again_does_not_undo_a_later_resume(
    admin: httpx.Client, agent: SimulatedAgent, query: SimulatedQuery
) -> None:
    path, key = f"/api/v1/queries/{query.query_id}/actions", {"Idempotency-Key": str(uuid.uuid4())}
    first = admin.post(path, json={"action": "stop"}, headers=key).json()["action"]
    put_desired(admin, query, "running", act=False)
    again = admin.post(path, json={"action": "stop"}, headers=key)
    assert (again.status_code, again.json()["action"]["id"]) == (200, first["id"])
    assert admin.get(f"/api/v1/queries/{query.query_id}").json()["desired"] == "running"


# -- policies ------------------------------------------------------------------------------------------


def test_every_mistake_of_a_document_is_answered_with_its_line(admin: httpx.Client) -> None:
    before = admin.get("/api/v1/policies").json()["version"]
    text = ACT.format(mode="obey", initial="1s").replace("budget", "buget")
    answer = admin.put("/api/v1/policies", json={"text": text})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_policies")
    assert [m["line"] for m in answer.json()["error"]["detail"]["mistakes"]] == [4, 7]
    assert admin.get("/api/v1/policies").json()["version"] == before


def test_the_command_line_checks_applies_and_explains(
    cli: Cli, admin: httpx.Client, agent: SimulatedAgent, query: SimulatedQuery, tmp_path: Path
) -> None:
    apply(admin, mode="observe")
    file = tmp_path / "policies.yaml"
    file.write_text(ACT.format(mode="act", initial="1s"))
    assert cli("policy", "check", str(file)).out == f"{file}: 1 policy, 1 in mode act\n"
    changed = cli("policy", "diff", str(file))
    assert changed.code == 1
    assert f"orders/{query.name}" in changed.out and "orders (observe)" in changed.out
    assert cli("policy", "apply", str(file), "--reason", "trust").code == 0
    assert cli("policy", "diff", str(file)).out == "no difference\n"
    assert json.loads(cli("policy", "show", "--json").out)["reason"] == "trust"
    explained = cli("policy", "explain", str(query.name))
    assert "policy: orders (mode act)" in explained.out
    assert "now: nothing: the query is not in trouble" in explained.out
    file.write_text("policies:\n  - nam: x\n")
    wrong = cli("policy", "apply", str(file))
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err.startswith(f"{file}:2:5: ")


def test_a_query_is_suspended_and_resumed_by_the_command_line(
    cli: Cli, agent: SimulatedAgent, query: SimulatedQuery
) -> None:
    agent.serve_commands(restarts(query, lambda driver: driver.send(driver.progress(query))))
    assert cli("suspend", str(query.name), "--drain", "--wait", "20").code == 0
    assert not query.active
    row = next(line for line in cli("queries").out.splitlines() if str(query.name) in line)
    assert row.split()[:2] == ["stopped", "suspended"]
    resumed = cli("resume", str(query.name), "--wait", "20")
    assert resumed.code == 0 and query.active
    again = cli("resume", str(query.name))
    assert again.out == "desired state: running; nothing else to do\n"


def test_the_ledger_is_a_table_or_json(
    cli: Cli, admin: httpx.Client, agent: SimulatedAgent, query: SimulatedQuery
) -> None:
    apply(admin)
    agent.terminated(query, POISON, "CAST_INVALID_INPUT")
    assert decided(admin, query, "page")
    table = cli("ledger", "--query", str(query.name)).out
    assert "page" in table and "CAST_INVALID_INPUT" in table and "mode act: automation helped" in table
    document = json.loads(cli("ledger", "--query", str(query.name), "--since", "1h", "--json").out)
    assert [e["decision"] for e in document["entries"]] == ["page"]
    assert cli("ledger", "--query", str(query.name), "--since", "0s").code in (0, 2)


HOSTILE = "<script>alert(1)</script> password=hunter2"


def _check_bundle(cli: Cli, admin: httpx.Client, incident_id: str, file: Path) -> None:
    """The file has the verdicts, failures and people of the incident; markup in a text is text, and secrets are not in it."""
    answer = admin.get(f"/api/v1/incidents/{incident_id}/bundle")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert cli("incidents", "export", incident_id[:8], "--output", str(file)).code == 0
    for page in (answer.text, file.read_text(encoding="utf-8")):
        assert "the ledger service is closed" in page and "ada acknowledged FleetIncident. on it" in page
        assert "&lt;script&gt;alert(1)" in page
        assert "<script" not in page and "hunter2" not in page
    assert cli("incidents", "export", incident_id, "--output", str(file / "no")).code == 2


def _incident(admin: httpx.Client, failed: list[SimulatedQuery]) -> Json | None:
    """The incident of all these queries: all queries of this file read one topic, so it may have others too."""
    wanted = {query.query_id for query in failed}
    found = admin.get("/api/v1/incidents").json()["incidents"]
    return next((i for i in found if wanted <= {m["query_id"] for m in i["members"]}), None)


def test_queries_of_two_drivers_that_fail_with_one_cause_are_one_incident(
    cli: Cli, admin: httpx.Client, agent: SimulatedAgent, server: LiveServer, tmp_path: Path
) -> None:
    with closing(server.agent(app="payments")) as other:
        other.app_id = "local-2"
        other.begin()
        failed = [SimulatedQuery(f"i-{uuid.uuid4().hex[:6]}") for _ in range(3)]
        for driver, each in zip((agent, agent, other), failed, strict=True):
            driver.start(each)
            driver.send(driver.progress(each))
            driver.terminated(
                each, f"java.lang.IllegalStateException: the ledger service is closed\n{HOSTILE}"
            )
        found = eventually(lambda: _incident(admin, failed))
        assert found and found["kind"] in ("condition", "source"), admin.get("/api/v1/incidents").json()
        path = f"/api/v1/incidents/{found['id']}"

        def paged() -> list[Json]:
            names = {a["name"]: a for a in admin.get(path).json()["alerts"]}
            inhibitors = [i["name"] for i in names.get("QueryFailed", {}).get("inhibited_by", [])]
            return [names["FleetIncident"]] if "IncidentMember" in inhibitors else []

        assert eventually(paged), admin.get(path).json()["alerts"]
        events = admin.get(path).json()["timeline"]
        assert {"status", "alert"} <= {event["kind"] for event in events}
        assert [e["at"] for e in events] == sorted(e["at"] for e in events)
        assert found["id"][:8] in cli("incidents").out
        shown = cli("incidents", found["id"][:8]).out
        assert failed[2].query_id[:8] in shown and "FleetIncident fires." in shown
        assert cli("incidents", "ffffffff-no").code == 2
        fingerprint = paged()[0]["fingerprint"]
        acknowledge = f"/api/v1/alerts/{fingerprint}/acknowledge"
        assert admin.post(acknowledge, json={"actor": "ada", "comment": "on it"}).is_success
        assert (_incident(admin, failed) or {})["acknowledged"]["by"] == "ada"
        _check_bundle(cli, admin, found["id"], tmp_path / "i.html")
        assert admin.get("/api/v1/incidents/0").status_code == 404
        for each in failed:
            assert admin.post(f"/api/v1/queries/{each.query_id}/retire", json={}).is_success


@pytest.fixture(autouse=True)
def _observing_after(server: LiveServer) -> Iterator[None]:
    """Policies of one test do not act in the next."""
    yield
    plane: ControlPlane = server.plane
    plane.supervision.book.apply(ACT.format(mode="observe", initial="1h"), "test", "test")


def test_only_operators_change_policies(server: LiveServer) -> None:
    with server.client(server.token(Role.VIEWER)) as viewer:
        assert viewer.get("/api/v1/policies").status_code == 200
        assert viewer.put("/api/v1/policies", json={"text": "policies: []"}).status_code == 403
