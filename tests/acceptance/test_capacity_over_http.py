"""The capacity of a query and what changed, over HTTP and on the command line, with a real server and a simulated driver."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.acceptance.conftest import Cli
from tests.acceptance.live import LiveServer, eventually
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery, stamp

BATCHES, EVERY = 40, 10.0
SHAPE = {
    "v": 1,
    "spark": "4.3.0",
    "sources": [{"type": "KafkaV2", "format": "kafka", "options": {"maxoffsetspertrigger": "2000"}}],
    "conf": {"spark.sql.streaming.metricsEnabled": "true"},
}


@pytest.fixture
def driver(server: LiveServer) -> Iterator[SimulatedAgent]:
    labels = {"retention": "1h", "state_limit_rows": "20000"}
    started = server.agent(app=f"app-{uuid.uuid4().hex[:6]}", labels=labels)
    started.begin()
    yield started
    started.close()


def report(driver: SimulatedAgent, query: SimulatedQuery, number: int, at: float) -> bytes:
    """A batch of 1 000 rows in 1 s, of which 100 stay in the state; 2 000 rows arrive each time."""
    source = {
        "description": "KafkaV2[Subscribe[orders]]",
        "startOffset": {"orders": {"0": number * 1000}},
        "endOffset": {"orders": {"0": (number + 1) * 1000}},
        "latestOffset": {"orders": {"0": (number + 1) * 2000}},
        "numInputRows": 1000,
    }
    state = {"operatorName": "stateStoreSave", "numRowsTotal": number * 100, "numShufflePartitions": 4}
    kind, data = driver.progress(
        query,
        number,
        timestamp=stamp(at - 1.0),
        batchDuration=1000,
        durationMs={"addBatch": 800, "queryPlanning": 100, "triggerExecution": 1000},
        numInputRows=1000,
        sources=[source],
        stateOperators=[state],
    )
    return driver.line(kind, data, at)


@pytest.fixture
def query(driver: SimulatedAgent) -> SimulatedQuery:
    started, now = SimulatedQuery(f"q-{uuid.uuid4().hex[:6]}"), time.time()
    driver.start(started, interval=EVERY)
    driver.send(
        (
            "status",
            driver.status(
                started, facts={"trigger": "processing_time", "triggerInterval": EVERY, "shape": SHAPE}
            ),
        )
    )
    driver.post(*(report(driver, started, n, now - EVERY * (BATCHES - n)) for n in range(BATCHES)))
    return started


def capacity(client: httpx.Client, query: SimulatedQuery) -> dict[str, Any]:
    answer = client.get(f"/api/v1/queries/{query.query_id}/capacity")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_query_states_its_load_its_runways_and_advice(admin: httpx.Client, query: SimulatedQuery) -> None:
    found = eventually(lambda: (c := capacity(admin, query))["advice"] and c)
    load = found["throughput"]
    assert load["busy_ratio"] == pytest.approx(0.1, rel=0.05)
    assert (load["demand_from"], load["limited_by"]) == ("arrival", "maxOffsetsPerTrigger")
    assert load["demand_rows_per_second"] == pytest.approx(200, rel=0.05)
    assert load["capacity_rows_per_second"] == pytest.approx(200, rel=0.05)
    assert load["catch_up_seconds"] is None  # the backlog grows
    assert found["bottleneck"]["part"] == "tasks"
    assert found["retention"]["left_seconds"] > 0
    (state,) = [each for each in found["state"] if each["unit"] == "rows"]
    assert state["growth_per_second"] == pytest.approx(10, rel=0.02)
    assert state["earliest_seconds"] == pytest.approx((20_000 - state["size"]) / 10, rel=0.05)
    assert "spark.sql.streaming.metricsEnabled" in [each["setting"] for each in found["advice"]]


def test_the_command_lists_queries_and_explains_a_query(cli: Cli, query: SimulatedQuery) -> None:
    listed = cli("capacity", "--app", query_app(cli, query))
    assert (listed.code, listed.err) == (0, "")
    assert listed.out.splitlines()[0].split()[:3] == ["QUERY", "BUSY", "DEMAND/S"]
    assert " 10%" in listed.out
    assert "tasks" in listed.out
    alone = cli("capacity", query.query_id)
    assert "Busy 10% of the last" in alone.out
    assert "reaches its limit of 20,000 rows (label state_limit_rows)" in alone.out


def query_app(cli: Cli, query: SimulatedQuery) -> str:
    listed = json.loads(cli("queries", "--json").out)["queries"]
    return next(str(row["app"]) for row in listed if row["query_id"] == query.query_id)


def test_an_unknown_query_has_no_capacity(admin: httpx.Client) -> None:
    assert admin.get(f"/api/v1/queries/{uuid.uuid4()}/capacity").status_code == 404


def test_what_changed_before_the_trouble_is_listed(server: LiveServer, admin: httpx.Client) -> None:
    """A deploy: a new driver with another label and a shape with another filter starts the query, which fails."""
    app, query = f"app-{uuid.uuid4().hex[:6]}", SimulatedQuery("deployed")
    for version, filters in (("1.4", ["a"]), ("1.5", ["b"])):
        driver = server.agent(app=app, labels={"version": version})
        driver.begin()
        query.run_id = str(uuid.uuid4())
        driver.start(query)
        driver.send(
            ("status", driver.status(query, facts={"shape": {**SHAPE, "filters": filters}})),
            driver.progress(query),
        )
        ended = "[STREAM_FAILED] boom" if version == "1.5" else None
        driver.terminated(query, ended)
        driver.close()
    path = f"/api/v1/queries/{query.query_id}/what-changed"

    def sentences() -> str:
        return " ".join(change["sentence"] for change in admin.get(path).json()["changes"])

    # The server compares shapes on a thread of its own.
    found = eventually(lambda: text if "filter" in (text := sentences()).lower() else "")
    assert "Label version was 1.4 and is 1.5." in found
    assert "A new driver ran it" in found
    assert admin.get(path, params={"before": "2020-01-01T00:00:00Z"}).json()["changes"] == []
    later = {"before": stamp(time.time() + 7 * 3600)}
    assert admin.get(path, params=later).json()["changes"] == []
    day = admin.get(path, params={**later, "searched_seconds": "86400"}).json()
    assert day["searched_seconds"] == 86_400
    assert "Label version was 1.4 and is 1.5." in [change["sentence"] for change in day["changes"]]
    assert admin.get(path, params={"searched_seconds": "nan"}).status_code == 422
