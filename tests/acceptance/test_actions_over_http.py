"""Actions from request to verification, with a real server and a simulated driver."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from controlplane.actions import outbox
from controlplane.model import Role
from tests.acceptance.live import LiveServer, eventually
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery, restarts

Json = dict[str, Any]


@pytest.fixture
def query(agent: SimulatedAgent) -> SimulatedQuery:
    """A running query that has committed batches 0 and 1."""
    started = SimulatedQuery(f"q-{uuid.uuid4().hex[:6]}")
    agent.start(started)
    agent.send(agent.progress(started), agent.progress(started))
    return started


@pytest.fixture
def operator(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client(server.token(Role.OPERATOR, may_impersonate=True)) as client:
        yield client


def ask(
    client: httpx.Client, query: SimulatedQuery, action: str, key: str | None = None, **more: Any
) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    return client.post(
        f"/api/v1/queries/{query.query_id}/actions", json={"action": action, **more}, headers=headers
    )


def ended(client: httpx.Client, action_id: str, seconds: float = 60.0) -> Json:
    """The action once it has ended; as it is, when it does not."""

    def current() -> Json:
        return dict(client.get(f"/api/v1/actions/{action_id}").json()["action"])

    eventually(lambda: current()["finished_at"], seconds)
    return current()


def test_a_restart_is_verified_by_the_next_batch(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client
) -> None:
    agent.serve_commands(restarts(query, lambda driver: driver.send(driver.progress(query))))
    asked = ask(operator, query, "restart", drain=True, reason="new config", actor="ada")
    assert asked.status_code == 202
    action = asked.json()["action"]
    assert (action["state"], action["actor"], action["drain"]) == ("requested", "ada", True)
    done = ended(operator, action["id"])
    assert (done["state"], done["reason"]) == ("succeeded", "resumed at batch 2")
    assert done["evidence"]["verified_by"] == "batch"
    assert done["evidence"]["run_id"] == query.run_id
    assert agent.commands[-1]["drain"] is True
    detail = operator.get(f"/api/v1/queries/{query.query_id}").json()
    assert detail["action"] is None
    assert [a["id"] for a in detail["actions"]] == [action["id"]]
    assert len(detail["runs"]) == 2


def test_a_restart_at_night_is_verified_by_an_idle_report(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client
) -> None:
    def idle(driver: SimulatedAgent) -> None:
        driver.send(
            ("idle", {"id": query.query_id, "runId": query.run_id, "timestamp": "2026-11-20T05:37:10Z"})
        )

    agent.serve_commands(restarts(query, idle))
    done = ended(operator, ask(operator, query, "restart").json()["action"]["id"])
    assert (done["state"], done["evidence"]["verified_by"]) == ("succeeded", "resumed_idle")
    assert done["reason"] == "resumed after batch 1; its first trigger found no new data"


def test_a_restart_that_waits_for_data_is_verified_by_the_status_poll(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client
) -> None:
    def wait(driver: SimulatedAgent) -> None:
        driver.send(("status", driver.status(query, "Waiting for data to arrive", trigger_active=False)))

    agent.serve_commands(restarts(query, wait))
    done = ended(operator, ask(operator, query, "restart").json()["action"]["id"])
    assert (done["state"], done["evidence"]["verified_by"]) == ("succeeded", "resumed_idle")


def test_a_new_run_that_dies_fails_the_action_with_its_cause(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client
) -> None:
    text = (
        "org.apache.spark.SparkException: [STREAM_FAILED] Query terminated with exception: boom\n"
        "Caused by: java.lang.OutOfMemoryError: Java heap space"
    )
    agent.serve_commands(restarts(query, lambda driver: driver.terminated(query, text, "STREAM_FAILED")))
    done = ended(operator, ask(operator, query, "restart").json()["action"]["id"])
    assert done["state"] == "failed"
    assert done["evidence"]["failure"]["text"]
    detail = operator.get(f"/api/v1/queries/{query.query_id}").json()
    assert detail["status"] == "failed"
    assert detail["failure"]["root_cause"]


def test_a_rewound_checkpoint_fails_the_action(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client
) -> None:
    agent.serve_commands(restarts(query, lambda driver: driver.send(driver.progress(query, batch=0))))
    done = ended(operator, ask(operator, query, "restart").json()["action"]["id"])
    assert (done["state"], done["evidence"]["code"]) == ("failed", "rewound")


def test_a_start_that_spark_refuses_is_explained(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client
) -> None:
    agent.terminated(query)

    def refuse(driver: SimulatedAgent, command: Json) -> Json:
        evidence = {"exception": "java.io.FileNotFoundException: /gone", "errorClass": None}
        return {
            "state": "failed",
            "code": "start_failed",
            "reason": "Spark refused to start",
            "evidence": evidence,
        }

    agent.serve_commands(refuse)
    done = ended(operator, ask(operator, query, "start").json()["action"]["id"])
    assert (done["state"], done["evidence"]["code"]) == ("failed", "start_failed")
    assert "failure" in done["evidence"]


def test_a_stop_succeeds_when_the_agent_reports_it_and_the_query_counts_as_stopped(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client
) -> None:
    agent.serve_commands(restarts(query))
    done = ended(operator, ask(operator, query, "stop").json()["action"]["id"])
    assert (done["state"], done["reason"]) == ("succeeded", "stopped between two batches")
    status = eventually(
        lambda: operator.get(f"/api/v1/queries/{query.query_id}").json()["status"] == "stopped"
    )
    assert status
    again = ask(operator, query, "stop")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "not_running")
    assert again.json()["error"]["message"].endswith(
        ". Its desired state is stopped, so no policy starts it."
    )


def test_a_refused_start_leaves_the_desired_state(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client
) -> None:
    path = f"/api/v1/queries/{query.query_id}"
    operator.put(f"{path}/desired", json={"state": "suspended", "act": False}).raise_for_status()
    refused = ask(operator, query, "start")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "already_running")
    assert operator.get(path).json()["desired"] == "suspended"
    agent.serve_commands(restarts(query))
    ask(operator, query, "restart").raise_for_status()
    assert operator.get(path).json()["desired"] == "running"


def test_a_refused_action_is_on_record(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client
) -> None:
    refused = ask(operator, query, "start")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "already_running")
    action = refused.json()["error"]["detail"]["action"]
    assert action["state"] == "refused"
    assert operator.get(f"/api/v1/actions/{action['id']}").json()["action"] == action
    listed = operator.get("/api/v1/actions", params={"query_id": query.query_id}).json()["actions"]
    assert listed == [action]


def test_one_action_at_a_time(agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client) -> None:
    first = ask(operator, query, "restart")
    second = ask(operator, query, "stop")
    assert (first.status_code, second.status_code) == (202, 409)
    assert second.json()["error"]["code"] == "action_in_progress"


def test_the_same_key_is_the_same_action(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client
) -> None:
    key = str(uuid.uuid4())
    first, second = ask(operator, query, "restart", key), ask(operator, query, "restart", key)
    assert (first.status_code, second.status_code) == (202, 200)
    assert first.json()["action"]["id"] == second.json()["action"]["id"]
    other = ask(operator, query, "stop", key)
    assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_key_reused")


def test_a_command_whose_answer_was_lost_comes_again_and_a_second_result_is_harmless(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "REDELIVER_SECONDS", 0.5)
    action = ask(operator, query, "stop").json()["action"]
    first = agent.poll(1.0)
    assert [c["id"] for c in first] == [action["id"]]
    assert agent.poll(0.0) == []
    again = agent.poll(8.0)
    assert [c["id"] for c in again] == [action["id"]]
    once = agent.answer(first[0], {"state": "succeeded", "reason": "stopped"})
    twice = agent.answer(again[0], {"state": "failed", "reason": "not running"})
    assert once == twice
    assert once["state"] == "succeeded"


def test_an_agent_can_report_that_an_action_is_running(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client
) -> None:
    action = ask(operator, query, "stop").json()["action"]
    command = agent.poll(1.0)[0]
    assert agent.answer(command, {"state": "running", "reason": "draining"})["state"] == "running"
    assert operator.get(f"/api/v1/queries/{query.query_id}").json()["action"]["id"] == action["id"]


def test_a_driver_may_forbid(server: LiveServer, operator: httpx.Client) -> None:
    driver, query = server.agent(app="closed", actions="stop"), SimulatedQuery("kept")
    driver.begin()
    driver.start(query)
    refused = ask(operator, query, "restart")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "forbidden_by_driver")
    assert operator.get(f"/api/v1/queries/{query.query_id}").json()["actions_allowed"] == "stop"
    driver.close()


def test_a_driver_that_ends_takes_its_action_with_it(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client
) -> None:
    action = ask(operator, query, "restart").json()["action"]
    agent.send(("app_ended", {"reason": "exit", "exception": None}))
    done = ended(operator, action["id"])
    assert (done["state"], done["evidence"]["code"]) == ("failed", "driver_gone")


def test_the_audit_log_has_the_actor_and_the_outcome(
    server: LiveServer, agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client
) -> None:
    from controlplane.store import audit

    agent.serve_commands(restarts(query))
    action = ask(operator, query, "stop", actor="ada", reason="maintenance").json()["action"]
    ended(operator, action["id"])
    with server.plane.reading() as conn:
        rows = [row for row in audit.read(conn, 50) if row["target"] == query.query_id]
    assert [(row["actor"], row["action"]) for row in rows] == [
        ("ada", "query.stop.end"),
        ("ada", "query.stop"),
        ("ada", "query.desired"),
    ]
    assert rows[1]["via"] == "test operator"
    assert rows[1]["detail"]["request_reason"] == "maintenance"


def test_a_retired_query_leaves_the_fleet_and_comes_back_when_it_runs_again(
    agent: SimulatedAgent, query: SimulatedQuery, operator: httpx.Client
) -> None:
    path = f"/api/v1/queries/{query.query_id}"
    running = operator.post(f"{path}/retire", json={})
    assert (running.status_code, running.json()["error"]["code"]) == (409, "still_running")
    agent.terminated(query)
    retired = operator.post(f"{path}/retire", json={"reason": "old"})
    assert (retired.status_code, retired.json()["status"]) == (200, "retired")
    shown = [q["query_id"] for q in operator.get("/api/v1/queries").json()["queries"]]
    assert query.query_id not in shown
    away = [q["query_id"] for q in operator.get("/api/v1/queries?status=retired").json()["queries"]]
    assert query.query_id in away
    assert ask(operator, query, "start").json()["error"]["code"] == "retired"
    query.run_id = str(uuid.uuid4())
    agent.start(query)
    assert query.query_id in [q["query_id"] for q in operator.get("/api/v1/queries").json()["queries"]]


def test_a_query_that_another_driver_goes_on_with_takes_no_commands(
    server: LiveServer, agent: SimulatedAgent, operator: httpx.Client
) -> None:
    query = SimulatedQuery(f"q-{uuid.uuid4().hex[:6]}")
    agent.start(query)
    agent.send(agent.progress(query))
    second, newer = server.agent(), SimulatedQuery(query.name, query_id=query.query_id)
    second.begin()
    second.start(newer)
    second.terminated(newer, "org.apache.spark.SparkException: [CONCURRENT_STREAM_LOG_UPDATE] two at once")
    agent.send(agent.progress(query))
    second.close()

    def shown() -> Json:
        return dict(operator.get(f"/api/v1/queries/{query.query_id}").json())

    seen = eventually(lambda: shown() if "goes on" in shown()["reason"] else None)
    assert "Two drivers report this query" in seen["no_driver"]
    assert seen["failure"]["advice"].startswith("Another driver goes on with the query: ")
    assert ask(operator, query, "start").json()["error"]["code"] == "two_drivers"
