"""A complete server for tests: uvicorn on a free port, in a thread of the test process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from controlplane.api.server import Server, listen, make_server
from controlplane.app import ControlPlane, build
from controlplane.metrics.exposition_pages import ExpositionPages
from controlplane.model import Role
from controlplane.settings import Settings
from tests.acceptance.simulated import TLS, SimulatedAgent


@dataclass
class LiveServer:
    """A running server, and clients for it by role."""

    url: str
    plane: ControlPlane
    server: Server

    def token(self, role: Role, app: str | None = None, may_impersonate: bool = False) -> str:
        from controlplane.runtime.tokens import issue
        from controlplane.store import tokens as rows

        secret, token = issue(
            f"test {role.value}", role, self.plane.clock(), app, may_impersonate=may_impersonate
        )
        self.plane.writer.write(lambda conn: rows.insert(conn, **token.columns()))
        self.plane.stored_tokens.reload()
        return secret

    @property
    def admin_token(self) -> str:
        return self.plane.settings.admin_token_file.read_text().strip()

    @property
    def agent_token(self) -> str:
        return self.plane.settings.agent_token_file.read_text().strip()

    def client(self, token: str | None = None) -> httpx.Client:
        secret = self.admin_token if token is None else token
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=30.0, verify=TLS)

    def agent(self, **options: Any) -> SimulatedAgent:
        return SimulatedAgent(self.url, self.agent_token, **options)


@contextmanager
def live_server(
    data_dir: Path, clock: Callable[[], float] = time.time, **changes: Any
) -> Iterator[LiveServer]:
    settings = replace(Settings(data_dir=data_dir), **changes)
    plane = build(settings, clock)
    listener = listen("127.0.0.1", 0)
    server = make_server(plane)
    app: Any = server.config.app
    app.state.exposition_pages = ExpositionPages(
        sparing=0.0
    )  # else `/metrics` may be that of the test before
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    until = time.monotonic() + 60
    while not server.started and thread.is_alive() and time.monotonic() < until:
        time.sleep(0.01)
    assert server.started, "the server did not start"
    try:
        yield LiveServer(f"{settings.scheme}://127.0.0.1:{listener.getsockname()[1]}", plane, server)
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive(), "the server did not stop"


def eventually(check: Callable[[], Any], seconds: float = 180.0) -> Any:
    """Poll `check` and return its first truthy value, or its last value after `seconds`."""
    until = time.monotonic() + seconds
    while True:
        found = check()
        if found or time.monotonic() > until:
            return found
        time.sleep(0.02)
