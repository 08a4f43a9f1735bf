"""Baselines from the lake to the alert: published in chunks, served as series, and read by a rule."""

from __future__ import annotations

import contextlib
import gzip
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from controlplane.lake.lake import Lake
from controlplane.lake.schema import arrow_schema
from controlplane.metrics.baselines import FIGURES, hour_of_week
from controlplane.model import Role
from controlplane.pipeline.rollup.baseline_documents import baseline_documents
from tests.acceptance.conftest import Cli
from tests.acceptance.live import LiveServer, eventually, live_server
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery

#: Windows and waiting times of the rules: a quarter of an hour is three seconds.
SCALE = 1 / 300
NAME = "spark_streaming_baseline_input_rows_per_second"


def rows(*queries: tuple[str, str, float]) -> pa.Table:
    """Rows of the table for (query_id, name, usual rate): at hour h the rate and h besides."""
    made = datetime(2026, 3, 30, tzinfo=UTC)
    output = [
        {
            "app": "orders",
            "query": name,
            "query_id": query_id,
            "metric": "input_rows_per_second",
            "hour_of_week": hour,
            "quantile": quantile,
            "value": value * quantile * 2 + hour,
            "weeks": 4,
            "samples": 100,
            "made_at": made,
        }
        for query_id, name, value in queries
        for hour in range(168)
        for quantile in (0.1, 0.5, 0.9)
    ]
    return pa.Table.from_pylist(output, schema=arrow_schema("baselines"))


def publish(admin: httpx.Client, *queries: tuple[str, str, float]) -> None:
    answers = [
        admin.put("/api/v1/baselines", json=item).json() for item in baseline_documents(rows(*queries))
    ]
    assert answers[-1]["complete"] is True


def samples(admin: httpx.Client, expression: str, at: float | None = None) -> dict[str, float]:
    """Values by their quantile."""
    asked = {"query": expression} | ({} if at is None else {"time": str(at)})
    answer = admin.get("/prometheus/api/v1/query", params=asked).json()
    assert answer["status"] == "success", answer
    return {item["metric"].get("quantile", ""): float(item["value"][1]) for item in answer["data"]["result"]}


@pytest.fixture
def query(agent: SimulatedAgent) -> SimulatedQuery:
    made = SimulatedQuery("usual")
    agent.start(made)
    agent.send(agent.progress(made))
    return made


def test_published_baselines_are_series_of_the_hour(
    admin: httpx.Client, agent: SimulatedAgent, query: SimulatedQuery
) -> None:
    publish(admin, (query.query_id, "usual", 100.0))
    now = time.time()
    hour = hour_of_week(now)
    found = samples(admin, f'{NAME}{{query_id="{query.query_id}"}}', now)
    assert found == {"0.1": pytest.approx(20 + hour), "0.5": 100 + hour, "0.9": pytest.approx(180 + hour)}
    text = admin.get("/metrics").text
    line = next(item for item in text.splitlines() if item.startswith(NAME) and 'quantile="0.5"' in item)
    assert 'query="usual"' in line and float(line.split()[-1]) == 100 + hour


def test_past_hours_have_their_baselines(
    admin: httpx.Client, agent: SimulatedAgent, server: LiveServer
) -> None:
    old = SimulatedQuery("older")
    began = time.time() - 3 * 3600
    ids = {"id": old.query_id, "runId": old.run_id, "name": old.name}
    agent.post(agent.line("started", {**ids, "timestamp": "2026-01-01T00:00:00.000Z"}, began))
    publish(admin, (old.query_id, "older", 100.0))
    asked = {
        "query": f'{NAME}{{query="older",quantile="0.5"}}',
        "start": began,
        "end": time.time(),
        "step": 60,
    }
    (series,) = admin.get("/prometheus/api/v1/query_range", params=asked).json()["data"]["result"]
    assert len(series["values"]) > 170
    for at, value in series["values"][:-2]:
        # A sample holds until the next: at the turn of an hour it may be a step old.
        assert float(value) in (100 + hour_of_week(at), 100 + hour_of_week(at - server.plane.series.step))


def test_a_set_holds_only_when_it_is_complete_and_replaces_the_one_before(admin: httpx.Client) -> None:
    publish(admin, ("a", "first", 1.0))
    many = [(f"id {n}", f"query {n}", float(n)) for n in range(150)]
    first, second = baseline_documents(rows(*many))

    def known() -> set[str]:
        return {item["query_id"] for item in admin.get("/api/v1/baselines").json()["baselines"]}

    assert admin.put("/api/v1/baselines", json=second).json()["complete"] is False
    assert known() == {"a"}
    packed = gzip.compress(json.dumps(first).encode())
    answer = admin.put("/api/v1/baselines", content=packed, headers={"Content-Encoding": "gzip"})
    assert answer.json()["complete"] is True
    assert known() == {item[0] for item in many}
    output = admin.get("/api/v1/baselines", params={"query_id": "id 7"}).json()
    assert output["figures"]["input_rows_per_second"]["0.5"][5] == 12.0 and set(output["figures"]) == set(
        FIGURES
    )
    assert admin.get("/api/v1/baselines", params={"query_id": "a"}).status_code == 404


