"""A stand-in for the server's two agent routes that records events and results and hands out commands.

For tests of the agent alone. `refusal` makes it reject every request.
"""

from __future__ import annotations

import gzip
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class RecordingServer:
    """`events` in order of arrival with duplicates, `results` by command id; `refusal` is sent instead of a 200."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.results: dict[str, dict[str, Any]] = {}
        self.commands: queue.Queue[dict[str, Any]] = queue.Queue()
        self.refusal: tuple[int, dict[str, str]] | None = None
        self.posts = 0
        self.headers: Mapping[str, str] = {}  # of the last POST
        self._changed = threading.Condition()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def of_type(self, kind: str, **fields: Any) -> list[dict[str, Any]]:
        """The `data` of events of one type whose fields match."""
        return [
            event["data"]
            for event in list(self.events)
            if event["type"] == kind and all(event["data"].get(k) == v for k, v in fields.items())
        ]

    def wait_for(self, condition: Callable[[], Any], timeout: float = 300.0) -> Any:
        """Wait until `condition` is truthy and return its value; evaluated again whenever something arrives."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not (value := condition()):
                left = deadline - time.monotonic()
                assert left > 0, f"not seen within {timeout} s: {condition}"
                self._changed.wait(min(left, 0.2))
            return value

    def command(self, action: str, query_id: str, timeout: float = 120.0, **fields: Any) -> dict[str, Any]:
        """Send one command to the agent and wait for its result."""
        ident = f"c{len(self.results) + 1}-{time.monotonic_ns()}"
        self.commands.put({"id": ident, "action": action, "query_id": query_id, **fields})
        return self.wait_for(lambda: self.results.get(ident), timeout)

    def _take(self, lines: list[bytes]) -> int:
        with self._changed:
            self.events += [json.loads(line) for line in lines]
            self._changed.notify_all()
        return max(json.loads(line)["seq"] for line in lines)

    def _handler(server) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server.posts += 1
                server.headers = self.headers
                if server.refusal is not None:
                    return self._answer(server.refusal[0], {"error": {"message": "refused by the test"}})
                if self.path == "/api/v1/events":
                    if self.headers.get("Content-Encoding") == "gzip":
                        body = gzip.decompress(body)
                    return self._answer(
                        200, {"acknowledged": server._take(body.splitlines()), "rejected": []}
                    )
                with server._changed:
                    server.results[self.path.split("/")[4]] = json.loads(body)
                    server._changed.notify_all()
                return self._answer(200, {})

            def do_GET(self) -> None:
                if server.refusal is not None:
                    return self._answer(server.refusal[0], {"error": {"message": "refused by the test"}})
                try:
                    return self._answer(200, {"commands": [server.commands.get(timeout=2.0)]})
                except queue.Empty:
                    return self._answer(204, None)

            def _answer(self, status: int, document: Any) -> None:
                body = b"" if document is None else json.dumps(document).encode()
                self.send_response(status)
                for name, value in (server.refusal or (0, {}))[1].items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        return Handler


@contextmanager
def recording_server() -> Iterator[RecordingServer]:
    server = RecordingServer()
    try:
        yield server
    finally:
        server.close()
