"""Invalid input: each bad line gets an error, its neighbors are stored, and no request gets a 500."""

from __future__ import annotations

import gzip
import json
import os
import socket
import tracemalloc
import uuid
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.acceptance.live import LiveServer, eventually
from tests.acceptance.simulated import SimulatedAgent, SimulatedQuery

Json = dict[str, Any]
#: An id that nothing has; the same in each process that collects these tests.
UNKNOWN_ID = "b5a2a1f6-0f0e-4a53-9a2d-3c55c0ffee00"
MIB = 1024 * 1024
EVENTS = "/api/v1/events"


def changed(driver: SimulatedAgent, **changes: Any) -> bytes:
    """A good heartbeat with some fields replaced; None takes a field away."""
    document = json.loads(driver.line("heartbeat", {"uptime": 1}))
    document.update(changes)
    return json.dumps({k: v for k, v in document.items() if v is not ...}).encode()


def bad_lines(agent: SimulatedAgent) -> list[tuple[str, bytes]]:
    return [
        ("not JSON", b"{no json"),
        ("half a line", agent.line("heartbeat", {})[:-20]),
        ("not UTF-8", b'{"v":1,"agent":"\xff\xfe"}'),
        ("binary", os.urandom(64).replace(b"\n", b"x")),
        ("an array", b"[1,2]"),
        ("a number", b"42"),
        ("null", b"null"),
        ("a string", b'"progress"'),
        ("nested too deep", b'{"v":1,"data":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        ("another version", changed(agent, v=2)),
        ("no version", changed(agent, v=...)),
        ("agent is no UUID", changed(agent, agent="me")),
        ("agent is a number", changed(agent, agent=5)),
        ("seq is text", changed(agent, seq="1")),
        ("seq is zero", changed(agent, seq=0)),
        ("seq is true", changed(agent, seq=True)),
        ("seq is too large", changed(agent, seq=2**63)),
        ("seq has a fraction", changed(agent, seq=1.5)),
        ("a number of 5 000 digits", b'{"v":1,"seq":' + b"9" * 5000 + b"}"),
        ("no time", changed(agent, at=...)),
        ("time is a word", changed(agent, at="yesterday")),
        ("time is NaN", changed(agent, at=float("nan"))),
        ("time beyond the calendar", changed(agent, at=1e300)),
        ("no app", changed(agent, app=...)),
        ("app is text", changed(agent, app="orders")),
        ("app without a name", changed(agent, app={})),
        ("app's name is too long", changed(agent, app={"name": "x" * 300})),
        ("no type", changed(agent, type=...)),
        ("data is a list", changed(agent, data=[])),
        ("no data", changed(agent, data=...)),
        ("labels are a list", changed(agent, labels=["a"])),
        ("too many labels", changed(agent, labels={f"l{i}": "x" for i in range(11)})),
        ("a label that is no name", changed(agent, labels={"a-b": "x"})),
        ("a label that is a number", changed(agent, labels={"a": 1})),
        ("progress without ids", agent.line("progress", {"batchId": 1})),
        ("progress of text", agent.line("progress", {"id": ["x"], "runId": {}, "batchId": "1"})),
        ("a line of 10 MB", agent.line("heartbeat", {"pad": "x" * 10_000_000})),
    ]


def test_each_bad_line_is_named_and_its_neighbours_are_stored(agent: SimulatedAgent) -> None:
    cases = bad_lines(agent)
    lines, places = [agent.line("heartbeat", {"uptime": 0})], {}
    for name, line in cases:
        places[len(lines) + 1] = name
        lines += [line, agent.line("heartbeat", {"uptime": 1})]
    answer = agent.post(*lines)
    assert {r["line"] for r in answer["rejected"]} == set(places), _differences(answer, places)
    assert answer["stored"] == len(cases) + 1
    assert all(
        r["error"] and len(r["error"]) < 600 and "Traceback" not in r["error"] for r in answer["rejected"]
    )


def _differences(answer: Json, places: dict[int, str]) -> str:
    rejected = {r["line"]: r["error"] for r in answer["rejected"]}
    missing = [name for line, name in places.items() if line not in rejected]
    return f"taken: {missing}; refused: {[(n, e) for n, e in rejected.items() if n not in places]}"


def test_what_is_strange_but_harmless_is_taken(
    server: LiveServer, agent: SimulatedAgent, admin: httpx.Client
) -> None:
    query = SimulatedQuery(None)
    agent.start(query)
    strange = [
        agent.line("of_a_newer_agent", {"anything": [1, {"x": None}]}),
        agent.line(
            *agent.progress(query, inputRowsPerSecond=float("nan"), processedRowsPerSecond=float("inf"))
        ),
        agent.line(*agent.progress(query, name="\ud800 half a pair", newField={"deep": [1]})),
        agent.line(*agent.progress(query, sources=[], sink={"description": "x", "numOutputRows": -1})),
        agent.line(*agent.progress(query, sources="none", stateOperators=5, durationMs=None, sink=[])),
        b"",
        b"   ",
    ]
    answer = agent.post(*strange)
    assert (answer["stored"], answer["rejected"]) == (5, [])
    path = f"/api/v1/queries/{query.query_id}"
    for suffix in ("", "/progress", "/runs", "/events?limit=1000"):
        assert admin.get(path + suffix).status_code == 200, suffix
    assert admin.get("/api/v1/queries").status_code == 200
    assert admin.get("/metrics").status_code == 200


@pytest.mark.parametrize(
    ("headers", "body", "status", "code"),
    [
        ({"Content-Encoding": "gzip"}, b"not gzip at all", 400, "bad_gzip"),
        ({"Content-Encoding": "gzip"}, gzip.compress(b"{}" * 500, mtime=0)[:-4], 400, "bad_gzip"),
        ({"Content-Encoding": "br"}, b"{}", 400, "unsupported_encoding"),
        ({"Content-Encoding": "gzip, gzip"}, b"{}", 400, "unsupported_encoding"),
        ({"X-Sent-At": "now"}, b"", 400, "bad_request"),
        ({"X-Sent-At": "nan"}, b"", 400, "bad_request"),
        ({"X-Sent-At": "1e400"}, b"", 400, "bad_request"),
        ({"Content-Encoding": "gzip"}, gzip.compress(b"\n" * (65 * MIB), 1, mtime=0), 413, "body_too_large"),
        ({}, b"\n" * 200_000, 413, "body_too_large"),
        ({}, b"x" * (17 * MIB), 413, "body_too_large"),
    ],
)
def test_a_bad_body_is_refused_as_a_whole(
    agent: SimulatedAgent, headers: dict[str, str], body: bytes, status: int, code: str
) -> None:
    answer = agent.http.post(EVENTS, content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "kind", ["application/json", "text/plain", "multipart/form-data; boundary=x", "nonsense", ""]
)
def test_the_content_type_does_not_matter_for_lines(agent: SimulatedAgent, kind: str) -> None:
    answer = agent.http.post(EVENTS, content=agent.line("heartbeat", {}), headers={"Content-Type": kind})
    assert answer.json()["stored"] == 1


def test_no_body_is_no_events(agent: SimulatedAgent) -> None:
    assert agent.http.post(EVENTS).json() == {"acknowledged": 0, "stored": 0, "duplicates": 0, "rejected": []}


def test_a_gzip_bomb_costs_no_memory(server: LiveServer, agent: SimulatedAgent) -> None:
    bomb = gzip.compress(b"\0" * (128 * MIB), 1)
    tracemalloc.start()
    try:
        answer = agent.http.post(EVENTS, content=bomb, headers={"Content-Encoding": "gzip"})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer.status_code == 413
    assert peak < 150 * MIB
    assert agent.begin()["stored"] == 1


def test_a_giant_that_never_ends_is_cut_off(server: LiveServer, agent: SimulatedAgent) -> None:
    def endless() -> Any:
        for _ in range(40):
            yield b"x" * MIB

    answer = agent.http.post(EVENTS, content=endless())
    assert answer.status_code == 413


def test_bodies_share_one_budget(server: LiveServer, agent: SimulatedAgent) -> None:
    budget = server.server.config.loaded_app.state.budget
    assert eventually(lambda: budget.held == 0)  # what other tests sent is let go after their answers
    budget.take(160 * MIB - 10)
    try:
        answer = agent.http.post(EVENTS, content=agent.line("heartbeat", {}))
    finally:
        budget.give(160 * MIB - 10)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "overloaded")
    assert answer.headers["Retry-After"]
    assert agent.http.post(EVENTS, content=agent.line("heartbeat", {})).status_code == 200


