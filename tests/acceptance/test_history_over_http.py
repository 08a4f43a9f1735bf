"""Events move from the store to the lake after verification, and the answers stay the same."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from controlplane.lake.lake import Lake
from controlplane.store import retention
from controlplane.store.engine import default_url
from controlplane.store.offload_marks import LAKE_EVENT_TYPES
from controlplane.store.tables import events
from tests.acceptance.live import LiveServer, live_server
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery, stamp
from tests.unit.controlplane.history.lakes import moved_to

DAY = 86400.0
#: Of batches; the window holds fewer than there are.
EVERY, BATCHES = 10.0, 150
FIGURES = (
    "batch_duration_seconds",
    "input_rows_per_second",
    "source_lag_rows",
    "state_rows",
    "batches_total",
    "input_rows_total",
    "query_up",
)


@dataclass
class Past:
    """A server whose only driver spoke five days ago, for 25 minutes, and again just now."""

    server: LiveServer
    client: httpx.Client
    query: SimulatedQuery
    began: float
    lake: Path

    @property
    def store(self) -> Any:
        """The server's store as `moved_to` takes one."""
        plane = self.server.plane

        @dataclass
        class Store:
            url: str = default_url(plane.settings.data_dir)
            now: float = plane.clock()

            def write(self, work: Any, *arguments: Any) -> Any:
                return plane.writer.write(lambda connection: work(connection, *arguments))

            def read(self, question: Any, *arguments: Any) -> Any:
                with plane.reading() as connection:
                    return question(connection, *arguments)

        return Store()

    def move(self) -> Any:
        return moved_to(self.store, self.lake, time.time() - 3 * DAY)

    def answers(self) -> list[Any]:
        end = self.began + BATCHES * EVERY + 60
        asked = {"start": self.began - 60, "end": end}
        path = f"/api/v1/queries/{self.query.query_id}/progress"
        found = [self.client.get(path, params=params).json() for params in (asked, {**asked, "step": 60})]
        for figure in FIGURES:
            expression = f'spark_streaming_{figure}{{query_id="{self.query.query_id}"}}'
            found.append(self.range(expression, self.began, end, 15))
        return found

    def range(self, expression: str, start: float, end: float, step: float) -> Any:
        params: dict[str, Any] = {"query": expression, "start": start, "end": end, "step": step}
        answer = self.client.get("/prometheus/api/v1/query_range", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def history(self) -> Any:
        return self.client.get("/api/v1/history").json()

    def stored(self) -> int:
        with self.server.plane.reading() as connection:
            kept = sa.select(sa.func.count()).where(events.c.type.in_(LAKE_EVENT_TYPES))
            return int(connection.execute(kept).scalar() or 0)


def report_the_past(agent: SimulatedAgent, query: SimulatedQuery, began: float) -> None:
    ids = {"id": query.query_id, "runId": query.run_id, "name": query.name}
    lines = [agent.line("started", {**ids, "timestamp": stamp(began)}, began)]
    for number in range(BATCHES):
        at = began + (number + 1) * EVERY
        kind, data = agent.progress(query, timestamp=stamp(at - 0.5), batchDuration=300 + number)
        lines.append(agent.line(kind, data, at))
    lines.append(agent.line("heartbeat", {}, began + 5))
    agent.post(*lines)


@pytest.fixture
def past(tmp_path: Path) -> Iterator[Past]:
    lake = tmp_path / "lake"
    with live_server(tmp_path / "data", lake=str(lake)) as server, server.client() as client:
        agent, query = server.agent(), SimulatedQuery("orders")
        began = (time.time() - 5 * DAY) // 120 * 120
        report_the_past(agent, query, began)
        agent.send(agent.progress(query))
        yield Past(server, client, query, began, lake)
        agent.close()


def test_answers_are_the_same_from_the_lake_as_from_the_store(past: Past) -> None:
    before, stored = past.answers(), past.stored()
    assert [len(answer["progress"]) for answer in before[:2]] == [BATCHES, 26]
    assert all(answer["data"]["result"] for answer in before[2:])
    commit = past.move()
    assert past.server.plane.history.advance() == commit.facts["until"]
    past.server.plane.prune()
    assert past.stored() == stored - BATCHES - 1
    assert past.answers() == before
    output = past.history()
    assert (output["offloaded_until"], output["rows"], output["error"]) == (
        commit.facts["until"],
        commit.rows,
        None,
    )
    assert "controlplane_lake_events_lost_total 0" in past.client.get("/metrics").text


def test_the_timeline_comes_from_the_lake_once_events_were_moved(past: Past) -> None:
    path = f"/api/v1/queries/{past.query.query_id}/timeline"
    stretch: dict[str, Any] = {"start": past.began - 60, "end": time.time()}
    nothing = past.client.get(path, params=stretch).json()
    assert (nothing["runs"], nothing["alerts"], nothing["actions"]) == ([], [], [])
    past.move()
    assert past.server.plane.history.advance()
    (run,) = past.client.get(path, params=stretch).json()["runs"]
    assert (run["run_id"], run["ended_at"], run["end"]) == (past.query.run_id, None, None)
    assert datetime.fromisoformat(run["started_at"]).timestamp() == past.began
    assert datetime.fromisoformat(run["last_seen_at"]).timestamp() == past.began + BATCHES * EVERY
    for wrong in ({"start": "yesterday"}, {"start": 2, "end": 1}):
        assert past.client.get(path, params=wrong).status_code == 400
    assert (
        past.client.get("/api/v1/queries/00000000-1111-2222-3333-444444444444/timeline").json()["runs"] == []
    )


def test_nothing_leaves_the_store_while_the_lake_is_damaged(past: Past) -> None:
    stored, before, commit = past.stored(), past.answers(), past.move()
    part = next(part for part in commit.parts if part.table == "progress")
    file, whole = past.lake / part.path, (past.lake / part.path).read_bytes()
    middle = len(whole) // 3
    file.write_bytes(whole[:middle] + bytes(64) + whole[middle + 64 :])  # its size and its end are right
    assert past.server.plane.history.advance() == 0
    past.server.plane.prune()
    assert past.stored() == stored
    assert part.path in past.history()["error"]
    file.write_bytes(whole)
    assert past.server.plane.history.advance() == commit.facts["until"]
    past.server.plane.prune()
    assert past.history()["error"] is None
    assert past.stored() < stored
    assert past.answers() == before


def test_a_missing_lake_removes_the_older_history_and_nothing_else(past: Past) -> None:
    past.move()
    past.server.plane.history.advance()
    past.server.plane.prune()
    past.lake.rename(past.lake.with_name("elsewhere"))
    end = time.time()
    recent = {"start": end - 600, "end": end}
    path = f"/api/v1/queries/{past.query.query_id}/progress"
    assert len(past.client.get(path, params=recent).json()["progress"]) == 1
    output = past.client.get(path, params={"start": past.began, "end": end}).json()
    assert len(output["progress"]) == 1 and "there is no lake" in output["notes"][0]
    assert "there is no lake" in past.client.get(path.replace("progress", "timeline")).json()["notes"][0]
    up = past.range("spark_streaming_batch_duration_seconds", past.began, past.began + 250, 15)
    assert up["data"]["result"] == [] and "there is no lake" in up["warnings"][0]
    assert past.client.get("/readyz").status_code == 200


def test_the_byte_limit_waits_for_no_lake_and_counts_what_it_cost(past: Past) -> None:
    plane = past.server.plane
    limit = retention.used_store_bytes(plane.engine) // 2
    gone = retention.prune(plane.writer, plane.clock(), 14 * DAY, limit, hot_seconds=3 * DAY)
    plane.history.lost(gone.lost)
    assert gone.lost > 0
    assert past.history()["lost_events"] == gone.lost
    assert f"controlplane_lake_events_lost_total {gone.lost}" in past.client.get("/metrics").text


def test_a_query_that_only_the_lake_holds_is_found_by_its_id(past: Past) -> None:
    strange = SimulatedQuery("imported")
    at = datetime(2026, 1, 2, 3, tzinfo=UTC).timestamp()
    put_into_the_lake(past.lake, strange, at)
    path = f"/api/v1/queries/{strange.query_id}/progress"
    output = past.client.get(path, params={"start": at - 60, "end": at + 600})
    assert [point["batch_id"] for point in output.json()["progress"]] == list(range(10))
    expression = f'spark_streaming_batch_duration_seconds{{query_id="{strange.query_id}"}}'
    [series] = past.range(expression, at, at + 100, 15)["data"]["result"]
    assert series["metric"]["query"] == "imported"
    assert series["values"][-1][1] == "0.4"
    unknown = past.client.get(f"/api/v1/queries/{SimulatedQuery(None).query_id}/progress")
    assert unknown.status_code == 404


def put_into_the_lake(folder: Path, query: SimulatedQuery, at: float) -> None:
    from controlplane.lake.rows import LakeRowBuilder, Producer

    lake, rows, agent = (
        Lake.open(str(folder), create=True),
        LakeRowBuilder(),
        SimulatedAgent("http://nowhere", "t"),
    )
    for number in range(10):
        _, data = agent.progress(query, timestamp=stamp(at + number * EVERY - 0.5))
        rows.progress(Producer("logs", "3.5.0", "log"), data, at + number * EVERY)
    agent.close()
    staging = lake.stage("import", "one")
    lake.commit(
        staging, [part for name, rows in rows.take().items() for part in staging.write(name, rows, "0")]
    )
