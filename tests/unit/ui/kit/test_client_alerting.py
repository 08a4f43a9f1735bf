"""Alerting requests of the HTTP client: their addresses, and errors in Alertmanager's form."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from ui.kit.answers import ServerRefused, ServerUnreachable
from ui.kit.client import ServerClient


def client(status: int, body: Any, requests: list[httpx.Request]) -> ServerClient:
    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(status, json=body)

    return ServerClient("http://plane", read_token=lambda: "t", transport=httpx.MockTransport(answer))


def test_each_matcher_is_sent_as_it_was_typed() -> None:
    requests: list[httpx.Request] = []
    matchers = ['app="a&b=c"', 'query=~"x|y"']
    assert client(200, [{"labels": {}}], requests).covered(matchers) == {"alerts": [{"labels": {}}]}
    assert requests[0].url.path == "/alertmanager/api/v2/alerts"
    assert requests[0].url.params.get_list("filter") == matchers


def test_a_bad_matcher_is_refused_with_the_servers_message() -> None:
    with pytest.raises(ServerRefused, match="bad matcher format"):
        client(400, "bad matcher format: x", []).covered(["x"])


def test_an_answer_without_a_list_of_alerts_is_an_error() -> None:
    with pytest.raises(ServerUnreachable):
        client(200, "surprise", []).covered(['a="b"'])


def test_receivers_are_read_with_their_problem() -> None:
    requests: list[httpx.Request] = []
    assert client(200, {"problem": None}, requests).receivers() == {"problem": None}
    assert requests[0].url.path == "/api/v1/receivers"


def test_fingerprints_and_ids_cannot_leave_their_path() -> None:
    requests: list[httpx.Request] = []
    tricky = client(200, {}, requests)
    tricky.alert("../silences?x=")
    tricky.acknowledge("a/b", {"comment": "", "actor": None})
    tricky.expire("../alerts")
    assert [(request.method, request.url.raw_path.decode()) for request in requests] == [
        ("GET", "/api/v1/alerts/..%2Fsilences%3Fx%3D"),
        ("POST", "/api/v1/alerts/a%2Fb/acknowledge"),
        ("DELETE", "/api/v1/silences/..%2Falerts"),
    ]
    assert json.loads(requests[1].content) == {"comment": "", "actor": None}