ACTION_BODIES: list[tuple[Any, int]] = [
    (b"", 400),
    (b"{no json", 400),
    (b"\xff", 400),
    (b"[" * 100_000, 400),
    (b"null", 422),
    (b"[]", 422),
    ({}, 422),
    ({"action": "explode"}, 422),
    ({"action": 5}, 422),
    ({"action": "stop", "drain": "yes"}, 422),
    ({"action": "stop", "overrides": []}, 422),
    ({"action": "stop", "overrides": {str(i): i for i in range(200)}}, 422),
    ({"action": "stop", "overrides": {"parameters": json.loads("[" * 300 + "]" * 300)}}, 422),
    ({"action": "stop", "reason": "x" * 5000}, 422),
    ({"action": "stop", "reason": 5}, 422),
    ({"action": "stop", "actor": ""}, 422),
    ({"action": "stop", "surprise": 1}, 422),
    (b'{"action":"stop","reason":"' + b"x" * 300_000 + b'"}', 413),
]


@pytest.mark.parametrize(("body", "status"), ACTION_BODIES)
def test_a_bad_request_for_an_action_is_answered_clearly(
    agent: SimulatedAgent, admin: httpx.Client, body: Any, status: int
) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = admin.post(f"/api/v1/queries/{uuid.uuid4()}/actions", content=content)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"code", "message", "detail"}
    assert answer.json()["error"]["message"]


