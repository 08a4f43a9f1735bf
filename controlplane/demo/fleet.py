"""Run the demonstration: server, dashboard, feeder and drivers, until all processes have ended.

`run` is one function; what it starts is stopped in reverse order. Called by `controlplane.cli.demo`.
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
#: Time for the children to end by themselves; the agents deliver their last events in it.
GRACE_SECONDS = 12.0
NOBODY_NOTIFIED = "demo: nobody is notified of alerts; --webhook URL sends every notification to that URL"


def run(options: Options, say: Say) -> int:
    """Run the demonstration. Returns 0 after Ctrl-C or the given minutes, 1 if a part died.

    UsageProblem: nothing was started. DemoFailed: the server did not start.
    """
    java = check(options)
    with ExitStack() as stack:
        stack.enter_context(data_dir.lock(options.data_dir))
        place = data_dir.fresh(options.data_dir)
        interrupts = stack.enter_context(Interrupts())
        children: list[processes.Child] = []
        stack.callback(stop_children, children, interrupts, say)
        say(f"demo: server on {options.url}, dashboard on {options.ui_url}, logs in {options.logs}")
        if options.webhook is None:
            say(NOBODY_NOTIFIED)
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
    """The environment for Java; UsageProblem where a port is in use or there is no Java."""
    for name, port in (("--port", options.port), ("--ui-port", options.ui_port)):
        if not port_is_free(port):
            raise UsageProblem(f"port {port} is in use; stop what listens there or give another {name}")
    if options.port == options.ui_port:
        raise UsageProblem("--port and --ui-port must differ")
    java = java_environment()
    if java is None:
        raise UsageProblem("Spark needs Java 17 or newer, and none was found; `make -B setup` installs one")
    return java


def port_is_free(port: int) -> bool:
    """Whether a server can listen on this port."""
    with socket.socket() as probe:
        # As servers do: a port in TIME_WAIT from the last demo is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def await_server(options: Options, server: processes.Child, interrupts: Interrupts) -> bool:
    """Wait until the server is ready and has written its tokens. False: interrupted by the user."""
    end = time.monotonic() + SERVER_READY_SECONDS
    while time.monotonic() < end:
        if server.exit_code is not None:
            raise DemoFailed(f"the server ended with exit code {server.exit_code}; see {server.log}")
        if is_ready(options.url) and options.agent_token.exists() and options.admin_token.exists():
            return True
        if interrupts.wait(0.2):
            return False
    raise DemoFailed(f"the server was not ready within {SERVER_READY_SECONDS:.0f} s; see {server.log}")


def is_ready(url: str) -> bool:
    """Whether `/readyz` answers with success."""
    try:
        ApiClient(url, None, timeout=2.0).get("/readyz")
    except CallFailed:
        return False
    return True


def retire_earlier_queries(options: Options) -> None:
    """Retire queries of an earlier demonstration, which would fire alerts as failed or lost."""
    client = ApiClient(options.url, options.admin_token.read_text(encoding="utf-8").strip())
    apps = {trouble.app for trouble in TROUBLES}
    for query in fleet_of(client).get("queries", []):
        if query["app"] in apps and query["status"] != QueryStatus.RETIRED:
            reason = {"reason": "a new demonstration begins"}
            try:
                client.post(f"/api/v1/queries/{query['query_id']}/retire", reason)
            except CallFailed:
                continue  # it stays in the fleet; the demonstration works nevertheless


def stop_children(children: Sequence[processes.Child], interrupts: Interrupts, say: Say) -> None:
    """Stop the drivers first, so that their last events reach the server, then dashboard and server."""
    before = interrupts.count

    def hurry() -> bool:
        return interrupts.count > before

    say("demo: stopping; Ctrl-C again to kill at once")
    drivers = [child for child in children if child.name not in ("server", "dashboard")]
    rest = [child for child in children if child not in drivers]
    killed = processes.stop_all(drivers, GRACE_SECONDS, hurry) + processes.stop_all(
        rest, GRACE_SECONDS, hurry
    )
    say("demo: all stopped" + (f" ({', '.join(killed)} had to be killed)" if killed else ""))
