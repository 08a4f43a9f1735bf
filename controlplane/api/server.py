"""uvicorn, set up for thousands of held polls and a quick end.

Ours over uvicorn's server: held polls are released before it waits for connections, and connections
that send no request are closed (uvicorn has no deadline for headers).
"""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
from typing import Any

import uvicorn

from controlplane.api.app import create_app
from controlplane.app import ControlPlane
from controlplane.errors import SettingsError

KEEP_ALIVE = 30  # seconds an idle connection stays open after an answer
HEADER_SECONDS = 20.0  # for a connection to come with its next request
SWEEP_TICKS = 50  # of 0.1 s
GRACE = 2  # seconds for what runs when the server is told to stop
BACKLOG = 4096  # all agents come at once when the server was restarted
SPARE_FILES = 200  # descriptors kept for the store, logs and the process itself


class Server(uvicorn.Server):
    """A server for one plane."""

    def __init__(self, config: uvicorn.Config, plane: ControlPlane):
        super().__init__(config)
        self._plane = plane
        self._silent: dict[Any, float] = {}

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._plane.outbox.close()
        await super().shutdown(sockets)
        # uvicorn would raise them once more; ours have been obeyed, and who started us has to clean up.
        self._captured_signals.clear()

    async def on_tick(self, counter: int) -> bool:
        if counter % SWEEP_TICKS == 0:
            self._close_silent(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    def _close_silent(self, now: float) -> None:
        """Close connections that have been without a request for `HEADER_SECONDS`."""
        silent = [c for c in self.server_state.connections if _is_silent(c)]
        self._silent = {c: self._silent.get(c, now) for c in silent}
        for connection, since in self._silent.items():
            if now - since > HEADER_SECONDS:
                connection.transport.close()


def _is_silent(connection: Any) -> bool:
    """No request in work, and uvicorn's own keep-alive timer does not run."""
    cycle = getattr(connection, "cycle", None)
    timed = getattr(connection, "timeout_keep_alive_task", None) is not None
    return not timed and (cycle is None or cycle.response_complete)


def make_server(plane: ControlPlane) -> Server:
    """A server that has not begun: `run(sockets=[…])` or `await serve(sockets=[…])`."""
    config = uvicorn.Config(
        create_app(plane),
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
        limit_concurrency=max(64, raise_file_limit() - SPARE_FILES),
    )
    return Server(config, plane)


def calm_collector() -> None:
    """Keep the garbage collector from going through every held poll again and again.

    With 2 000 of them a full collection stops the process for 0.2 to 0.4 s; what modules brought is
    put aside, and young garbage is looked at less often. For a process of our own, before it serves.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def raise_file_limit() -> int:
    """Open files up to the hard limit: a held poll is a file. Returns how many there may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 65536
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):
            wanted = soft
    return min(max(soft, wanted), 65536)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; SettingsError says in one line why there is none."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # The protocol by name: asyncio sets TCP_NODELAY only then, and without it each answer waits 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        why = error.strerror or str(error)
        raise SettingsError(f"cannot listen on {host}:{port}: {why}") from None
    listener.set_inheritable(False)
    return listener
