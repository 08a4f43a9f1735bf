"""uvicorn server for thousands of long polls and a quick shutdown.

On top of uvicorn: long polls are released before the shutdown waits for connections, and connections that send no
request are closed, as uvicorn has no timeout for headers.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import socket
import sys
import threading
from typing import Any

import uvicorn

from controlplane.api.app import create_app
from controlplane.app import ControlPlane
from controlplane.errors import SettingsError

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 30  # for an idle connection after a response
HEADER_SECONDS = 20.0  # for a connection to send its next request
SWEEP_TICKS = 50  # of 0.1 s
RENEWAL_TICKS = 20
SHUTDOWN_SECONDS = 2  # for running requests at shutdown
BACKLOG = 4096  # all agents reconnect at once after a restart of the server
#: A thread that computes gives the interpreter to the event loop after this time; Python's default is 5 ms.
SWITCH_SECONDS = 0.0005
SPARE_FILES = 200  # descriptors kept for the store, logs and the process itself


class Server(uvicorn.Server):
    """uvicorn server of a control plane."""

    def __init__(self, config: uvicorn.Config, plane: ControlPlane):
        super().__init__(config)
        self._plane = plane
        self._silent: dict[Any, float] = {}
        #: Seconds after which a shutdown ends the process; None: it may take any time.
        self.stop_seconds: float | None = None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.stop_seconds is not None:
            end_after(self.stop_seconds)
        self._plane.outbox.close()
        await super().shutdown(sockets)
        # uvicorn would raise the captured signals again; they are handled, and the caller has to clean up.
        self._captured_signals.clear()

    async def on_tick(self, counter: int) -> bool:
        if counter % SWEEP_TICKS == 0:
            self._close_silent(asyncio.get_running_loop().time())
        if counter % RENEWAL_TICKS == 0 and self._plane.certificate:
            self._plane.certificate.renew()
        return await super().on_tick(counter) or self._plane.election.lost

    def _close_silent(self, now: float) -> None:
        """Close connections without a request for `HEADER_SECONDS`."""
        silent = [c for c in self.server_state.connections if _is_silent(c)]
        self._silent = {c: self._silent.get(c, now) for c in silent}
        for connection, since in self._silent.items():
            if now - since > HEADER_SECONDS:
                connection.transport.close()


def end_after(seconds: float) -> None:
    """End this process after `seconds`, unless it has ended before. What was acknowledged is on disk."""

    def end() -> None:
        log.error("the shutdown took longer than %g s; the process ends now", seconds)
        os._exit(0)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def _is_silent(connection: Any) -> bool:
    """Whether no request is in progress and uvicorn's keep-alive timer is not running."""
    cycle = getattr(connection, "cycle", None)
    timed = getattr(connection, "timeout_keep_alive_task", None) is not None
    return not timed and (cycle is None or cycle.response_complete)


def make_server(plane: ControlPlane) -> Server:
    """A server that is not started: call `run(sockets=[…])` or `await serve(sockets=[…])`."""
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
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        limit_concurrency=max(64, raise_file_limit() - SPARE_FILES),
    )
    if plane.certificate:
        config.load()
        config.ssl = plane.certificate.context
    return Server(config, plane)


def tune_interpreter() -> None:
    """Reduce garbage collections of the objects of held polls, and waits for the interpreter's lock; for a dedicated
    server process, before it serves.

    With 2 000 polls a full collection stops the process for 0.2 to 0.4 s. The objects of imported modules are frozen,
    and young objects are collected less often.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    sys.setswitchinterval(SWITCH_SECONDS)


def raise_file_limit() -> int:
    """Raise the limit of open files to the hard limit, as each poll needs one; returns the limit, at most 65536."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 65536
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):
            wanted = soft
    return min(max(soft, wanted), 65536)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; SettingsError if the address cannot be bound."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # With an explicit protocol asyncio sets TCP_NODELAY; without it each response is delayed by 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        why = error.strerror or str(error)
        raise SettingsError(f"cannot listen on {host}:{port}: {why}") from None
    listener.set_inheritable(False)
    return listener
