"""`controlplane serve`, `ui` and `up` (both together): the processes that stay.

`_serve` is one straight function from the settings to the end; the page is a process of its own, started as
`ui.launch` says.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from controlplane.cli import logs
from controlplane.cli.options import (
    F,
    data_dir_option,
    database_option,
    host_option,
    port_option,
    server_option,
    settings_of,
    ui_port_option,
)
from controlplane.console.errors import UsageProblem
from controlplane.runtime.child_processes import ends_with_us
from controlplane.settings import Settings, connect_host

UI_SECONDS = 3.0  # for the page's process to end
external_url_option = click.option(
    "--external-url", metavar="URL", help="How people reach the page; links in alerts begin with it."
)
rules_option = click.option(
    "--rules",
    multiple=True,
    metavar="FILE",
    help="A rule file of Prometheus' kind, or `shipped`; may be given again.  [default: shipped]",
)
notify_option = click.option(
    "--notify",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Who is told: a configuration of Alertmanager's kind.",
)
webhook_option = click.option(
    "--webhook", metavar="URL", help="Without --notify: the address that is told of every alert."
)

roots_option = click.option(
    "--checkpoint-root",
    "checkpoint_roots",
    multiple=True,
    metavar="URL",
    help="Below this path or URL the server itself may look at checkpoints, where no agent can; may be given again.",
)


def alerting_options(command: F) -> F:
    return rules_option(notify_option(webhook_option(external_url_option(command))))


@click.command()
@host_option
@port_option
@data_dir_option
@database_option
@roots_option
@alerting_options
def serve(**options: Any) -> None:
    """The server alone."""
    _serve(settings_of(**_given(options)))


@click.command()
@host_option
@port_option
@ui_port_option
@data_dir_option
@database_option
@roots_option
@alerting_options
def up(**options: Any) -> None:
    """Server and page together, with an embedded store. Ctrl-C ends both."""
    settings = settings_of(**_given(options))
    own = settings.checkpoint_roots or (str(settings.data_dir.resolve()),)
    _serve(replace(settings, checkpoint_roots=own), page=True)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """An option that may be given many times is an empty tuple where it was not."""
    return {name: None if value == () else value for name, value in options.items()}


@click.command()
@server_option
@host_option
@ui_port_option
@data_dir_option
def ui(**options: Any) -> None:
    """The page alone, for a server that runs."""
    settings = settings_of(**options)
    command, environment = ui_process(settings, settings.server_url)
    sys.stdout.flush()
    os.execve(command[0], command, environment)


def _serve(settings: Settings, page: bool = False) -> None:
    """From the settings to the end: what is opened here is closed in reverse."""
    from controlplane.api.server import calm_collector, listen, make_server
    from controlplane.app import build

    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(listen(settings.host, settings.port))
        plane = build(settings)  # here the user's mistakes come out, so the log begins after it
        logs.configure()
        stack.callback(plane.close)
        server = make_server(plane)
        url = f"http://{connect_host(settings.host)}:{listener.getsockname()[1]}"
        if page:
            _check_free(settings.host, settings.ui_port)
            stack.enter_context(_page(settings, url))
            click.echo(f"page   http://{connect_host(settings.host)}:{settings.ui_port}")
        click.echo(f"server {url}  (data in {settings.data_dir})")
        if settings.external_url:
            click.echo(f"       {settings.external_url}  (for people elsewhere)")
        sys.stdout.flush()
        calm_collector()
        server.run(sockets=[listener])


def _check_free(host: str, port: int) -> None:
    from controlplane.api.server import listen

    listen(host, port).close()


@contextlib.contextmanager
def _page(settings: Settings, url: str) -> Iterator[None]:
    """The page's process, for as long as the server runs; it ends with us even if we are killed."""
    command, environment = ui_process(settings, url)
    # No thread of ours runs yet, so code between fork and exec is safe.
    child = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        preexec_fn=ends_with_us(),  # noqa: PLW1509
    )
    try:
        yield
    finally:
        child.terminate()
        try:
            child.wait(UI_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def ui_process(settings: Settings, url: str) -> tuple[list[str], dict[str, str]]:
    """Command and environment of the page's process, as the page's room says."""
    launch = _launch()
    command = launch.command(port=settings.ui_port, host=settings.host)
    token_file = None if settings.token else settings.token_file or settings.admin_token_file.absolute()
    return command, launch.environment(url, settings.token, token_file, os.environ)


def _launch() -> ModuleType:
    """The page is a room of its own that we do not import, but for how to start it."""
    try:
        return importlib.import_module("ui.launch")
    except ModuleNotFoundError as error:
        raise UsageProblem(f"the page needs {error.name}: pip install 'spark-controlplane[server]'") from None
