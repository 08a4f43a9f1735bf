"""The read API: the fleet, one query, its history, and the server's own state."""

from __future__ import annotations

import gzip
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.engine import Engine

from controlplane.health.judge import judge
from controlplane.model import QueryStatus
from controlplane.store.engine import checkpoint, sqlite_file
from tests.acceptance.live import LiveServer, eventually, live_server
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery, stamp

ROW = set(
    "query_id app name status reason since run_id batch_id labels alerts agent spark_version ui_url trigger"
    " alert_severity firing vanished no_driver trigger_interval_seconds last_progress_at last_event_at arrival_rows_per_second"
    " input_rows_per_second processed_rows_per_second"
    " batch_duration_seconds lag_rows lag_offsets lag_batches lag_unknown"
    " lag_seconds state_rows state_bytes watermark starts actions_allowed restart"
    " action recent desired".split()
)
DETAIL = ROW | set(
    "runs sources sink operators facts agent_info failure changes actions latest_progress superseded_by gaps"
    " notes".split()
)
POINT = set(
    "at trigger_at run_id batch_id batch_duration_seconds phases_ms input_rows arrival_rows_per_second"
    " input_rows_per_second"
    " processed_rows_per_second lag_rows output_rows state_rows state_bytes resolution watermark".split()
)


@pytest.fixture
def driver(server: LiveServer) -> Iterator[SimulatedAgent]:
    started = server.agent(app=f"app-{uuid.uuid4().hex[:6]}", labels={"team": "payments"})
    started.begin()
    yield started
    started.close()


@pytest.fixture
def query(driver: SimulatedAgent) -> SimulatedQuery:
    started = SimulatedQuery("enrich")
    driver.start(started)
    driver.send(*[driver.progress(started) for _ in range(5)])
    return started


def fleet(admin: httpx.Client, **parameters: Any) -> list[dict[str, Any]]:
    return list(admin.get("/api/v1/queries", params=parameters).json()["queries"])


def test_a_query_is_shown_with_all_that_the_fleet_page_needs(
    driver: SimulatedAgent, query: SimulatedQuery, admin: httpx.Client
) -> None:
    (row,) = fleet(admin, app=driver.app)
    assert set(row) == ROW
    assert (row["app"], row["name"], row["batch_id"], row["starts"]) == (driver.app, "enrich", 4, 1)
    assert (row["labels"], row["agent"], row["actions_allowed"]) == (
        {"team": "payments"},
        driver.agent,
        "all",
    )
    assert (row["lag_rows"], row["trigger_interval_seconds"]) == (7.0, 1.0)
    assert row["restart"] == {"how": "reuse", "reason": None}
    assert [len(row["recent"][name]) for name in row["recent"]] == [5, 5, 5]
    assert row["status"] in set(QueryStatus)
    assert row["reason"]


