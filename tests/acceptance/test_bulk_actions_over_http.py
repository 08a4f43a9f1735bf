"""Bulk actions with a real server and a simulated driver: plan, order, halt and cancel."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import httpx
import pytest

from tests.acceptance.conftest import Cli
from tests.acceptance.live import eventually
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery, restarts

Json = dict[str, Any]
URL = "/api/v1/bulk-actions"


@pytest.fixture
def fleet(agent: SimulatedAgent) -> list[SimulatedQuery]:
    started = [SimulatedQuery(f"q{number}-{uuid.uuid4().hex[:6]}") for number in range(3)]
    for query in started:
        agent.start(query)
        agent.send(agent.progress(query), agent.progress(query))
    return started


def ids(fleet: list[SimulatedQuery]) -> list[str]:
    return [query.query_id for query in fleet]


def ended(admin: httpx.Client, bulk_id: str) -> Json:
    def found() -> Json | None:
        bulk: Json = admin.get(f"{URL}/{bulk_id}").json()["bulk_action"]
        return bulk if bulk["ended_at"] else None

    bulk = eventually(found, 300)
    assert bulk, admin.get(f"{URL}/{bulk_id}").json()
    return bulk


def test_all_queries_are_restarted_one_after_the_other(
    admin: httpx.Client, agent: SimulatedAgent, fleet: list[SimulatedQuery]
) -> None:
    by_id = {query.query_id: query for query in fleet}

    def restart(driver: SimulatedAgent, command: Json) -> Json:
        query = by_id[command["query_id"]]
        return restarts(query, lambda d: d.send(d.progress(query)))(driver, command)

    agent.serve_commands(restart)
    body = {"action": "restart", "query_ids": ids(fleet), "reason": "new credentials", "actor": "ada"}
    key = {"Idempotency-Key": "k1"}
    first = admin.post(URL, json=body, headers=key)
    assert first.status_code == 202, first.text
    again = admin.post(URL, json=body, headers=key).json()["bulk_action"]
    assert again["id"] == first.json()["bulk_action"]["id"]
    bulk = ended(admin, again["id"])
    assert (bulk["state"], bulk["counts"]) == ("succeeded", {"succeeded": 3}), bulk
    actions = [admin.get(f"/api/v1/actions/{q['action_id']}").json()["action"] for q in bulk["queries"]]
    assert {(a["actor"], a["request_reason"]) for a in actions} == {("ada", "new credentials")}
    spans = sorted((a["requested_at"], a["finished_at"]) for a in actions)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_the_first_failure_leaves_the_others_alone(
    admin: httpx.Client, agent: SimulatedAgent, fleet: list[SimulatedQuery], cli: Cli
) -> None:
    failure = {"state": "failed", "code": "failed", "reason": "the sink is away"}
    refusal = {"state": "refused", "code": "inventory_off", "reason": "no inventories"}
    agent.serve_commands(lambda _, command: refusal if command["action"] == "inventory" else failure)
    selector = f'query_id=~"{"|".join(ids(fleet))}"'
    options = "restart", "--selector", selector, "--reason", "deploy", "--yes"
    done = cli(*options)
    assert done.code == 1, done
    assert "halted" in done.out and "2 queries were not acted on" in done.out
    newest = admin.get(URL, params={"limit": 1}).json()["bulk_actions"][0]
    assert newest["counts"] == {"failed": 1, "not_requested": 2}
    assert "the sink is away" in newest["reason"]


def test_a_plan_that_refuses_a_query_refuses_all_unless_it_is_left_out(
    admin: httpx.Client, agent: SimulatedAgent, fleet: list[SimulatedQuery]
) -> None:
    agent.terminated(fleet[0], None)
    body = {"action": "stop", "query_ids": ids(fleet)}
    plan = admin.post(f"{URL}/plan", json=body).json()
    assert plan["accepted"] == 2
    assert [q["code"] for q in plan["queries"] if q["refusal"]] == ["not_running"]
    refused = admin.post(URL, json={**body, "reason": "x"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "bulk_refused")
    taken = admin.post(URL, json={**body, "reason": "x", "skip_refused": True})
    assert taken.status_code == 202 and len(taken.json()["bulk_action"]["queries"]) == 2
    bulk_id = taken.json()["bulk_action"]["id"]
    cancelled = admin.post(f"{URL}/{bulk_id}/cancel", json={"actor": "bob"}).json()["bulk_action"]
    assert (cancelled["state"], cancelled["reason"]) == ("cancelled", "cancelled by bob")
    assert admin.post(f"{URL}/{bulk_id}/cancel", json={}).json()["bulk_action"] == cancelled


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        ({"action": "restart", "reason": "x"}, 400, "query_ids or selector"),
        ({"action": "restart", "reason": "x", "selector": [""]}, 400, "at least one matcher"),
        ({"action": "restart", "reason": "x", "selector": ['app="nowhere"']}, 400, "no query matches"),
        ({"action": "restart", "reason": "x", "selector": ['app=~"("']}, 400, "selector"),
        ({"action": "restart", "reason": "x", "selector": ["a=b"], "statuses": ["ill"]}, 400, "statuses"),
        ({"action": "restart", "reason": "x", "query_ids": ["none"]}, 400, "there is no query none"),
        ({"action": "restart", "reason": " ", "selector": ["a=b"]}, 422, "reason"),
        ({"action": "restart", "reason": "x", "selector": ["a=b"], "max_parallel": 0}, 422, "max_parallel"),
    ],
)
def test_a_bad_request_names_what_to_change(
    admin: httpx.Client, fleet: list[SimulatedQuery], body: Json, status: int, named: str
) -> None:
    answer = admin.post(URL, json=body)
    assert answer.status_code == status and named in answer.text, answer.text
