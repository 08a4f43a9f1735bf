"""The command line's HTTP client with several servers that stand in for each other."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from controlplane.console.client import ApiClient
from controlplane.console.errors import RequestRefused, Unreachable


class StandIn(ThreadingHTTPServer):
    """Answers as the active server, as the standby, or not at all; counts the requests."""

    def __init__(self) -> None:
        self.role, self.requests = "active", 0
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    server: StandIn

    def do_GET(self) -> None:
        self.server.requests += 1
        if self.server.role == "silent":
            return  # the connection is closed without an answer
        active = self.server.role == "active"
        error = {"error": {"code": "standby", "message": "this server is the standby", "detail": {}}}
        body = json.dumps({"by": self.server.url} if active else error).encode()
        self.send_response(200 if active else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def pair() -> Iterator[tuple[StandIn, StandIn]]:
    with StandIn() as first, StandIn() as second:
        yield first, second
        first.shutdown()
        second.shutdown()


def test_the_next_server_gets_the_request_of_a_standby_and_all_later_ones(
    pair: tuple[StandIn, StandIn],
) -> None:
    first, second = pair
    first.role = "standby"
    client = ApiClient(f"{first.url},{second.url}", None)
    assert client.post("/x", {})["by"] == client.get("/x")["by"] == second.url
    assert (first.requests, second.requests) == (1, 2)


def test_the_next_server_gets_the_request_of_a_dead_one(pair: tuple[StandIn, StandIn]) -> None:
    first, second = pair
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dead = f"http://127.0.0.1:{listener.getsockname()[1]}"
    assert ApiClient(f"{dead},{second.url}", None).post("/x", {})["by"] == second.url
    first.role = "silent"
    assert ApiClient(f"{first.url},{second.url}", None).get("/x")["by"] == second.url
    assert (
        ApiClient(f"{first.url},{second.url}", None).post("/x", {}, Idempotency_Key="k")["by"] == second.url
    )


def test_a_change_that_the_first_server_may_have_made_is_not_repeated(pair: tuple[StandIn, StandIn]) -> None:
    first, second = pair
    first.role = "silent"
    with pytest.raises(Unreachable):
        ApiClient(f"{first.url},{second.url}", None).post("/x", {})
    assert second.requests == 0


def test_without_an_active_server_the_standby_is_the_answer(pair: tuple[StandIn, StandIn]) -> None:
    first, second = pair
    first.role = second.role = "standby"
    with pytest.raises(RequestRefused, match="standby"):
        ApiClient(f"{first.url},{second.url}", None).get("/x")