def test_a_dead_jvm_below_living_python_is_one_alert_and_every_action_names_the_remedy(
    driver: SimulatedAgent, query: SimulatedQuery, admin: httpx.Client
) -> None:
    other = SimulatedQuery("clean")
    driver.start(other)
    dead = {"seconds": 3.0, "cause": "jvm_exited", "detail": "the driver's JVM has ended by signal 9"}
    driver.send(("heartbeat", {"unreachable": dead, "sent_at": time.time()}))
    rows = fleet(admin, app=driver.app)
    assert {row["status"] for row in rows} == {"unreachable"}
    assert {row["no_driver"] for row in rows} == {rows[0]["no_driver"]}
    assert "End that process and start the application" in rows[0]["no_driver"]
    answer = admin.post(f"/api/v1/queries/{query.query_id}/actions", json={"action": "restart"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "driver_unreachable")
    (agent,) = [a for a in admin.get("/api/v1/agents").json()["agents"] if a["agent"] == driver.agent]
    assert agent["unreachable"]["cause"] == "jvm_exited"
    alerts = eventually(lambda: firing(admin, driver.app))  # four ticks
    assert [(a["name"], a["value"]) for a in alerts] == [("DriverFailed", 2.0)]
    driver.send(("app_ended", {"reason": "jvm_exited", "exception": "Py4JNetworkError: refused"}))
    rows = fleet(admin, app=driver.app)
    assert {row["status"] for row in rows} == {"failed"}
    assert all("the driver's JVM ended, and its program with it" in row["reason"] for row in rows)
    assert all("Start the application" in row["no_driver"] for row in rows)
    assert "Connection" not in admin.get(f"/api/v1/queries/{query.query_id}").json()["failure"]["advice"]
    assert [a["name"] for a in firing(admin, driver.app)] == ["DriverFailed"]


def firing(admin: httpx.Client, app: str) -> list[dict[str, Any]]:
    alerts = admin.get("/api/v1/alerts").json()["alerts"]
    return [a for a in alerts if a["labels"].get("app") == app and a["state"] == "firing"]


def test_the_detail_holds_sparks_own_json(
    driver: SimulatedAgent, query: SimulatedQuery, admin: httpx.Client
) -> None:
    detail = admin.get(f"/api/v1/queries/{query.query_id}").json()
    assert set(detail) == DETAIL
    assert detail["latest_progress"]["batchId"] == 4
    batches = f"/api/v1/queries/{query.query_id}/runs/{query.run_id}/batches"
    assert admin.get(f"{batches}/4").json()["report"] == detail["latest_progress"]
    missing = admin.get(f"{batches}/99")
    assert missing.status_code == 404 and "batch 99" in missing.text
    assert detail["sources"][0]["latest_offset"] == {"orders": {"0": 507}}
    assert detail["sources"][0]["lag_rows"] == 7.0
    assert detail["operators"][0]["operatorName"] == "stateStoreSave"
    assert detail["sink"]["description"] == "NoopTable"
    assert [(r["first_batch_id"], r["last_batch_id"], r["batches"]) for r in detail["runs"]] == [(0, 4, 5)]
    assert detail["facts"]["checkpoint"] == f"/c/{query.query_id}"
    assert detail["agent_info"]["spark_version"] == "4.3.0"
    assert (detail["superseded_by"], detail["failure"]) == (None, None)


def test_progress_is_a_series_that_can_be_thinned(
    driver: SimulatedAgent, query: SimulatedQuery, admin: httpx.Client
) -> None:
    path = f"/api/v1/queries/{query.query_id}/progress"
    points = admin.get(path).json()["progress"]
    assert [set(p) for p in points] == [POINT] * 5
    assert [p["batch_id"] for p in points] == [0, 1, 2, 3, 4]
    assert points[0]["phases_ms"] == {"addBatch": 350.0, "triggerExecution": 400.0}
    thinned = admin.get(path, params={"step": 3600}).json()["progress"]
    assert 1 <= len(thinned) <= 2
    assert thinned[-1]["batch_id"] == 4
    past = {"start": stamp(time.time() - 7200), "end": stamp(time.time() - 3600)}
    assert admin.get(path, params=past).json()["progress"] == []


def test_events_come_in_pages_as_they_were_sent(
    driver: SimulatedAgent, query: SimulatedQuery, admin: httpx.Client
) -> None:
    path = f"/api/v1/queries/{query.query_id}/events"
    seen: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        page = admin.get(path, params={"after": after, "limit": 2, "type": "progress"}).json()
        seen += page["events"]
        after = page["next"]
    assert [event["data"]["batchId"] for event in seen] == [0, 1, 2, 3, 4]
    assert {event["type"] for event in seen} == {"progress"}
    assert seen[0]["at"].endswith("Z")
    assert seen[0]["agent"] == driver.agent


def test_the_fleet_can_be_narrowed(
    driver: SimulatedAgent, query: SimulatedQuery, admin: httpx.Client
) -> None:
    (row,) = fleet(admin, app=driver.app, label="team=payments")
    assert fleet(admin, app=driver.app, label="team=other") == []
    assert fleet(admin, app=driver.app, label=["team=payments", "env=x"]) == []
    assert [r["query_id"] for r in fleet(admin, app=driver.app, status=row["status"])] == [query.query_id]
    assert fleet(admin, app="nobody") == []


def test_a_query_is_named_as_lists_and_labels_print_it(
    driver: SimulatedAgent, query: SimulatedQuery, admin: httpx.Client
) -> None:
    for text in (f"{driver.app}/enrich", f"{driver.app}/{query.query_id[:8]}", query.query_id[:8]):
        assert admin.get("/api/v1/actions", params={"query_id": text}).status_code == 200
        assert admin.get("/api/v1/alerts", params={"query_id": text}).status_code == 200
    assert admin.get(f"/api/v1/queries/{query.query_id[:8]}").json()["query_id"] == query.query_id
    refused = admin.get("/api/v1/alerts/history", params={"query_id": f"{driver.app}/nothing"})
    assert refused.status_code == 422
    assert "names no query" in refused.text


def test_the_server_states_its_figures_and_limits(
    driver: SimulatedAgent, admin: httpx.Client, server: LiveServer
) -> None:
    about = admin.get("/api/v1/server").json()
    assert about["role"] == "active"
    assert about["figures"]["controlplane_agents"] >= 1
    assert about["limits"]["retention_days"] == 14
    query = {"query": "controlplane_agents"}
    assert admin.get("/prometheus/api/v1/query", params=query).json()["data"]["result"]


def test_the_worst_comes_first_and_the_counts_add_up(driver: SimulatedAgent, admin: httpx.Client) -> None:
    good, bad = SimulatedQuery("aaa"), SimulatedQuery("zzz")
    for query in (good, bad):
        driver.start(query)
        driver.send(driver.progress(query))
    driver.terminated(bad, "java.io.IOException: disk on fire", "STREAM_FAILED")
    answer = admin.get("/api/v1/queries", params={"app": driver.app}).json()
    assert [q["name"] for q in answer["queries"]] == ["zzz", "aaa"]
    assert sum(answer["counts"].values()) == 2
    assert answer["counts"]["failed"] == 1
    places = [list(QueryStatus).index(QueryStatus(q["status"])) for q in fleet(admin)]
    assert places == sorted(places)


def test_a_new_checkpoint_takes_the_place_of_the_old_one(
    driver: SimulatedAgent, query: SimulatedQuery, admin: httpx.Client
) -> None:
    driver.terminated(query)
    again = SimulatedQuery("enrich")
    driver.start(again)
    driver.send(driver.progress(again))
    assert [q["query_id"] for q in fleet(admin, app=driver.app)] == [again.query_id]
    assert admin.get(f"/api/v1/queries/{query.query_id}").json()["superseded_by"] == again.query_id


def test_every_change_of_status_is_recorded_however_short(
    driver: SimulatedAgent, query: SimulatedQuery, admin: httpx.Client
) -> None:
    driver.terminated(query, "java.io.IOException: disk on fire", "STREAM_FAILED")
    eventually(lambda: _with_status(admin, query.query_id, "failed"))
    query.run_id = str(uuid.uuid4())
    driver.start(query)
    detail = eventually(lambda: _with_status(admin, query.query_id, "starting"))
    assert [change["status"] for change in detail["changes"]][:2] == ["starting", "failed"]
    assert detail["since"] == detail["changes"][0]["at"]


def _with_status(admin: httpx.Client, query_id: str, status: str) -> dict[str, Any] | None:
    detail = admin.get(f"/api/v1/queries/{query_id}").json()
    return detail if detail["changes"] and detail["changes"][0]["status"] == status else None


def test_the_metrics_have_an_agent_without_a_query(driver: SimulatedAgent, admin: httpx.Client) -> None:
    assert f'agent="{driver.agent}"' in admin.get("/metrics").text


def test_who_scrapes_two_servers_gets_each_query_once(
    server: LiveServer, query: SimulatedQuery, admin: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    active = admin.get("/metrics").text
    assert query.query_id in active and "controlplane_active 1.0" in active
    monkeypatch.setattr(server.plane.election, "active_since", None)
    standby = admin.get("/metrics").text
    assert "controlplane_active 0.0" in standby
    assert [line for line in standby.splitlines() if line.startswith("spark_streaming_")] == []


def test_agents_are_listed(driver: SimulatedAgent, admin: httpx.Client) -> None:
    agents = admin.get("/api/v1/agents").json()["agents"]
    (mine,) = [a for a in agents if a["agent"] == driver.agent]
    assert (mine["app"], mine["actions"], mine["ended_at"]) == (driver.app, "all", None)


def test_what_the_server_knew_it_knows_after_a_restart(tmp_path: Path) -> None:
    query = SimulatedQuery("durable")
    with live_server(tmp_path) as first:
        driver = first.agent()
        driver.begin()
        driver.start(query)
        driver.send(driver.progress(query), driver.progress(query))
        first.plane.tick()
        with first.client() as admin:
            path = f"/api/v1/queries/{query.query_id}"
            before = admin.get(path).json()
            asked = admin.post(f"{path}/actions", json={"action": "stop"}).json()["action"]
        token = first.agent_token
        driver.close()
    with live_server(tmp_path) as second, second.client() as admin:
        assert second.agent_token == token
        after = admin.get(f"/api/v1/queries/{query.query_id}").json()
        same = (
            "query_id",
            "app",
            "name",
            "batch_id",
            "labels",
            "starts",
            "recent",
            "facts",
            "sources",
            "runs",
        )
        assert {name: after[name] for name in same} == {name: before[name] for name in same}
        assert after["action"]["id"] == asked["id"]
        driver.http = httpx.Client(base_url=second.url, headers={"Authorization": f"Bearer {token}"})
        assert [command["id"] for command in driver.poll(2.0)] == [asked["id"]]
        driver.close()


def test_a_query_whose_first_start_failed_is_in_the_fleet_with_its_failure_until_it_starts(
    driver: SimulatedAgent, admin: httpx.Client
) -> None:
    boom = "org.apache.spark.sql.AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] The table or view `x` cannot be found."
    failed = {"id": None, "name": "enrich", "method": "start", "exception": boom, "errorClass": None}
    driver.send(("start_failed", failed))
    (row,) = fleet(admin, app=driver.app)
    assert (row["name"], row["status"], row["run_id"]) == ("enrich", "failed", None)
    assert "TABLE_OR_VIEW_NOT_FOUND" in row["reason"]
    detail = admin.get(f"/api/v1/queries/{row['query_id']}").json()
    assert detail["failure"]["condition"] == "TABLE_OR_VIEW_NOT_FOUND"
    output = admin.get(f"/api/v1/queries/{row['query_id']}/events").json()["events"]
    assert [event["type"] for event in output] == ["start_failed"]
    started = SimulatedQuery("enrich")
    driver.start(started)
    assert [row["query_id"] for row in fleet(admin, app=driver.app)] == [started.query_id]


def _damage(engine: Engine) -> None:
    """Overwrite all pages of an SQLite store but the first; connections read them anew."""
    file = sqlite_file(engine)
    assert file is not None and checkpoint(engine)
    with file.open("r+b") as pages:
        pages.seek(4096)
        pages.write(b"\xa5" * (file.stat().st_size - 4096))
    engine.dispose()


def test_readiness_names_what_is_wrong(tmp_path: Path) -> None:
    with live_server(tmp_path) as running, running.client("") as anyone:
        assert anyone.get("/readyz").json() == {"status": "ok", "reasons": []}
        running.plane.scheduler.stop()
        assert eventually(lambda: anyone.get("/readyz").status_code == 503)
        assert anyone.get("/readyz").json()["reasons"] == ["the scheduler is not running"]
        _damage(running.plane.engine)
        assert eventually(lambda: "file is damaged" in str(anyone.get("/readyz").json()["reasons"]))
        assert anyone.get("/healthz").status_code == 200
        agent = running.agent()
        refused = agent.http.post("/api/v1/events", content=agent.line("heartbeat", {}))
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "store_unavailable")
        assert refused.headers["Retry-After"]


def test_a_thousand_queries_are_listed_quickly(server: LiveServer, admin: httpx.Client) -> None:
    driver = server.agent(app="many")
    lines = []
    for number in range(1000):
        lines.append(driver.line(*driver.progress(SimulatedQuery(f"q{number}"))))
    assert driver.post(*lines)["stored"] == 1000
    assert len(fleet(admin, app="many")) == 1000
    page = {"app": "many", "search": "q99", "sort": "-name", "limit": 3, "fields": "name"}
    answer = admin.get("/api/v1/queries", params=page)
    assert [row["name"] for row in answer.json()["queries"]] == ["q999", "q998", "q997"]
    assert answer.json()["total"] == 11
    unchanged = admin.get("/api/v1/queries", params=page, headers={"If-None-Match": answer.headers["ETag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    whole = admin.get("/api/v1/queries", params={"app": "many"})
    assert whole.headers["Content-Encoding"] == "gzip"
    changes = admin.get("/api/v1/queries", params={"app": "many", "since": whole.json()["cursor"]})
    listed = {row["query_id"] for row in whole.json()["queries"]}
    # Queries of other apps that changed are not of this list.
    assert listed.isdisjoint(changes.json()["removed"])
    assert eventually(lambda: admin.get("/metrics").status_code == 200)
    driver.close()


@pytest.mark.parametrize("of_adopter", [False, True], ids=["its own agent", "an adopter of its spool"])
def test_a_driver_whose_events_are_refused_for_now_is_lost_unless_its_own_agent_sends_them(
    of_adopter: bool, server: LiveServer, driver: SimulatedAgent
) -> None:
    query = SimulatedQuery("late")
    driver.start(query)
    agent = server.plane.window.agent(driver.agent)
    assert agent is not None
    server.plane.ingest.quotas.charge([(driver.app, 1_000_000)])
    asked = time.time() + 300  # so long its requests have been refused
    with pytest.MonkeyPatch.context() as clock:
        clock.setattr(server.plane.window, "note_contact", _later(server.plane.window.note_contact, asked))
        own = str(uuid.uuid4()) if of_adopter else driver.agent
        body = gzip.compress(driver.line("heartbeat", {}))[:-1]  # it is refused before it is decompressed
        headers = {"X-Agent": own, "Content-Encoding": "gzip"}
        answer = driver.http.post("/api/v1/events", content=body, headers=headers)
    assert answer.status_code == 429
    view = server.plane.window.view(query.query_id)
    assert view is not None
    verdict = judge(view, asked)
    if of_adopter:
        assert verdict.status is QueryStatus.LOST
    else:
        assert verdict.status is not QueryStatus.LOST
        assert "Its events are 5 min behind." in verdict.reason


def _later(note_contact: Callable[[str, float], None], at: float) -> Callable[[str, float], None]:
    return lambda agent, now: note_contact(agent, at)
