"""Alerts, silences, rules and notifications of a real server, over HTTP and with Debian's amtool."""

from __future__ import annotations

import json
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from alerts.notify.config import load as load_config
from controlplane.model import Role
from tests.acceptance.live import LiveServer, eventually, live_server
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery, stamp
from tests.unit.alerts.rules.test_pack import peer

Json = dict[str, Any]
FAILED = 'spark_streaming_query_status{status="failed"} == 1'
RULES = f"""
groups:
  - name: lifecycle
    interval: 1s
    rules:
      - alert: QueryFailed
        expr: {FAILED}
        labels: {{severity: critical}}
        annotations: {{summary: "{{{{ $labels.query }}}} has failed", runbook_url: "https://runbooks.example/1"}}
      - alert: NoProgress
        expr: {FAILED}
        labels: {{severity: warning}}
      - alert: FailedForLong
        expr: {FAILED}
        for: 1h
      - record: failed:count
        expr: count({FAILED})
      - alert: Broken
        expr: spark_streaming_query_up * on () failed:count > on (app) spark_streaming_query_up
"""
NOTIFY = """
route:
  receiver: everybody
  group_by: [app, alertname]
  group_wait: 0s
  routes:
    - matchers: ['severity="critical"', 'app=~"or.*"']
      receiver: pager
      continue: true
    - matchers: ['team!="x"']
      receiver: team-a
receivers:
  - name: everybody
  - name: team-a
  - name: pager
    webhook_configs:
      - url: http://user:hunter2@127.0.0.1:1/hooks/hunter2
        max_alerts: 5
        http_config: {authorization: {credentials: hunter2}}
inhibit_rules:
  - source_matchers: ['alertname="QueryFailed"']
    target_matchers: ['alertname="NoProgress"']
    equal: [app, query_id]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """With rules and receivers of its own, looking every second."""
    folder = Path(tmp_path_factory.mktemp("alerting"))
    (folder / "rules.yaml").write_text(RULES)
    (folder / "notify.yaml").write_text(NOTIFY)
    changes = {"rules": (str(folder / "rules.yaml"),), "notify": folder / "notify.yaml", "series_step": 1.0}
    with live_server(folder / "data", **changes) as running:
        yield running


@pytest.fixture
def failed(agent: SimulatedAgent) -> SimulatedQuery:
    """A query that has failed."""
    query = SimulatedQuery(f"q-{uuid.uuid4().hex[:6]}")
    agent.start(query)
    agent.send(agent.progress(query))
    agent.terminated(query, "java.lang.OutOfMemoryError: Java heap space", "STREAM_FAILED")
    return query


@pytest.fixture
def operator(server: LiveServer) -> Iterator[httpx.Client]:
    with server.client(server.token(Role.OPERATOR, may_impersonate=True)) as client:
        yield client


def alerts_of(client: httpx.Client, query: SimulatedQuery, **asked: Any) -> list[Json]:
    answer = client.get("/api/v1/alerts", params={"query_id": query.query_id, **asked})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["alerts"])


def firing(client: httpx.Client, query: SimulatedQuery, name: str = "QueryFailed") -> Json:
    """The alert of this name, once it fires for this query."""

    def current() -> Json | None:
        found = alerts_of(client, query, state="firing")
        return next((alert for alert in found if alert["name"] == name), None)

    alert = eventually(current)
    assert alert, alerts_of(client, query)
    return dict(alert)


def add_silence(client: httpx.Client, **asked: Any) -> Json:
    answer = client.post("/api/v1/silences", json={"duration_seconds": 3600, **asked})
    assert answer.status_code == 201, answer.text
    return dict(answer.json()["silence"])


# -- alerts ----------------------------------------------------------------------------------------


def test_the_alert_of_a_failed_query_has_its_labels_reason_and_receivers(
    admin: httpx.Client, failed: SimulatedQuery
) -> None:
    alert = firing(admin, failed)
    assert len(alert["fingerprint"]) == 16
    assert (alert["app"], alert["query"], alert["query_id"]) == ("orders", failed.name, failed.query_id)
    assert (alert["severity"], alert["group"], alert["rule"]) == ("critical", "lifecycle", "QueryFailed")
    assert alert["annotations"]["summary"] == f"{failed.name} has failed"
    assert alert["labels"]["alertname"] == "QueryFailed"
    assert alert["reason"] == "the condition holds"
    assert alert["value"] == 1.0
    assert alert["fired_at"] >= alert["active_at"]
    assert (alert["resolved_at"], alert["acknowledged"], alert["silenced_by"]) == (None, None, [])
    assert alert["receivers"] == ["pager", "team-a"]


def test_alerts_are_sorted_counted_and_selected(admin: httpx.Client, failed: SimulatedQuery) -> None:
    firing(admin, failed, "NoProgress")
    answer = admin.get("/api/v1/alerts", params={"query_id": failed.query_id}).json()
    mine = [(alert["state"], alert["name"]) for alert in answer["alerts"]]
    assert mine == [("firing", "QueryFailed"), ("firing", "NoProgress"), ("pending", "FailedForLong")]
    assert answer["counts"] == {"firing": 2, "pending": 1, "silenced": 0, "inhibited": 1, "acknowledged": 0}
    assert answer["as_of"].endswith("Z")
    pending = alerts_of(admin, failed, state=["pending", "resolved"])
    assert [alert["name"] for alert in pending] == ["FailedForLong"]
    chosen = alerts_of(admin, failed, label='alertname=~"No.*",app="orders"')
    assert [alert["name"] for alert in chosen] == ["NoProgress"]


def test_an_alert_that_follows_from_another_names_it(admin: httpx.Client, failed: SimulatedQuery) -> None:
    cause, alert = firing(admin, failed), firing(admin, failed, "NoProgress")
    assert alert["inhibited_by"] == [{"fingerprint": cause["fingerprint"], "name": "QueryFailed"}]


def test_an_alert_comes_with_its_notifications(admin: httpx.Client, failed: SimulatedQuery) -> None:
    fingerprint = firing(admin, failed)["fingerprint"]

    def reported() -> list[Json]:
        return list(admin.get(f"/api/v1/alerts/{fingerprint}").json()["notifications"])

    assert eventually(lambda: any(note["receiver"].startswith("pager") for note in reported())), reported()
    note = next(note for note in reported() if note["receiver"].startswith("pager"))
    assert note["outcome"] == "failed"
    assert "hunter2" not in note["reason"]
    receivers = admin.get("/api/v1/receivers").json()
    assert receivers["problem"]["summary"].startswith("The last delivery to pager/webhook[0] failed: ")
    assert "hunter2" not in str(receivers)
    pager = next(receiver for receiver in receivers["receivers"] if receiver["name"] == "pager")
    assert pager["routed"] and pager["integrations"][0]["failing_since"]
    assert fingerprint in note["fingerprints"]
    assert note["alerts"] == len(note["fingerprints"])
    listed = admin.get("/api/v1/notifications", params={"fingerprint": fingerprint, "limit": 1}).json()
    assert len(listed["notifications"]) == 1


def test_a_trial_notification_reports_the_outcome_of_each_integration(admin: httpx.Client) -> None:
    answer = admin.post("/api/v1/receivers/try", json={"receiver": "pager"})
    assert answer.status_code == 200
    (result,) = answer.json()["integrations"]
    assert (result["name"], result["delivered"]) == ("pager/webhook[0]", False)
    assert result["error"] and "hunter2" not in result["error"]
    assert admin.post("/api/v1/receivers/try", json={"receiver": "nosuch"}).status_code == 404


def test_an_alert_ends_and_stays_in_the_history(
    admin: httpx.Client, agent: SimulatedAgent, failed: SimulatedQuery
) -> None:
    alert = firing(admin, failed)
    failed.run_id = str(uuid.uuid4())
    agent.start(failed)
    agent.send(agent.progress(failed))
    over = eventually(lambda: alerts_of(admin, failed, state="resolved", label="alertname=QueryFailed"))
    assert over[0]["fingerprint"] == alert["fingerprint"]
    assert over[0]["resolved_at"] > alert["fired_at"]
    past = admin.get("/api/v1/alerts/history", params={"query_id": failed.query_id}).json()["alerts"]
    assert {item["name"] for item in past} == {"QueryFailed", "NoProgress"}
    assert past[0]["fired_at"] >= past[-1]["fired_at"]
    never = {"query_id": failed.query_id, "start": "2001-01-01T00:00:00Z", "end": "2002-01-01T00:00:00Z"}
    assert admin.get("/api/v1/alerts/history", params=never).json()["alerts"] == []


def test_an_alert_is_acknowledged(
    server: LiveServer, operator: httpx.Client, agent: SimulatedAgent, failed: SimulatedQuery
) -> None:
    alert = firing(operator, failed)
    path = f"/api/v1/alerts/{alert['fingerprint']}/acknowledge"
    result = operator.post(path, json={"comment": "on it", "actor": "ada"})
    assert result.status_code == 200
    assert result.json()["alert"]["acknowledged"]["by"] == "ada"
    shown = firing(operator, failed)["acknowledged"]
    assert (shown["by"], shown["comment"]) == ("ada", "on it")
    pending = alerts_of(operator, failed, state="pending")[0]["fingerprint"]
    early = operator.post(f"/api/v1/alerts/{pending}/acknowledge", json={})
    assert (early.status_code, early.json()["error"]["code"]) == (409, "not_firing")
    unknown = operator.post("/api/v1/alerts/0000000000000000/acknowledge", json={})
    assert unknown.status_code == 404


def test_the_fleet_counts_the_alerts_of_a_query_that_are_not_muted(
    admin: httpx.Client, failed: SimulatedQuery
) -> None:
    firing(admin, failed, "NoProgress")

    def row() -> Json:
        rows = admin.get("/api/v1/queries").json()["queries"]
        return dict(next(row for row in rows if row["query_id"] == failed.query_id))

    assert eventually(lambda: row()["alerts"] == 1), row()["alerts"]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/alerts?state=unwell", "state"),
        ("/api/v1/alerts?query_id=x", "query_id"),
        ("/api/v1/alerts?label=a%3D~%22(%22", "label"),
        ("/api/v1/alerts/history?start=yesterday", "start"),
        ("/api/v1/alerts/history?start=2026-01-02T00:00:00Z&end=2026-01-01T00:00:00Z", "start must not"),
        ("/api/v1/alerts/history?limit=0", "limit"),
        ("/api/v1/alerts/nonsense", "fingerprint"),
        ("/api/v1/alerts/0123456789abcdef", "there is no alert"),
        ("/api/v1/notifications?limit=many", "limit"),
        ("/api/v1/silences?active=perhaps", "active"),
    ],
)
def test_an_invalid_request_is_refused_with_a_message(admin: httpx.Client, path: str, expected: str) -> None:
    answer = admin.get(path)
    assert answer.status_code in (400, 404, 422)
    assert expected in answer.json()["error"]["message"]


# -- silences --------------------------------------------------------------------------------------


def test_a_silence_covers_alerts_until_it_is_ended(operator: httpx.Client, failed: SimulatedQuery) -> None:
    alert = firing(operator, failed)
    asked = [f'query_id="{failed.query_id}"', "alertname=QueryFailed"]
    made = add_silence(operator, matchers=asked, comment="planned", actor="ada")
    assert (made["state"], made["alerts"], made["created_by"]) == ("active", 1, "ada")
    assert made["text"] == f'{{alertname="QueryFailed",query_id="{failed.query_id}"}}'
    assert made["matchers"][1] == {"name": "alertname", "operator": "=", "value": "QueryFailed"}
    assert firing(operator, failed)["silenced_by"] == [made["id"]]
    counts = operator.get("/api/v1/alerts", params={"query_id": failed.query_id}).json()["counts"]
    assert counts["silenced"] == 1
    for _ in range(2):
        ended = operator.delete(f"/api/v1/silences/{made['id']}")
        assert (ended.status_code, ended.json()["silence"]["state"]) == (200, "expired")
    assert ended.json()["silence"]["alerts"] == 0
    assert firing(operator, failed)["silenced_by"] == []
    listed = operator.get("/api/v1/silences").json()["silences"]
    assert made["id"] in [item["id"] for item in listed]
    active = operator.get("/api/v1/silences", params={"active": True}).json()["silences"]
    assert made["id"] not in [item["id"] for item in active]
    assert operator.get(f"/api/v1/alerts/{alert['fingerprint']}").json()["alert"]["silenced_by"] == []


def test_a_silence_may_begin_later(operator: httpx.Client) -> None:
    now = time.time()
    times = {"starts_at": stamp(now + 3600), "ends_at": now + 7200, "duration_seconds": None}
    made = add_silence(operator, matchers='{app="later"}', **times)
    assert (made["state"], made["starts_at"]) == ("pending", stamp(now + 3600))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"matchers": ""}, "at least one matcher"),
        ({"matchers": []}, "at least one matcher"),
        ({"matchers": 'app=~".*"'}, "all alerts would be silenced"),
        ({"matchers": 'app=~"("'}, "matchers: the pattern of app"),
        ({"matchers": "app"}, "matchers: expected one of"),
        ({"matchers": ["a=b"] * 101}, "at most 100 matchers"),
        ({"matchers": "a=b", "duration_seconds": None}, "either ends_at or duration_seconds"),
        ({"matchers": "a=b", "ends_at": 4e9}, "either ends_at or duration_seconds"),
        ({"matchers": "a=b", "duration_seconds": None, "ends_at": "soon"}, "ends_at"),
        ({"matchers": "a=b", "duration_seconds": None, "ends_at": 1.0}, "must end after it starts"),
        ({"matchers": "a=b", "starts_at": 253402300799.0}, "duration_seconds: time is outside"),
        ({"matchers": "a=b", "duration_seconds": -1}, "duration_seconds"),
        ({"matchers": "a=b", "duration_seconds": "1h"}, "duration_seconds"),
        ({"matchers": 7}, "matchers"),
        ({"matchers": "a=b", "why": "x"}, "why"),
        ({}, "matchers"),
    ],
)
def test_a_silence_that_cannot_be_is_refused_with_what_to_change(
    operator: httpx.Client, asked: Json, expected: str
) -> None:
    answer = operator.post("/api/v1/silences", json={"duration_seconds": 60, **asked})
    assert answer.status_code in (400, 422)
    assert expected in answer.json()["error"]["message"]


def test_a_silence_that_is_not_there_cannot_be_ended(operator: httpx.Client) -> None:
    assert operator.delete(f"/api/v1/silences/{uuid.uuid4()}").status_code == 404
    assert operator.delete("/api/v1/silences/nonsense").status_code == 422


# -- rules -----------------------------------------------------------------------------------------


def test_rules_are_shown_with_how_they_fare(
    server: LiveServer, admin: httpx.Client, agent: SimulatedAgent, failed: SimulatedQuery
) -> None:
    firing(admin, failed)

    def group() -> Json:
        answer = admin.get("/api/v1/rules").json()
        assert answer["as_of"]
        return dict(answer["groups"][0])

    assert eventually(lambda: group()["rules"][4]["health"] != "unknown")
    shown, rules = group(), {rule["name"]: rule for rule in group()["rules"]}
    assert (shown["name"], shown["interval_seconds"]) == ("lifecycle", 1.0)
    assert shown["file"] == server.plane.settings.rules[0]
    assert shown["key"] == f"{shown['file']};lifecycle"
    assert shown["evaluated_at"]
    first = rules["QueryFailed"]
    assert (first["kind"], first["expr"], first["line"]) == ("alert", FAILED, 6)
    assert (first["state"], first["health"], first["error"]) == ("firing", "ok", None)
    assert first["firing"] >= 1
    waits = rules["FailedForLong"]
    assert (waits["state"], waits["for_seconds"], waits["firing"]) == ("pending", 3600.0, 0)
    assert (rules["failed:count"]["kind"], rules["failed:count"]["state"]) == ("record", "inactive")


def test_a_replay_returns_the_episodes_of_each_rule(operator: httpx.Client, failed: SimulatedQuery) -> None:
    firing(operator, failed)
    rules = {"groups": [{"name": "g", "rules": [{"alert": "Now", "expr": "vector(1) > 0"}]}]}
    now = time.time()
    asked = {"rules": json.dumps(rules), "start": now - 600, "end": now}
    answer = operator.post("/api/v1/rules/replay", json=asked)
    assert answer.status_code == 200, answer.text
    reported = answer.json()
    [episode] = reported["episodes"]
    assert (episode["name"], episode["resolved_at"]) == ("Now", None)
    assert (reported["evaluations"], reported["errors"], reported["notes"]) == (40, [], [])
    assert reported["until"] == stamp(now)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"rules": "groups: [{name: g, rules: [{alert: A, expr: 'a +'}]}]"}, "line 1, column"),
        ({"rules": ""}, "start must be before end"),
        ({"rules": "", "start": "soon"}, "start"),
        ({"rules": 1}, "rules"),
        ({}, "rules"),
    ],
)
def test_a_replay_that_makes_no_sense_is_refused(operator: httpx.Client, asked: Json, expected: str) -> None:
    answer = operator.post("/api/v1/rules/replay", json={"start": 2000.0, "end": 1000.0, **asked})
    assert answer.status_code in (400, 422)
    assert expected in answer.json()["error"]["message"]


def test_one_replay_at_a_time(server: LiveServer, operator: httpx.Client) -> None:
    app: Any = server.server.config.loaded_app
    while not hasattr(app, "state"):
        app = app.app
    with app.state.replaying:
        answer = operator.post("/api/v1/rules/replay", json={"rules": "", "start": 1000.0})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "busy")


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/alerts/0123456789abcdef/acknowledge",
        "/api/v1/silences",
        "/api/v1/rules/replay",
        "/alertmanager/api/v2/silences",
    ],
)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"null",
        b"\xff\xfe",
        b"[" * 5000,
        b'{"matchers": {}, "rules": [], "comment": 7}',
    ],
)
def test_a_body_that_is_none_is_refused(operator: httpx.Client, path: str, body: bytes) -> None:
    answer = operator.post(path, content=body)
    assert answer.status_code in (400, 422)
    reported = answer.json()
    assert reported if path.startswith("/alertmanager") else reported["error"]["message"]


def test_strange_texts_come_back_whole(operator: httpx.Client) -> None:
    strange = 'a"\\\u202e<script>{{ }} 漢字 \ud83d'
    asked = {"matchers": ['app="x\\"y\\\\z"'], "duration_seconds": 60, "comment": strange, "actor": strange}
    answer = operator.post("/api/v1/silences", content=json.dumps(asked))
    assert answer.status_code == 201, answer.text
    made = answer.json()["silence"]
    assert made["comment"] == made["created_by"] == strange.replace("\ud83d", "\ufffd")
    assert made["matchers"] == [{"name": "app", "operator": "=", "value": 'x"y\\z'}]
    shown = operator.get(f"/alertmanager/api/v2/silence/{made['id']}").json()
    assert shown["comment"] == made["comment"]


# -- Alertmanager's API ----------------------------------------------------------------------------

V2 = "/alertmanager/api/v2"


def test_alerts_have_alertmanagers_shape(admin: httpx.Client, failed: SimulatedQuery) -> None:
    ours, muted = firing(admin, failed), firing(admin, failed, "NoProgress")
    asked = {"filter": [f'query_id="{failed.query_id}"']}
    found = {alert["labels"]["alertname"]: alert for alert in admin.get(f"{V2}/alerts", params=asked).json()}
    assert set(found) == {"QueryFailed", "NoProgress"}
    alert = found["QueryFailed"]
    assert alert["fingerprint"] == ours["fingerprint"]
    assert alert["startsAt"] == ours["fired_at"]
    assert alert["endsAt"] > alert["updatedAt"]
    assert alert["receivers"] == [{"name": "pager"}, {"name": "team-a"}]
    assert alert["status"] == {"state": "active", "silencedBy": [], "inhibitedBy": [], "mutedBy": []}
    assert alert["generatorURL"].endswith(f"/alerts?alert={ours['fingerprint']}")
    status = found["NoProgress"]["status"]
    assert (status["state"], status["inhibitedBy"]) == ("suppressed", [ours["fingerprint"]])
    assert muted["fingerprint"] == found["NoProgress"]["fingerprint"]


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({}, {"QueryFailed", "NoProgress"}),
        ({"inhibited": "false"}, {"QueryFailed"}),
        ({"active": "false"}, {"NoProgress"}),
        ({"active": "false", "inhibited": "false"}, set()),
        ({"silenced": "false"}, {"QueryFailed", "NoProgress"}),
        ({"receiver": "pag.*"}, {"QueryFailed"}),
        ({"receiver": "nobody"}, set()),
    ],
)
@pytest.mark.parametrize("path", ["alerts", "alerts/groups"])
def test_alerts_and_groups_are_selected_by_alertmanagers_parameters(
    admin: httpx.Client, failed: SimulatedQuery, path: str, asked: Json, names: set[str]
) -> None:
    firing(admin, failed, "NoProgress")
    both = {**asked, "filter": [f"query_id={failed.query_id}", 'app="orders"']}

    def shown() -> set[str]:
        found = admin.get(f"{V2}/{path}", params=both).json()
        inside = found if path == "alerts" else [alert for group in found for alert in group["alerts"]]
        return {alert["labels"]["alertname"] for alert in inside}

    assert eventually(lambda: shown() == names), shown()


def test_groups_name_their_labels_and_their_receiver(admin: httpx.Client, failed: SimulatedQuery) -> None:
    fingerprint = firing(admin, failed)["fingerprint"]

    def mine() -> list[Json]:
        groups = admin.get(f"{V2}/alerts/groups").json()
        return [g for g in groups if fingerprint in [alert["fingerprint"] for alert in g["alerts"]]]

    assert eventually(lambda: len(mine()) == 2)
    assert [group["receiver"]["name"] for group in mine()] == ["pager", "team-a"]
    assert mine()[0]["labels"] == {"app": "orders", "alertname": "QueryFailed"}


def test_silences_are_made_changed_and_ended_as_in_alertmanager(operator: httpx.Client) -> None:
    now = time.time()
    matcher = {"name": "app", "value": "a|b", "isRegex": True, "isEqual": False}
    posted = {
        "matchers": [matcher, {"name": "team", "value": "x", "isRegex": False}],
        "startsAt": stamp(now - 60),
        "endsAt": stamp(now + 600),
        "createdBy": "ada",
        "comment": "c",
    }
    made = operator.post(f"{V2}/silences", json=posted).json()["silenceID"]
    shown = operator.get(f"{V2}/silence/{made}").json()
    assert shown["matchers"] == [matcher, {"name": "team", "value": "x", "isRegex": False, "isEqual": True}]
    assert (shown["status"], shown["createdBy"]) == ({"state": "active"}, "ada")
    longer = {**shown, "endsAt": stamp(now + 1200)}
    assert operator.post(f"{V2}/silences", json=longer).json() == {"silenceID": made}
    other = {**longer, "matchers": [{"name": "team", "value": "y", "isRegex": False}]}
    instead = operator.post(f"{V2}/silences", json=other).json()["silenceID"]
    assert instead != made
    states = {item["id"]: item["status"]["state"] for item in operator.get(f"{V2}/silences").json()}
    assert (states[made], states[instead]) == ("expired", "active")
    found = operator.get(f"{V2}/silences", params={"filter": ['team="y"']}).json()
    assert [item["id"] for item in found] == [instead]
    ended = operator.delete(f"{V2}/silence/{instead}")
    assert (ended.status_code, ended.content) == (200, b"")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "expected"),
    [
        ("GET", "alerts?filter=a", None, 400, "filter: "),
        ("GET", "alerts?receiver=(", None, 400, "receiver: "),
        ("GET", "alerts?active=perhaps", None, 400, "active"),
        ("GET", "alerts/groups?filter=%7B", None, 400, "filter: "),
        ("GET", "silences?filter=a", None, 400, "filter: "),
        ("GET", "silence/nonsense", None, 400, "silence_id"),
        ("GET", f"silence/{uuid.UUID(int=1)}", None, 404, "there is no silence"),
        ("DELETE", f"silence/{uuid.UUID(int=1)}", None, 404, "there is no silence"),
        ("POST", "silences", {}, 400, "matchers"),
        ("POST", "silences", [], 400, "valid dictionary"),
        ("POST", "alerts", {"labels": {"alertname": "x"}}, 400, "a list of alerts"),
        ("POST", "alerts", [{"labels": {"alertname": ""}}], 400, "alert 0: at least one label"),
        ("POST", "alerts", [{"annotations": {"a": "b"}}], 400, "alert 0: labels: Field required"),
        ("POST", "alerts", [{"labels": {"a": "b"}, "startsAt": "soon"}], 400, "alert 0: startsAt: "),
    ],
)
def test_a_no_is_a_json_text(
    operator: httpx.Client, method: str, path: str, body: Any, status: int, expected: str
) -> None:
    answer = operator.request(method, f"{V2}/{path}", json=body)
    assert answer.status_code == status
    assert isinstance(answer.json(), str)
    assert expected in answer.json()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"endsAt": "2001-01-01T00:00:00Z"}, "end"),
        ({"endsAt": "soon"}, "endsAt"),
        ({"matchers": [{"name": "a", "value": "", "isRegex": False}]}, "at least one matcher"),
        ({"matchers": [{"name": "a", "value": "(", "isRegex": True}]}, "the pattern of a"),
        ({"matchers": [{"name": "a b", "value": "x", "isRegex": False}]}, "name"),
        ({"createdBy": ""}, "a silence needs a creator"),
        ({"id": str(uuid.UUID(int=1))}, "there is no silence"),
    ],
)
def test_a_silence_that_alertmanager_would_not_take_is_not_taken(
    operator: httpx.Client, change: Json, expected: str
) -> None:
    posted = {
        "matchers": [{"name": "a", "value": "x", "isRegex": False}],
        "startsAt": stamp(time.time()),
        "endsAt": stamp(time.time() + 60),
        "createdBy": "ada",
        "comment": "",
    }
    answer = operator.post(f"{V2}/silences", json={**posted, **change})
    assert answer.status_code in (400, 404)
    assert expected in answer.json()


def test_the_configuration_is_shown_without_secrets_and_can_be_read_back(admin: httpx.Client) -> None:
    status = admin.get(f"{V2}/status").json()
    original = status["config"]["original"]
    assert "hunter2" not in original
    config, mistakes = load_config(original)
    assert mistakes == ()
    assert config is not None
    wanted, _ = load_config(NOTIFY)
    assert wanted is not None
    assert config.route == wanted.route
    assert config.inhibit_rules == wanted.inhibit_rules
    assert list(config.receivers) == [item["name"] for item in admin.get(f"{V2}/receivers").json()]
    assert status["cluster"]["status"] == "disabled"
    reported = admin.get("/alertmanager/metrics").text
    assert f'alertmanager_build_info{{version="{status["versionInfo"]["version"]}"}} 1\n' in reported


def test_unauthorized_requests_get_errors_in_the_format_of_the_api(server: LiveServer) -> None:
    with server.client(server.token(Role.VIEWER)) as viewer:
        refused = viewer.post(f"{V2}/silences", json={})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")


# -- amtool ----------------------------------------------------------------------------------------

Amtool = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def amtool(server: LiveServer, tmp_path: Path) -> Amtool:
    """`amtool …` with an operator's token."""
    secret = tmp_path / "token"
    secret.write_text(server.token(Role.OPERATOR))
    http = tmp_path / "http.yaml"
    http.write_text(f"authorization: {{credentials_file: {secret}}}\n")

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        where = (f"--alertmanager.url={server.url}/alertmanager", f"--http.config.file={http}")
        return peer("amtool", "prometheus-alertmanager", *where, *arguments)

    return call


