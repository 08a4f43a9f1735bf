"""Served stand-ins of receivers' APIs: they record requests and answer as the real ones do."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from alerts.notify.catalogue import build
from alerts.notify.config import load
from alerts.notify.receivers.base import Receiver
from alerts.templates.library import library


@dataclass(frozen=True)
class Request:
    """What a receiver sent. `headers` in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["content-type"].startswith("application/json")
        return json.loads(self.body)

    @property
    def form(self) -> dict[str, str]:
        assert self.headers["content-type"].startswith("application/x-www-form-urlencoded")
        found = parse_qs(self.body.decode(), keep_blank_values=True, strict_parsing=True)
        assert all(len(values) == 1 for values in found.values())
        return {name: values[0] for name, values in found.items()}


@dataclass(frozen=True)
class Answer:
    """Status, body (a text, or a JSON document) and headers."""

    status: int = 200
    body: Any = ""
    headers: Mapping[str, str] = field(default_factory=dict)


Respond = Callable[[Request], Answer]


@dataclass
class FakeApi:
    """`requests` in order; each of `failures` is answered once instead of what `respond` gives."""

    respond: Respond
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    failures: list[Answer] = field(default_factory=list)

    def answer(self, request: Request) -> Answer:
        self.requests.append(request)
        return self.failures.pop(0) if self.failures else self.respond(request)


@contextmanager
def serving(respond: Respond) -> Iterator[FakeApi]:
    """A server on a free port."""
    api = FakeApi(respond)

    class Handler(BaseHTTPRequestHandler):
        def handle_request(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = api.answer(Request(self.command, self.path, headers, body))
            text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(text.encode())), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_PUT = handle_request

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()


class PlainFiles:
    """Files by their contents."""

    def __init__(self, contents: Mapping[str, str] | None = None):
        self._contents = contents or {}

    def read(self, path: str) -> str:
        return self._contents[path]

    def path(self, path: str) -> str:
        return path


def receiver(
    kind: str, settings: str, general: str = "{}", contents: Mapping[str, str] | None = None
) -> Receiver:
    """The receiver of one integration as a configuration file describes it, without its limits."""
    text = (
        f"global: {general}\nroute: {{receiver: a}}\nreceivers: [{{name: a, {kind}_configs: [{settings}]}}]\n"
    )
    config, errors = load(text)
    assert config is not None, errors
    (built,) = build(config, PlainFiles(contents), library())["a"]
    return built.receiver  # type: ignore[attr-defined]


def problems(kind: str, settings: str, general: str = "{}") -> list[str]:
    """Messages of the errors of a configuration with one integration."""
    text = (
        f"global: {general}\nroute: {{receiver: a}}\nreceivers: [{{name: a, {kind}_configs: [{settings}]}}]\n"
    )
    return [error.message for error in load(text)[1]]
