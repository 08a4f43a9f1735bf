"""The dashboard over two servers: one away, objects found where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from ui.fleet import table as fleet_table
from ui.kit.answers import ServerNotFound, ServerUnreachable
from ui.kit.client import ServerClient
from ui.kit.fleet_page import FleetPage
from ui.kit.several_servers import SideBySideClient, open_client


class Fakes:
    """Two servers, each with a query of its own; `down` do not answer."""

    def __init__(self) -> None:
        self.down: set[str] = set()
        self.asked: list[tuple[str, str, str]] = []
        self.client = SideBySideClient({"eu": "http://eu", "us": "http://us"}, self._made)

    def _made(self, url: str, read_token: Callable[[], str | None]) -> ServerClient:
        return ServerClient(url, read_token, httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        server, path = request.url.host, request.url.path
        self.asked.append((server, request.method, path))
        if server in self.down:
            raise httpx.ConnectError("refused")
        own: dict[str, Any] = {"query_id": f"q-{server}", "name": server, "status": "running"}
        if "choices" in request.url.params:
            return httpx.Response(200, json={"choices": {"apps": [server]}, "queries": []})
        if path == "/api/v1/queries":
            return httpx.Response(200, json={"queries": [own], "counts": {"running": 1}})
        if path.startswith(f"/api/v1/queries/q-{server}"):
            return httpx.Response(200, json=own)
        return httpx.Response(404, json={"error": {"code": "not_found", "message": "unknown"}})


def test_the_fleet_is_that_of_both_with_a_column_for_the_server() -> None:
    found = Fakes().client.fleet()
    assert [(q["server"], q["name"]) for q in found["queries"]] == [("eu", "eu"), ("us", "us")]
    assert found["counts"] == {"running": 2}
    assert [row.cells[0]["note"] for row in fleet_table.rows(found["queries"])] == ["eu", "us"]  # type: ignore[index]


def test_a_page_is_cut_from_the_rows_of_all_servers_in_one_order() -> None:
    client = Fakes().client
    assert [q["name"] for q in client.fleet(FleetPage(sort="-name", limit=1))["queries"]] == ["us"]
    assert [q["name"] for q in client.fleet(FleetPage(sort="-name", limit=1, offset=1))["queries"]] == ["eu"]
    assert [q["name"] for q in client.fleet(FleetPage(servers=("us",)))["queries"]] == ["us"]
    assert client.fleet_choices()["choices"] == {"apps": ["eu", "us"], "servers": ["eu", "us"]}


def test_a_server_that_is_away_is_named_and_the_other_is_shown() -> None:
    fakes = Fakes()
    fakes.down = {"eu"}
    found = fakes.client.fleet()
    assert [q["name"] for q in found["queries"]] == ["us"]
    assert list(found["left_out"]) == ["eu"]
    fakes.down = {"eu", "us"}
    with pytest.raises(ServerUnreachable):
        fakes.client.fleet()


def test_an_action_goes_to_the_server_that_has_the_query() -> None:
    fakes = Fakes()
    fakes.client.act("q-us", {"action": "stop"}, "key")
    assert fakes.asked[-1] == ("us", "POST", "/api/v1/queries/q-us/actions")
    assert [request for request in fakes.asked if request[1] == "POST"] == [fakes.asked[-1]]
    fakes.asked.clear()
    fakes.client.query("q-us")
    assert fakes.asked == [("us", "GET", "/api/v1/queries/q-us")]
    with pytest.raises(ServerNotFound):
        fakes.client.query("q-nobody")


def test_the_environment_names_one_server_or_several() -> None:
    assert isinstance(open_client({"CONTROLPLANE_URL": "eu=http://a;us=http://b"}), SideBySideClient)
    assert not isinstance(open_client({"CONTROLPLANE_URL": "http://a,http://b"}), SideBySideClient)