def test_strange_texts_in_an_action_come_back_whole(agent: SimulatedAgent, admin: httpx.Client) -> None:
    query = SimulatedQuery("texts")
    agent.start(query)
    body = b'{"action":"start","reason":"\\ud800 \\u0000 <b>","actor":"\xc3\xa5da","overrides":{"x":NaN,"y":"\\udfff"}}'
    answer = admin.post(f"/api/v1/queries/{query.query_id}/actions", content=body)
    assert answer.status_code == 409
    action = answer.json()["error"]["detail"]["action"]
    assert action["actor"] == "åda"
    assert action["overrides"]["x"] is None
    assert admin.get(f"/api/v1/actions/{action['id']}").status_code == 200


BAD_PATHS = [
    ("GET", "/api/v1/queries/not-a-uuid", 422),
    ("GET", "/api/v1/queries/%00", 422),
    ("GET", "/api/v1/queries/%ff%fe", 422),
    ("GET", f"/api/v1/queries/{UNKNOWN_ID}", 404),
    ("GET", f"/api/v1/queries/{UNKNOWN_ID}/events", 404),
    ("GET", f"/api/v1/queries/{UNKNOWN_ID}/progress", 404),
    ("GET", f"/api/v1/queries/{UNKNOWN_ID}/runs", 404),
    ("POST", f"/api/v1/queries/{UNKNOWN_ID}/retire", 400),
    ("GET", "/api/v1/actions/not-a-uuid", 422),
    ("GET", f"/api/v1/actions/{UNKNOWN_ID}", 404),
    ("GET", "/api/v1/actions?limit=-1", 422),
    ("GET", "/api/v1/actions?limit=0", 422),
    ("GET", "/api/v1/actions?limit=1e9", 422),
    ("GET", "/api/v1/actions?limit=99999999999999999999", 422),
    ("GET", "/api/v1/actions?query_id=x", 422),
    ("GET", "/api/v1/queries?status=unwell", 422),
    ("GET", "/api/v1/queries?label=novalue", 400),
    ("GET", "/api/v1/queries?sort=labels", 400),
    ("GET", "/api/v1/queries?fields=nope", 400),
    ("GET", "/api/v1/queries?since=1-1&limit=2", 400),
    ("GET", "/api/v1/queries?limit=0", 422),
    ("GET", "/api/v1/queries?offset=-1", 422),
    ("GET", "/api/v1/queries?app=" + "x" * 300, 422),
    ("GET", "/api/v1/queries?" + "&".join(f"label=l{i}=x" for i in range(30)), 422),
    ("GET", "/api/v1/queries?x=" + "y" * 60_000, 200),
    ("GET", "/api/v1/nothing", 404),
    ("GET", "/../../etc/passwd", 404),
    ("DELETE", "/api/v1/queries", 405),
    ("HEAD", "/api/v1/queries", 405),
    ("OPTIONS", "/api/v1/queries", 405),
    ("PROPFIND", "/api/v1/queries", 405),
]