def done(answer: subprocess.CompletedProcess[str]) -> str:
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def test_amtool_lists_alerts(admin: httpx.Client, amtool: Amtool, failed: SimulatedQuery) -> None:
    fingerprint = firing(admin, failed)["fingerprint"]
    firing(admin, failed, "NoProgress")
    mine = f"query_id={failed.query_id}"
    active = json.loads(done(amtool("alert", "query", "-o", "json", mine)))
    assert [alert["fingerprint"] for alert in active] == [fingerprint]
    both = json.loads(done(amtool("alert", "query", "-o", "json", "-a", "-i", mine)))
    assert {alert["labels"]["alertname"] for alert in both} == {"QueryFailed", "NoProgress"}
    assert "has failed" in done(amtool("alert", "query", "QueryFailed", mine))
    assert done(amtool("alert", "query", "-o", "json", "-r", "nobody")).strip() == "[]"


def test_amtool_silences_and_ends_it(admin: httpx.Client, amtool: Amtool, failed: SimulatedQuery) -> None:
    firing(admin, failed)
    mine = f"query_id={failed.query_id}"
    made = done(amtool("silence", "add", "-d", "2h", "-a", "ada", "-c", "planned", mine, "alertname=~Q.*"))
    silence = made.strip()
    assert firing(admin, failed)["silenced_by"] == [silence]
    assert silence in done(amtool("silence", "query", "-q", mine))
    ends = {item["id"]: item["ends_at"] for item in admin.get("/api/v1/silences").json()["silences"]}
    assert silence in done(amtool("silence", "update", "-d", "4h", silence))
    after = {item["id"]: item["ends_at"] for item in admin.get("/api/v1/silences").json()["silences"]}
    assert after.keys() == ends.keys()
    assert after[silence] > ends[silence]
    silenced = json.loads(done(amtool("alert", "query", "-o", "json", "-s", mine)))
    assert silenced[0]["status"]["silencedBy"] == [silence]
    done(amtool("silence", "expire", silence))
    assert firing(admin, failed)["silenced_by"] == []
    assert silence not in done(amtool("silence", "query", "-q", mine))
    assert silence in done(amtool("silence", "query", "-q", "--expired", mine))


def test_amtool_shows_and_tests_the_routes(amtool: Amtool) -> None:
    assert "receiver: everybody" in done(amtool("config", "show"))
    tested = done(amtool("config", "routes", "test", "severity=critical", "app=orders", "team=y"))
    assert tested.strip() == "pager,team-a"
    assert "pager" in done(amtool("config", "routes", "show"))


def test_amtool_shows_the_message_of_an_error(amtool: Amtool) -> None:
    refused = amtool("silence", "add", "-d", "1h", "-a", "ada", "-c", "x", "app=~.*")
    assert refused.returncode != 0
    assert "all alerts would be silenced" in refused.stdout + refused.stderr


def test_every_alert_that_ships_has_a_runbook_and_nothing_else_is_read(admin: httpx.Client) -> None:
    page = admin.get("/api/v1/runbooks/LagGrowing")
    assert page.status_code == 200
    assert page.json()["text"].startswith("# LagGrowing")
    for strange in ("Nothing", "..%2F..%2Fpack", "LagGrowing.md", "a" * 80):
        assert admin.get(f"/api/v1/runbooks/{strange}").status_code in (404, 422)