def test_a_set_survives_a_restart(tmp_path: Path) -> None:
    for turn in range(2):
        with live_server(tmp_path) as server, server.client() as client:
            if turn == 0:
                publish(client, ("a", "first", 1.0))
            assert [item["query"] for item in client.get("/api/v1/baselines").json()["baselines"]] == [
                "first"
            ]


BARE: dict[str, Any] = {"query_id": "q", "app": "a", "query": "n", "made_at": 1.0}
WRONG: dict[str, tuple[Any, str]] = {
    "no JSON": (b"{", "the body"),
    "no object": (b"[]", "the body must be an object with set, chunk, chunks and baselines"),
    "no set": (
        {"set": "", "chunk": 0, "chunks": 1, "baselines": []},
        "set must be a text of 1 to 100 characters",
    ),
    "a chunk too far": (
        {"set": "s", "chunk": 1, "chunks": 1, "baselines": []},
        "chunk must be a whole number from 0 to 0",
    ),
    "too many chunks": (
        {"set": "s", "chunk": 0, "chunks": 10**9, "baselines": []},
        "chunks must be a whole number from 1 to 1000",
    ),
    "no list": ({"set": "s", "chunk": 0, "chunks": 1, "baselines": {}}, "baselines must be a list"),
    "a figure that is no text": (
        {"set": "s", "chunk": 0, "chunks": 1, "baselines": [BARE | {"figures": {"\ud800": 1}}]},
        "baselines[0].figures: '\\ud800' is none of",
    ),
    "a bad query": (
        {"set": "s", "chunk": 0, "chunks": 1, "baselines": [{"query_id": "q"}]},
        "baselines[0].app must be text",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_invalid_body_is_refused_with_a_message(admin: httpx.Client, case: str) -> None:
    body, expected = WRONG[case]
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = admin.put("/api/v1/baselines", content=content)
    assert answer.status_code == 400 and expected in answer.json()["error"]["message"]


def test_half_of_a_surrogate_in_a_name_is_no_mistake_of_the_server(admin: httpx.Client) -> None:
    body = json.dumps({"set": "\ud800", "chunk": 0, "chunks": 1, "baselines": []}).encode()
    answer = admin.put("/api/v1/baselines", content=body)
    assert answer.status_code == 200 and answer.json()["set"] == "\ufffd"


def test_only_operators_publish(server: LiveServer) -> None:
    with server.client(server.token(Role.VIEWER)) as viewer:
        assert viewer.put("/api/v1/baselines", json={}).status_code == 403
        assert viewer.get("/api/v1/baselines").status_code == 200


def test_the_command_publishes_what_the_lake_holds(
    server: LiveServer, admin: httpx.Client, cli: Cli, tmp_path: Path
) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    staging = lake.stage("baselines", "current")
    lake.commit(staging, staging.write("baselines", rows(("q", "from the lake", 3.0)), "0"))
    result = cli("history", "rollup", "--lake", str(tmp_path / "lake"), "--publish", "--server", server.url)
    assert result.code == 0 and "published baselines of 1 queries" in result.out, result.err
    assert [item["query"] for item in admin.get("/api/v1/baselines").json()["baselines"]] == ["from the lake"]


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[LiveServer]:
    with live_server(tmp_path, rules_scale=SCALE, series_step=0.5) as running:
        yield running


def test_a_rule_fires_when_the_input_drops_below_a_tenth_of_the_baseline(quick: LiveServer) -> None:
    with quick.client() as admin, contextlib.closing(quick.agent()) as agent:
        agent.begin()
        dropped, same = SimulatedQuery("dropped"), SimulatedQuery("same")
        for query in (dropped, same):
            agent.start(query)
        # Each gets about a thousand rows a second; the hour's number besides does not matter at this size.
        publish(admin, (dropped.query_id, "dropped", 1000.0), (same.query_id, "same", 1000.0))

        def firing() -> set[str]:
            found = admin.get("/api/v1/alerts").json()["alerts"]
            return {
                item["query"]
                for item in found
                if item["name"] == "InputDropped" and item["state"] == "firing"
            }

        def batch(rows: int) -> set[str]:
            agent.send(agent.progress(dropped, numInputRows=rows), agent.progress(same, numInputRows=300))
            time.sleep(0.3)
            return firing()

        until = time.monotonic() + 10  # more than the rule waits after a start, and for itself
        while time.monotonic() < until:
            assert batch(300) == set()
        assert eventually(lambda: batch(3)) == {"dropped"}
