"""An HTTP receiver of webhook notifications that records what is posted."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


class WebhookReceiver:
    """`messages` in order of arrival; `status` is the HTTP status that it answers."""

    def __init__(self) -> None:
        self.messages: list[Json] = []
        self.status = 200
        self.url = ""

    def alerts(self, name: str, status: str = "firing") -> list[Json]:
        """Every alert of this name that was notified with this status."""
        output = [alert for message in self.messages for alert in message["alerts"]]
        return [item for item in output if item["labels"]["alertname"] == name and item["status"] == status]


@contextmanager
def running_webhook(port: int = 0) -> Iterator[WebhookReceiver]:
    webhook = WebhookReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if webhook.status < 300:
                webhook.messages.append(json.loads(body))
            self.send_response(webhook.status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    webhook.url = f"http://127.0.0.1:{server.server_address[1]}/webhook"
    try:
        yield webhook
    finally:
        server.shutdown()
        server.server_close()
