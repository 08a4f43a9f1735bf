"""Two real servers on one PostgreSQL, each a process that is killed, stopped, continued and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from controlplane.model import Role
from controlplane.runtime.tokens import issue
from controlplane.store import tokens
from controlplane.store.engine import open_engine, upgrade
from tests.acceptance.live import eventually
from tests.acceptance.simulated import TLS
from tests.paths import ROOT
from tests.ports import free_port

START_SECONDS = 60.0
#: What an end of the active server may cost.
TAKE_OVER_SECONDS = 60.0


class ServerProcess:
    """`controlplane serve` with a port and a data directory of its own."""

    def __init__(self, directory: Path, database_url: str, options: dict[str, str]):
        self.port, self.directory = free_port(), directory
        self.url = f"http://127.0.0.1:{self.port}"
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("CONTROLPLANE_")},
            "CONTROLPLANE_DATABASE_URL": database_url,
            **options,
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it answers."""
        command = [sys.executable, "-m", "controlplane", "serve", "--port", str(self.port)]
        self.directory.mkdir(exist_ok=True)
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--data-dir", str(self.directory)],
                env=self._environment,
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )
        assert eventually(lambda: self.answers("/healthz"), START_SECONDS), self.log()

    def answers(self, path: str) -> bool:
        """Whether it answers this path with success within a second."""
        with suppress(httpx.TransportError):
            return httpx.get(self.url + path, timeout=1.0, verify=TLS).is_success
        return False

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, seconds: float = START_SECONDS) -> int:
        """Its exit code."""
        assert self.process is not None
        return self.process.wait(seconds)

    def end(self) -> None:
        """Kill it if it still runs, even if it is stopped."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)

    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")[-4000:]


class ServerPair:
    """Two servers; `active` is the one that was ready last."""

    def __init__(self, directory: Path, database_url: str, **options: str):
        self.database_url = database_url
        engine = open_engine(database_url)
        upgrade(engine)
        self.admin_token, self.agent_token = (_issue(engine, role) for role in (Role.ADMIN, Role.AGENT))
        self.engine = engine
        self.servers = [ServerProcess(directory / name, database_url, options) for name in ("one", "two")]
        self.urls = ",".join(server.url for server in self.servers)

    @property
    def active(self) -> ServerProcess:
        """The server that takes events now."""
        found = eventually(lambda: [s for s in self.servers if s.answers("/readyz")], TAKE_OVER_SECONDS)
        assert len(found) == 1, [server.log() for server in self.servers]
        server: ServerProcess = found[0]
        return server

    def other(self, server: ServerProcess) -> ServerProcess:
        return next(item for item in self.servers if item is not server)

    def seconds_until_ready(self, server: ServerProcess) -> float:
        """Seconds from now until this server takes events."""
        began = time.monotonic()
        assert eventually(lambda: server.answers("/readyz"), TAKE_OVER_SECONDS), server.log()
        return time.monotonic() - began

    def client(self, server: ServerProcess) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.admin_token}"}
        return httpx.Client(base_url=server.url, headers=headers, timeout=30.0, verify=TLS)

    def get(self, server: ServerProcess, path: str, **parameters: str) -> Any:
        with self.client(server) as client:
            answer = client.get(path, params=parameters)
            answer.raise_for_status()
            return answer.json()

    def close(self) -> None:
        for server in self.servers:
            server.end()
        self.engine.dispose()


def _issue(engine: Any, role: Role) -> str:
    secret, token = issue(f"test {role.value}", role, time.time())
    with engine.begin() as connection:
        tokens.insert(connection, **token.columns())
    return secret


@contextmanager
def server_pair(directory: Path, database_url: str, **options: str) -> Iterator[ServerPair]:
    """Two running servers; the first one that started is active."""
    pair = ServerPair(directory, database_url, **options)
    try:
        for server in pair.servers:
            server.start()
        yield pair
    finally:
        pair.close()


#: How to end a server, and whether it runs on.
SIGNALS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}
