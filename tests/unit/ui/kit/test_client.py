"""The HTTP client: answers as values or as the matching error."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from ui.kit.client import (
    ServerClient,
    ServerNotFound,
    ServerRefused,
    ServerUnreachable,
    TokenRefused,
    server_url,
    token,
)


def _client(answer: Callable[[httpx.Request], httpx.Response]) -> ServerClient:
    return ServerClient("http://server:8420", lambda: "secret", httpx.MockTransport(answer))


def _answering(status: int, body: object) -> ServerClient:
    return _client(lambda request: httpx.Response(status, json=body))


def test_a_request_carries_the_token_and_returns_json() -> None:
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, json={"queries": []})

    assert _client(answer).fleet() == {"queries": []}
    assert requests[0].headers["Authorization"] == "Bearer secret"
    assert requests[0].url == "http://server:8420/api/v1/queries"


def test_an_id_cannot_leave_its_path() -> None:
    client = _client(lambda request: httpx.Response(200, json={"path": request.url.raw_path.decode()}))
    assert client.query("../../tokens?x=1")["path"] == "/api/v1/queries/..%2F..%2Ftokens%3Fx%3D1"


def test_an_action_carries_its_key_and_body() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        sent = {"key": request.headers["Idempotency-Key"], "body": json.loads(request.content)}
        return httpx.Response(202, json=sent)

    answered = _client(answer).act("q", {"action": "stop"}, "k-1")
    assert answered == {"key": "k-1", "body": {"action": "stop"}}


def _error(code: str, message: str, **detail: object) -> dict[str, object]:
    return {"error": {"code": code, "message": message, "detail": detail}}


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (401, _error("unauthorized", "no such token"), TokenRefused, "401.*no such token"),
        (403, _error("forbidden", "role viewer"), TokenRefused, "403.*role viewer"),
        (404, _error("not_found", "no such query"), ServerNotFound, "no such query"),
        (409, _error("needs_factory", "writer reused"), ServerRefused, "writer reused"),
        (503, _error("store_unavailable", "disk full"), ServerUnreachable, "503.*disk full"),
        (502, "<html>", ServerUnreachable, "502"),
        (200, ["not", "an", "object"], ServerUnreachable, "200"),
        (500, {"error": "odd"}, ServerUnreachable, "500"),
    ],
)
def test_failed_answers_raise_the_matching_error(
    status: int, body: object, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        _answering(status, body).fleet()


def test_a_refusal_has_its_code_and_the_recorded_action() -> None:
    with pytest.raises(ServerRefused) as caught:
        _answering(409, _error("action_in_progress", "one at a time", action={"id": "a"})).act("q", {}, "k")
    assert caught.value.code == "action_in_progress"
    assert caught.value.action == {"id": "a"}


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (httpx.ConnectError("refused"), "No connection"),
        (httpx.ConnectTimeout("slow"), "No connection"),
        (httpx.ReadTimeout("slow"), "did not answer in time"),
        (httpx.RemoteProtocolError("cut"), "no usable answer"),
    ],
)
def test_a_broken_connection_is_an_unreachable_server(error: httpx.HTTPError, message: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        raise error

    with pytest.raises(ServerUnreachable, match=message):
        _client(answer).fleet()


def test_the_servers_address_comes_from_the_environment() -> None:
    assert server_url({}) == "http://127.0.0.1:8420"
    assert server_url({"CONTROLPLANE_URL": "https://plane:1/ "}) == "https://plane:1"


def test_the_token_comes_from_the_environment_else_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "admin.token"
    file.write_text("from-file\n")
    assert token({"CONTROLPLANE_TOKEN": "direct", "CONTROLPLANE_TOKEN_FILE": str(file)}) == "direct"
    assert token({"CONTROLPLANE_TOKEN_FILE": str(file)}) == "from-file"
    assert token({"CONTROLPLANE_TOKEN_FILE": str(tmp_path / "none")}) is None
    assert token({}) is None


def test_series_and_alerts_are_requested_from_their_paths() -> None:
    urls: list[httpx.URL] = []

    def answer(request: httpx.Request) -> httpx.Response:
        urls.append(request.url)
        return httpx.Response(200, json={})

    client = _client(answer)
    client.series('up{app="ä b"}', 0, 60, 15)
    client.instant("up")
    client.query_alerts("a&b", 0, 60)
    assert [url.path for url in urls] == [
        "/prometheus/api/v1/query_range",
        "/prometheus/api/v1/query",
        "/api/v1/alerts/history",
    ]
    assert dict(urls[0].params) == {"query": 'up{app="ä b"}', "start": "0", "end": "60", "step": "15"}
    assert urls[2].params["query_id"] == "a&b"


def test_checkpoints_and_inventories_are_requested_from_their_paths() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(202, json={"at": f"{request.method} {request.url.raw_path.decode()}"})

    client = _client(answer)
    assert client.request_inventory("a/b")["at"] == "POST /api/v1/checkpoints/a%2Fb/inventory"
    assert client.checkpoint("a/b")["at"] == "GET /api/v1/checkpoints/a%2Fb"
    assert client.checkpoints()["at"] == "GET /api/v1/checkpoints"
