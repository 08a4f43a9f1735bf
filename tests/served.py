"""An HTTP server for tests: one function answers every request."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class ReceivedRequest:
    method: str
    path: str
    parameters: Mapping[str, str]
    document: Any
    headers: Mapping[str, str] = field(default_factory=dict)


#: Status and body: JSON, or a text.
Answer = tuple[int, Any]


@contextmanager
def served(answer: Callable[[ReceivedRequest], Answer]) -> Iterator[str]:
    """The address of a server that answers with `answer`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            parameters = {name: values[-1] for name, values in parse_qs(url.query).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            document = json.loads(body) if body else None
            status, content = answer(ReceivedRequest(self.command, url.path, parameters, document, headers))
            sent = content if isinstance(content, str) else json.dumps(content)
            self.send_response(status)
            self.send_header("content-length", str(len(sent.encode())))
            self.end_headers()
            self.wfile.write(sent.encode())

        do_POST = do_DELETE = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
