"""The HTTP client: answers as values or as the matching error."""

import json
from collections.abc import Callable

import httpx
import pytest

from ui.kit.answers import ServerNotFound, ServerRefused, ServerUnreachable, TokenRefused
from ui.kit.client import ServerClient
from ui.kit.fleet_page import FleetPage


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
    assert requests[0].url.path == "/api/v1/queries"
    assert dict(requests[0].url.params)["sort"] == "alert_severity"


def test_a_page_that_has_not_changed_is_not_transferred_again() -> None:
    asked: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers.get("If-None-Match"))
        if asked[-1]:
            return httpx.Response(304, headers={"ETag": 'W/"1"', "Date": "Wed, 18 Nov 2026 11:06:40 GMT"})
        return httpx.Response(
            200, headers={"ETag": 'W/"1"'}, json={"as_of": "then", "queries": [{"name": "a"}]}
        )

    client = _client(answer)
    first, second = client.fleet(), client.fleet()
    assert asked == [None, 'W/"1"']
    assert second == {**first, "as_of": "2026-11-18T11:06:40+00:00"}
    assert client.fleet(FleetPage(offset=100)) == first
    assert asked[-1] is None


def test_an_id_cannot_leave_its_path() -> None:
    client = _client(lambda request: httpx.Response(200, json={"path": request.url.raw_path.decode()}))
    assert client.query("../../tokens?x=1")["path"] == "/api/v1/queries/..%2F..%2Ftokens%3Fx%3D1"


def test_an_action_carries_its_key_and_body() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        sent = {"key": request.headers["Idempotency-Key"], "body": json.loads(request.content)}
        return httpx.Response(202, json=sent)

    answered = _client(answer).act("q", {"action": "stop"}, "k-1")
    assert answered == {"key": "k-1", "body": {"action": "stop"}}


def test_a_desired_state_is_put() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        sent = {"at": f"{request.method} {request.url.path}", "body": json.loads(request.content)}
        return httpx.Response(200, json=sent)

    answered = _client(answer).set_desired("q", {"state": "suspended"})
    assert answered == {"at": "PUT /api/v1/queries/q/desired", "body": {"state": "suspended"}}


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


class _Pair:
    """Two servers `a` and `b`; `answers` by host, an exception is raised."""

    def __init__(self, **answers: httpx.Response | Exception):
        self.answers, self.asked = answers, ""
        self.client = ServerClient("http://a,http://b", lambda: None, httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked += request.url.host
        answer = self.answers[request.url.host]
        if isinstance(answer, Exception):
            raise answer
        return answer


def _standby() -> httpx.Response:
    return httpx.Response(503, json=_error("standby", "this server is the standby"))


def test_the_next_server_gets_the_request_of_a_standby_and_all_later_ones() -> None:
    pair = _Pair(a=_standby(), b=httpx.Response(200, json={}))
    pair.client.silence({})
    pair.client.fleet()
    assert pair.asked == "abb"


def test_the_next_server_gets_the_request_of_a_dead_one() -> None:
    pair = _Pair(a=httpx.ConnectError("refused"), b=httpx.Response(200, json={}))
    pair.client.silence({})
    pair = _Pair(a=httpx.ReadTimeout("hangs"), b=httpx.Response(200, json={}))
    pair.client.fleet()
    pair.client.act("q", {}, "key")
    assert pair.asked == "abb"


def test_all_addresses_without_a_connection_are_named() -> None:
    pair = _Pair(a=httpx.ConnectError("refused"), b=httpx.ConnectError("refused"))
    with pytest.raises(ServerUnreachable, match="No connection to the server at http://a and http://b"):
        pair.client.fleet()


def test_a_change_that_the_first_server_may_have_made_is_not_repeated() -> None:
    pair = _Pair(a=httpx.ReadTimeout("hangs"), b=httpx.Response(200, json={}))
    with pytest.raises(ServerUnreachable):
        pair.client.silence({})
    assert pair.asked == "a"


def test_the_last_standby_is_the_answer_without_an_active_server() -> None:
    with pytest.raises(ServerUnreachable, match="standby"):
        _Pair(a=httpx.ConnectError("refused"), b=_standby()).client.fleet()


def test_each_server_has_its_role_or_the_error_of_its_request() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.host == "b":
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json={"role": "standby"})

    found = ServerClient("http://b,http://a", lambda: "secret", httpx.MockTransport(answer)).servers()[
        "servers"
    ]
    assert found[0] == {"role": "standby", "address": "http://a"}
    assert (found[1]["address"], found[1]["error"]) == (
        "http://b",
        "No connection to the server at http://b.",
    )
    with pytest.raises(ServerUnreachable):
        ServerClient("http://b", lambda: None, httpx.MockTransport(answer)).servers()
