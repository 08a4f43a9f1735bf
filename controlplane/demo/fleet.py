"""Runs the demonstration: server, dashboard, drivers and feeder, until the last process is gone again.

`run` is one straight function; what it starts is undone in reverse. Called by `controlplane.cli.demo`.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack

from controlplane.console.client import ApiClient
from controlplane.console.errors import CallFailed, DemoFailed, UsageProblem
from controlplane.demo import data_dir, launch, processes
from controlplane.demo.interrupts import Interrupts
from controlplane.demo.launch import HOST, Options
from controlplane.demo.scenarios import TROUBLES
from controlplane.demo.watch import Say, fleet_of, watch
from controlplane.model import QueryStatus
from controlplane.runtime.java import java_environment

SERVER_READY_SECONDS = 60.0
#: How long the children may take to end in good order. The agents deliver their last events in this time.
GRACE_SECONDS = 12.0


def run(options: Options, say: Say) -> int:
    """The whole demonstration. Returns 0 when it ran until Ctrl-C or for its minutes, 1 if a part died.

    Mistake: nothing was started. DemoFailed: the server did not start.
    """
    java = check(options)
    with ExitStack() as stack:
        stack.enter_context(data_dir.lock(options.data_dir))
        place = data_dir.fresh(options.data_dir)
        interrupts = stack.enter_context(Interrupts())
        children: list[processes.Child] = []
        stack.callback(stop_children, children, interrupts, say)
        say(f"demo: server on {options.url}, dashboard on {options.ui_url}, logs in {options.logs}")
        environ = launch.environment(options)
        children.append(launch.server(options, environ))
        if not await_server(options, children[0], interrupts):
            return 0
        retire_earlier_queries(options)
        children.append(launch.feeder(options, place, environ))
        children.append(launch.dashboard(options, environ))
        return watch(
            options,
            children,
            lambda driver: launch.driver(driver, options, place, {**environ, **java}),
            interrupts,
            say,
        )


def check(options: Options) -> dict[str, str]:
    """The environment that Java needs; Mistake where a port is taken or there is no Java."""
    for name, port in (("--port", options.port), ("--ui-port", options.ui_port)):
        if not port_is_free(port):
            raise UsageProblem(f"port {port} is in use; stop what listens there or give another {name}")
    if options.port == options.ui_port:
        raise UsageProblem("--port and --ui-port must differ")
    java = java_environment()
    if java is None:
        raise UsageProblem("Spark needs Java 17 or newer and there is none; `make -B setup` fetches one")
    return java


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a port that waits out the last demo's connections is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def await_server(options: Options, server: processes.Child, interrupts: Interrupts) -> bool:
    """Wait until the server is ready and has written its tokens. False: the user asked us to stop."""
    end = time.monotonic() + SERVER_READY_SECONDS
    while time.monotonic() < end:
        if server.exit_code is not None:
            raise DemoFailed(f"the server ended with {server.exit_code}; see {server.log}")
        if is_ready(options.url) and options.agent_token.exists() and options.admin_token.exists():
            return True
        if interrupts.wait(0.2):
            return False
    raise DemoFailed(f"the server was not ready within {SERVER_READY_SECONDS:.0f} s; see {server.log}")


def is_ready(url: str) -> bool:
    try:
        ApiClient(url, None, timeout=2.0).get("/readyz")
    except CallFailed:
        return False
    return True


def retire_earlier_queries(options: Options) -> None:
    """Retire what an earlier demonstration left in the store: it would page as failed or lost beside the new."""
    client = ApiClient(options.url, options.admin_token.read_text(encoding="utf-8").strip())
    ours = {trouble.app for trouble in TROUBLES}
    for query in fleet_of(client).get("queries", []):
        if query["app"] in ours and query["status"] != QueryStatus.RETIRED:
            reason = {"reason": "a new demonstration begins"}
            try:
                client.post(f"/api/v1/queries/{query['query_id']}/retire", reason)
            except CallFailed:
                continue  # it stays as it is; the new fleet is not less true


def stop_children(children: Sequence[processes.Child], interrupts: Interrupts, say: Say) -> None:
    """Stop the drivers first, so that their last words reach the server, then dashboard and server."""
    asked = interrupts.count

    def hurry() -> bool:
        return interrupts.count > asked

    say("demo: stopping; Ctrl-C again to kill at once")
    drivers = [child for child in children if child.name not in ("server", "dashboard")]
    rest = [child for child in children if child not in drivers]
    killed = processes.stop_all(drivers, GRACE_SECONDS, hurry) + processes.stop_all(
        rest, GRACE_SECONDS, hurry
    )
    say("demo: all stopped" + (f" ({', '.join(killed)} had to be killed)" if killed else ""))
