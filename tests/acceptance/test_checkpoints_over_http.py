"""Inventories, verdicts and refused starts over HTTP, with simulated drivers."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.actions import guards, transitions
from controlplane.checkpoints.inventory.collector import collect
from controlplane.checkpoints.inventory.model import to_json
from controlplane.model import Role
from tests.acceptance.checkpoint_files import inventory, write
from tests.acceptance.live import LiveServer, eventually, live_server
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery, restarts

Json = dict[str, Any]
SHAPE: Json = {
    "v": 1,
    "spark": "4.3.0",
    "outputMode": "Append",
    "sources": [{"type": "rate", "description": "rate"}],
}


@pytest.fixture
def query(agent: SimulatedAgent) -> SimulatedQuery:
    """A running query that has committed batches 0 and 1."""
    started = SimulatedQuery(f"q-{uuid.uuid4().hex[:6]}")
    agent.start(started)
    agent.send(*(agent.progress(started, stateOperators=[]) for _ in range(2)))
    return started


@pytest.fixture
def operator(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client(server.token(Role.OPERATOR, may_impersonate=True)) as client:
        yield client


def seen(client: httpx.Client, query: SimulatedQuery) -> Json:
    return dict(client.get(f"/api/v1/checkpoints/{query.query_id}").json())


def judged(client: httpx.Client, query: SimulatedQuery, verdict: str) -> Json:
    """The checkpoint once it has the expected verdict."""
    assert eventually(lambda: seen(client, query)["checkpoint"]["verdict"] == verdict, 300), seen(
        client, query
    )
    return seen(client, query)


def ask(
    client: httpx.Client, query: SimulatedQuery, action: str = "restart", key: str | None = None, **more: Any
) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    path = f"/api/v1/queries/{query.query_id}/actions"
    return client.post(path, json={"action": action, **more}, headers=headers)


def action_of(client: httpx.Client, answer: httpx.Response) -> Json:
    document = answer.json()
    held = document["action"] if "action" in document else document["error"]["detail"]["action"]
    return dict(client.get(f"/api/v1/actions/{held['id']}").json()["action"])


def ended(client: httpx.Client, answer: httpx.Response, seconds: float = 60.0) -> Json:
    eventually(lambda: action_of(client, answer)["finished_at"], seconds)
    return action_of(client, answer)


def test_an_inventory_is_judged_and_shown(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client, tmp_path: Path
) -> None:
    assert seen(operator, query)["checkpoint"]["verdict"] == "unknown"
    agent.send(inventory(query, write(tmp_path, query.query_id, 1), "started"))
    output = judged(operator, query, "ok")
    checkpoint = output["checkpoint"]
    assert checkpoint["summary"] == "The next start resumes at batch 2."
    assert (
        checkpoint["last_planned_batch"],
        checkpoint["last_committed_batch"],
        checkpoint["next_batch"],
    ) == (1, 1, 2)
    assert (checkpoint["files"], checkpoint["stale"], checkpoint["collecting"]) == (5, False, False)
    assert (checkpoint["why"], checkpoint["target_spark"]) == ("started", "4.3.0")
    assert [g["files"] for g in output["growth"]] == [5]
    assert query.query_id in {
        c["query_id"] for c in operator.get("/api/v1/checkpoints").json()["checkpoints"]
    }
    kept = operator.get(f"/api/v1/checkpoints/{query.query_id}/inventory").json()
    assert kept["format"] == "spark-checkpoint-inventory"
    assert set(kept["contents"]) >= {"metadata", "offsets/1", "commits/1"}


def test_the_raw_event_keeps_the_inventory_by_its_figures_only(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client, tmp_path: Path
) -> None:
    agent.send(inventory(query, write(tmp_path, query.query_id, 1)))
    events = operator.get(f"/api/v1/queries/{query.query_id}/events", params={"type": "inventory"}).json()[
        "events"
    ]
    assert [event["data"]["inventory"]["files"] for event in events] == [5]


def test_a_start_on_a_broken_checkpoint_is_refused_and_can_be_forced(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client, tmp_path: Path
) -> None:
    root = write(tmp_path, query.query_id, 1)
    agent.terminated(query, "boom")
    (root / "offsets/1").write_text("v1\n")
    agent.send(inventory(query, root, "failed"))
    assert judged(operator, query, "broken")["checkpoint"]["counts"]["error"] == 1
    broken = looks(query, lambda: root, lambda driver: driver.terminated(query, "it broke", "X"))
    agent.serve_commands(broken)
    action = ended(operator, ask(operator, query, "start", key="once", actor="ada"))
    under_it = ask(operator, query, "start", key="once", actor="ada", force=True)
    assert under_it.json()["error"]["code"] == "idempotency_key_reused"
    assert (action["state"], action["evidence"]["code"]) == ("refused", "checkpoint_broken")
    assert "offsets/1" in action["reason"]
    assert action["evidence"]["checkpoint"]["verdict"] == "broken"
    assert action["evidence"]["findings"][0]["check"] == "log.offset-unreadable"
    forced = ended(operator, ask(operator, query, "start", actor="ada", force=True))
    assert forced["evidence"]["forced_by"] == "ada"
    assert forced["state"] == "failed"
    assert "Finding of the checkpoint check before" in forced["reason"]


def test_the_reason_of_a_failed_query_names_what_the_doctor_found(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client, tmp_path: Path
) -> None:
    root = write(tmp_path, query.query_id, 1)
    (root / "commits/1").write_text("nonsense")
    agent.terminated(query, "java.lang.IllegalStateException: Incomplete log file")
    agent.send(inventory(query, root, "failed"))
    judged(operator, query, "broken")
    reason = operator.get(f"/api/v1/queries/{query.query_id}").json()["reason"]
    assert "The checkpoint is broken: commits/1 cannot be read" in reason


def looks(
    query: SimulatedQuery,
    root: Callable[[], Path | None],
    then: Callable[[SimulatedAgent], Any] | None = None,
) -> Any:
    """Handle commands like a driver that also takes inventories; by default a batch follows each start."""
    obey = restarts(query, then or (lambda driver: driver.send(driver.progress(query))))

    def doing(agent: SimulatedAgent, command: Json) -> Json:
        if command["action"] != "inventory":
            return obey(agent, command)
        place = root()
        if place is None:
            return {"state": "failed", "reason": "the storage does not answer", "code": "unreadable"}
        agent.send(inventory(query, place))
        return {"state": "succeeded", "evidence": {"files": 5, "seconds": 0.1}}

    return doing


def test_before_a_restart_the_agent_takes_a_new_inventory(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client, tmp_path: Path
) -> None:
    agent.serve_commands(looks(query, lambda: write(tmp_path, query.query_id, 1)))
    done = ended(operator, ask(operator, query))
    assert (done["state"], done["reason"]) == ("succeeded", "resumed at batch 2")
    assert done["evidence"]["checkpoint"]["summary"] == "The next start resumes at batch 2."
    assert [command["action"] for command in agent.commands] == ["inventory", "restart"]


def test_a_running_query_is_not_stopped_for_a_restart_that_would_fail(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client, tmp_path: Path
) -> None:
    root = write(tmp_path, query.query_id, 1)
    (root / "metadata").write_text("torn")
    agent.serve_commands(looks(query, lambda: root))
    done = ended(operator, ask(operator, query))
    assert (done["state"], done["evidence"]["code"]) == ("refused", "checkpoint_broken")
    assert "waiting_for_inventory_until" not in done["evidence"]
    assert query.active
    assert [command["action"] for command in agent.commands] == ["inventory"]


def test_a_batch_in_flight_is_no_reason_against_a_restart(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client, tmp_path: Path
) -> None:
    agent.serve_commands(looks(query, lambda: write(tmp_path, query.query_id, 1, planned=2)))
    assert ended(operator, ask(operator, query))["state"] == "succeeded"


def test_without_access_to_the_checkpoint_the_restart_goes_on_and_reports_it(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client
) -> None:
    agent.serve_commands(looks(query, lambda: None))
    done = ended(operator, ask(operator, query))
    assert done["state"] == "succeeded"
    assert done["evidence"]["checkpoint"] == "not checked: the storage does not answer"
    assert seen(operator, query)["checkpoint"]["trouble"] == "the storage does not answer"


def test_an_agent_that_never_takes_an_inventory_delays_a_restart_for_a_limited_time(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transitions, "INVENTORY_WAIT_SECONDS", 1.0)
    healthy = restarts(query, lambda driver: driver.send(driver.progress(query)))
    agent.serve_commands(
        lambda driver, c: {"state": "running"} if c["action"] == "inventory" else healthy(driver, c)
    )
    asked = ask(operator, query)
    action = action_of(operator, asked)
    assert (action["state"], action["reason"]) == ("requested", "checking the checkpoint first")
    done = ended(operator, asked)
    assert done["state"] == "succeeded"
    assert done["evidence"]["checkpoint"] == "not checked: no inventory arrived within 1 s"


def test_an_inventory_on_demand_goes_to_the_agent_of_the_query_only(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client, tmp_path: Path
) -> None:
    path = f"/api/v1/checkpoints/{query.query_id}/inventory"
    answer = operator.post(path, json={})
    assert (answer.status_code, answer.json()) == (202, {"requested": True, "by": "agent"})
    assert seen(operator, query)["checkpoint"]["collecting"] is True
    assert operator.post(path, json={}).status_code == 202
    commands = agent.poll()
    assert [(c["action"], c["query_id"]) for c in commands] == [("inventory", query.query_id)]
    agent.answer(commands[0], {"state": "succeeded", "evidence": {"files": 5}})
    agent.send(inventory(query, write(tmp_path, query.query_id, 1)))
    assert judged(operator, query, "ok")["checkpoint"]["collecting"] is False
    agent.send(("app_ended", {"reason": "exit"}))
    gone = operator.post(path, json={})
    assert (gone.status_code, gone.json()["error"]["code"]) == (409, "cannot_look")
    assert "--checkpoint-root" in gone.json()["error"]["message"]


def test_the_server_takes_inventories_below_its_roots_only(tmp_path: Path) -> None:
    root, secret = tmp_path / "lake", tmp_path / "secret"
    secret.mkdir()
    (secret / "metadata").write_text("hunter2")
    with live_server(tmp_path / "data", checkpoint_roots=(str(root),)) as server, server.client() as admin:
        agent = server.agent()
        agent.begin()
        inside, linked, outside = (SimulatedQuery(name) for name in ("inside", "linked", "outside"))
        write(root / "inside", inside.query_id, 1)
        write(root / "linked", linked.query_id, 1)
        (root / "linked" / "metadata").unlink()
        (root / "linked" / "metadata").symlink_to(secret / "metadata")
        (root / "way-out").symlink_to(secret)
        for query, place in (
            (inside, root / "inside"),
            (linked, root / "linked"),
            (outside, root / "way-out"),
        ):
            agent.start(query)
            facts = {"checkpoint": f"file://{place}"}
            agent.send(("status", agent.status(query, facts=facts)))
        agent.send(("app_ended", {"reason": "exit"}))
        agent.close()
        answers = {
            query.name: admin.post(f"/api/v1/checkpoints/{query.query_id}/inventory", json={})
            for query in (inside, linked, outside)
        }
        assert answers["inside"].json() == {"requested": True, "by": "server"}
        assert judged(admin, inside, "ok")["checkpoint"]["collector"] == "server, fsspec file"
        assert answers["outside"].json() == {"requested": True, "by": "server"}
        refusal = "not below a checkpoint root of the server"
        assert eventually(lambda: refusal in (seen(admin, outside)["checkpoint"]["trouble"] or ""))
        assert seen(admin, outside)["checkpoint"]["verdict"] == "unknown"
        assert judged(admin, linked, "broken")
        kept = admin.get(f"/api/v1/checkpoints/{linked.query_id}/inventory").json()
        assert "metadata" not in kept["contents"]


def test_a_changed_shape_is_compared_with_the_run_before(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client, tmp_path: Path
) -> None:
    def began(shape: Json) -> None:
        agent.start(query)
        facts = {"checkpoint": "/c", "shape": shape}
        agent.send(("status", agent.status(query, facts=facts)))

    def shape_of(run_id: str) -> Json | None:
        found = seen(operator, query)["shape"]
        return found if found and found["run_id"] == run_id else None

    began(SHAPE)
    first = query.run_id
    assert eventually(lambda: shape_of(first))["verdict"] == "unknown"
    agent.send(agent.progress(query, 1))
    agent.terminated(query)
    query.run_id = str(uuid.uuid4())
    changed = {
        **SHAPE,
        "sources": [*SHAPE["sources"], {"type": "kafka", "description": "KafkaV2[Subscribe[b]]"}],
    }
    output = operator.post(
        "/api/v1/preflight",
        json={
            "app": agent.app,
            "name": query.name,
            "query_id": query.query_id,
            "checkpoint": None,
            "shape": changed,
        },
    ).json()
    assert (output["verdict"], output["against"]["run_id"]) == ("not_allowed", first)
    began(changed)
    found = eventually(lambda: shape_of(query.run_id))
    assert (found["verdict"], found["previous_run_id"]) == ("not_allowed", first)
    assert found["findings"][0]["rule"].startswith("sources")
    shown = operator.get(f"/api/v1/queries/{query.query_id}/shape").json()
    assert (shown["run_id"], shown["shape"]) == (query.run_id, changed)
    agent.send(inventory(query, write(tmp_path, query.query_id, 1), "started"))
    assert "run.not-allowed" in {f["check"] for f in judged(operator, query, "broken")["findings"]}


def test_an_edited_offset_is_found_by_comparison_with_the_reports(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client, tmp_path: Path
) -> None:
    root = write(tmp_path, query.query_id, 1)
    text = (root / "offsets/1").read_text()
    (root / "offsets/1").write_text(text.replace('{"0":200}', '{"0":5}').replace('{"0":100}', '{"0":5}'))
    agent.send(inventory(query, root))
    found = judged(operator, query, "risky")["findings"]
    assert "log.offset-differs" in {finding["check"] for finding in found}


def test_what_is_posted_is_judged_like_the_doctor_does(operator: httpx.Client, tmp_path: Path) -> None:
    document = to_json(collect(str(write(tmp_path, str(uuid.uuid4()), 1)), time.time()))
    answer = operator.post("/api/v1/checkpoints/analyze", params={"target": "4.3.0"}, json=document)
    assert (answer.status_code, answer.json()["verdict"]) == (200, "ok")
    assert (
        operator.post("/api/v1/checkpoints/analyze", params={"target": "x"}, json=document).status_code == 400
    )
    assert operator.post("/api/v1/checkpoints/analyze", json={"format": "else"}).status_code == 400


@pytest.mark.parametrize(
    "document", [{}, {"format": "x"}, {"format": "spark-checkpoint-inventory", "version": 1}], ids=repr
)
def test_an_invalid_inventory_is_reported_and_breaks_nothing(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client, document: Json
) -> None:
    answer = agent.send(("inventory", {"id": query.query_id, "runId": query.run_id, "inventory": document}))
    assert answer["rejected"] == []
    output = judged(operator, query, "unreadable")
    assert output["checkpoint"]["trouble"]


def test_an_event_without_an_inventory_is_a_rejected_line(
    agent: SimulatedAgent, query: SimulatedQuery
) -> None:
    answer = agent.send(
        ("inventory", {"id": query.query_id, "inventory": [1]}), ("inventory", {"inventory": {}})
    )
    assert [rejected["line"] for rejected in answer["rejected"]] == [1, 2]


def test_metrics_have_the_findings(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client, tmp_path: Path
) -> None:
    root = write(tmp_path, query.query_id, 1)
    (root / "commits/1").write_text("nonsense")
    agent.send(inventory(query, root))
    judged(operator, query, "broken")
    lines = [line for line in operator.get("/metrics").text.splitlines() if query.query_id in line]
    assert any("checkpoint_findings" in line and 'check="log.commit-unreadable"' in line for line in lines)
    assert any("checkpoint_files" in line and line.endswith(" 5.0") for line in lines)


def test_an_impossible_file_size_leaves_the_metrics_of_other_checkpoints_intact(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client, tmp_path: Path
) -> None:
    kind, data = inventory(query, write(tmp_path, query.query_id, 1))
    data["inventory"]["files"][0][1] = 10**400
    agent.send((kind, data))
    assert "negative or exceeds 63 bits" in judged(operator, query, "unreadable")["checkpoint"]["trouble"]
    output = operator.get("/metrics")
    assert output.status_code == 200
    assert any("query_up" in line and query.query_id in line for line in output.text.splitlines())


def test_a_new_inventory_of_an_ended_query_is_taken_before_a_start(
    agent: SimulatedAgent,
    query: SimulatedQuery,
    operator: httpx.Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guards, "FRESH_AFTER_END_SECONDS", 2.0)
    root = write(tmp_path, query.query_id, 1)
    agent.terminated(query)
    agent.send(inventory(query, root, "stopped"))
    judged(operator, query, "ok")
    judged_by = time.time()
    (root / "offsets/1").write_text("v1\n")
    assert eventually(lambda: time.time() - judged_by > guards.FRESH_AFTER_END_SECONDS)
    agent.serve_commands(looks(query, lambda: root))
    done = ended(operator, ask(operator, query, "start"))
    assert [command["action"] for command in agent.commands] == ["inventory"]
    assert (done["state"], done["evidence"]["code"]) == ("refused", "checkpoint_broken")


def test_the_time_limit_of_an_inventory_is_shorter_than_the_wait_of_a_start(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client
) -> None:
    ask(operator, query)
    [command] = eventually(lambda: agent.poll(1.0))
    assert command["action"] == "inventory"
    assert command["timeout_seconds"] + 2 <= transitions.INVENTORY_WAIT_SECONDS


HEAD = {"format": "spark-checkpoint-inventory", "version": 1}
SURVEY = {"format": "spark-checkpoint-survey", "version": 1}
POSTED: list[tuple[str, bytes, int]] = [
    ("nothing", b"", 400),
    ("no JSON", b"{", 400),
    ("a list", b"[]", 400),
    ("deep", b"[" * 5000 + b"]" * 5000, 400),
    ("deep within", json.dumps({**HEAD, "files": json.loads("[" * 40 + "]" * 40)}).encode(), 400),
    ("parts missing", json.dumps(HEAD).encode(), 400),
    ("too many entries", json.dumps({**HEAD, "files": [0] * 200_001}).encode(), 400),
    ("a survey of nothing", json.dumps(SURVEY).encode(), 400),
    ("too large", b'{"x":"' + b"y" * (8 << 20) + b'"}', 413),
    ("an endless number", b'{"format":' + b"9" * 5000 + b"}", 400),
    ("no UTF-8", b'{"format":"\xff"}', 400),
]


@pytest.mark.parametrize(("body", "status"), [case[1:] for case in POSTED], ids=[case[0] for case in POSTED])
def test_what_is_no_inventory_is_refused_in_a_line(operator: httpx.Client, body: bytes, status: int) -> None:
    answer = operator.post("/api/v1/checkpoints/analyze", content=body)
    assert answer.status_code == status
    assert "\n" not in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        {"app": "a"},
        {"app": "a", "shape": []},
        {"app": "a", "shape": {}, "x": 1},
        {"app": 1, "shape": {}},
    ],
    ids=repr,
)
def test_a_preflight_that_is_none_is_refused(operator: httpx.Client, body: Any) -> None:
    assert operator.post("/api/v1/preflight", json=body).status_code == 422


def test_an_agent_asks_for_its_own_app_only(server: LiveServer) -> None:
    with server.client(server.token(Role.AGENT, "shop")) as client:
        own = client.post("/api/v1/preflight", json={"app": "shop", "shape": {"v": 99}})
        assert (own.status_code, own.json()["verdict"], own.json()["against"]) == (200, "unknown", None)
        assert client.post("/api/v1/preflight", json={"app": "bank", "shape": {}}).status_code == 403


def test_a_broken_verdict_of_a_running_query_is_confirmed_by_a_second_inventory(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client, tmp_path: Path
) -> None:
    root = write(tmp_path, query.query_id, 1)
    (root / "offsets/1").rename(root / "held")
    agent.send(inventory(query, root, "started"))
    [command] = eventually(lambda: agent.poll(1.0))
    assert command["action"] == "inventory"
    (root / "held").rename(root / "offsets/1")
    agent.send(inventory(query, root))
    assert judged(operator, query, "ok")["checkpoint"]["verdict"] == "ok"
    agent.answer(command, {"state": "succeeded", "evidence": {}})