@pytest.mark.parametrize(("method", "path", "status"), BAD_PATHS)
def test_a_bad_path_or_parameter_is_answered_in_the_one_shape(
    admin: httpx.Client, method: str, path: str, status: int
) -> None:
    answer = admin.request(method, path)
    assert answer.status_code == status
    if status >= 400 and method != "HEAD":
        assert set(answer.json()["error"]) == {"code", "message", "detail"}


@pytest.mark.parametrize(
    ("question", "status"),
    [
        ("start=yesterday", 400),
        ("end=nan", 400),
        ("start=200&end=100", 400),
        ("step=0", 422),
        ("step=-1", 422),
        ("step=nan", 422),
        ("step=inf", 422),
        ("start=2026-11-20T05:00:00Z&end=2026-11-20T06:00:00Z&step=60", 200),
        ("start=0&end=1795000000.5", 200),
        ("start=&end=", 200),
    ],
)
def test_a_bad_range_is_named(agent: SimulatedAgent, admin: httpx.Client, question: str, status: int) -> None:
    query = SimulatedQuery("range")
    agent.start(query)
    answer = admin.get(f"/api/v1/queries/{query.query_id}/progress?{question}")
    assert answer.status_code == status


@pytest.mark.parametrize("question", ["wait=-1", "wait=61", "wait=nan", "wait=inf", "wait=soon"])
def test_a_poll_waits_for_a_sane_time_only(agent: SimulatedAgent, question: str) -> None:
    answer = agent.http.get(f"/api/v1/agents/{agent.agent}/commands?{question}")
    assert answer.status_code == 422


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{}", 400),
        (b'{"state":"done"}', 400),
        (b"[]", 400),
        (b'{"state":"failed","evidence":[1]}', 400),
        (b"", 400),
    ],
)
def test_a_bad_result_is_refused(agent: SimulatedAgent, body: bytes, status: int) -> None:
    answer = agent.http.post(f"/api/v1/commands/{uuid.uuid4()}/result", content=body)
    assert answer.status_code == status


def test_a_result_for_no_action_is_not_found(agent: SimulatedAgent) -> None:
    answer = agent.http.post(f"/api/v1/commands/{uuid.uuid4()}/result", json={"state": "succeeded"})
    assert answer.status_code == 404


@pytest.mark.parametrize(
    "text",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"POST /api/v1/events HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_broken_http_does_not_hurt_the_server(server: LiveServer, admin: httpx.Client, text: bytes) -> None:
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=5) as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(4096)
    assert b" 500 " not in answer
    assert admin.get("/healthz").status_code == 200
