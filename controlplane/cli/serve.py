"""`controlplane serve`, `ui` and `up` (both together).

`_serve` is one function from the settings to the end. The dashboard is a process of its own; `ui.launch` has its
command and environment.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import click

from controlplane.cli import logs
from controlplane.cli.options import (
    F,
    allowed_host_option,
    ca_option,
    data_dir_option,
    database_option,
    host_option,
    port_option,
    server_option,
    settings_of,
    tls_options,
    ui_port_option,
)
from controlplane.console.errors import UsageProblem
from controlplane.runtime.certificate import certificate_of
from controlplane.runtime.child_processes import die_with_parent
from controlplane.settings import LAUNCHERS, Settings, connect_host

UI_STOP_SECONDS = 3.0
STOP_SECONDS = 18.0  # of the server, 20 with the rest: container platforms kill it after 30
#: The exit code of a server that another one has replaced: its supervisor starts it again, as the standby.
LEASE_LOST_EXIT = os.EX_TEMPFAIL
external_url_option = click.option(
    "--external-url",
    metavar="URL",
    help="Address of the dashboard for people; links in notifications begin with it.",
)
rules_option = click.option(
    "--rules",
    multiple=True,
    metavar="FILE",
    help="A Prometheus rule file, or `shipped`; may be repeated.  [default: shipped]",
)
notify_option = click.option(
    "--notify",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Routes and receivers: an Alertmanager configuration file.",
)
webhook_option = click.option(
    "--webhook", metavar="URL", help="Send every notification to this URL, if --notify is not given."
)

advertise_option = click.option(
    "--advertise-url",
    metavar="URL",
    help="Where clients reach this server; the standby names it.  [default: the address it listens on]",
)
roots_option = click.option(
    "--checkpoint-root",
    "checkpoint_roots",
    multiple=True,
    metavar="URL",
    help="Path or URL below which the server reads checkpoints itself if no agent can; may be repeated.",
)
changes_option = click.option(
    "--checkpoint-changes",
    is_flag=True,
    default=None,
    help="Let operators rewind and repair checkpoints below the checkpoint roots from the dashboard.",
)
launchers_option = click.option(
    "--launcher",
    "launchers",
    multiple=True,
    type=click.Choice(LAUNCHERS),
    help="Let admins start applications by launchers of this kind; may be repeated.  [default: none]",
)


def alerting_options(command: F) -> F:
    """Options of rules and notifications."""
    return rules_option(notify_option(webhook_option(external_url_option(command))))


def log_in_options(command: F) -> F:
    """Options of the dashboard's log-in."""
    file = click.Path(path_type=Path, dir_okay=False)
    options = (
        click.option(
            "--auth",
            "auth_file",
            type=file,
            help="People log in by OpenID Connect: a secrets file of Streamlit with [auth].",
        ),
        click.option(
            "--trusted-proxy",
            "trusted_proxies",
            multiple=True,
            metavar="CIDR",
            help="People log in at a proxy in this network, which names them in a header; may be repeated.",
        ),
        click.option("--proxy-user-header", metavar="NAME", help="[default: X-Forwarded-User]"),
        click.option("--proxy-groups-header", metavar="NAME", help="[default: X-Forwarded-Groups]"),
        click.option("--role-map", type=file, help="Roles by group.  [default: everybody is a viewer]"),
    )
    for option in options:
        command = option(command)
    return command


@click.command()
@host_option
@allowed_host_option
@tls_options
@port_option
@data_dir_option
@database_option
@advertise_option
@roots_option
@changes_option
@launchers_option
@alerting_options
def serve(**options: Any) -> None:
    """Run the server."""
    _serve(settings_of(**_given(options)))


@click.command()
@host_option
@allowed_host_option
@tls_options
@port_option
@ui_port_option
@data_dir_option
@database_option
@roots_option
@changes_option
@launchers_option
@ca_option
@log_in_options
@alerting_options
def up(**options: Any) -> None:
    """Run the server and the dashboard in one command. Ctrl-C ends both."""
    settings = settings_of(**_given(options))
    if not settings.checkpoint_roots:  # what lies in its own data directory
        own = (str(settings.data_dir.resolve()),)
        settings = replace(settings, checkpoint_roots=own, checkpoint_changes=True)
    _log_in(settings)
    _serve(settings, dashboard=True)


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Options with None instead of the empty tuple of a repeatable option that was not given."""
    return {name: None if value == () else value for name, value in options.items()}


@click.command()
@server_option
@host_option
@allowed_host_option
@tls_options
@ui_port_option
@data_dir_option
@ca_option
@log_in_options
def ui(**options: Any) -> None:
    """Run the dashboard for a running server."""
    settings = settings_of(**_given(options))
    _log_in(settings)
    command, environment = ui_process(settings, settings.server_url)
    sys.stdout.flush()
    os.execve(command[0], command, environment)


def _serve(settings: Settings, dashboard: bool = False) -> None:
    """Run the server until it is stopped; what is opened here is closed in reverse order."""
    from controlplane.api.server import listen, make_server, tune_interpreter
    from controlplane.app import build

    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(listen(settings.host, settings.port))
        plane = build(settings)  # reports usage errors, so the log is configured after it
        logs.configure()
        stack.callback(plane.close)
        server = make_server(plane)
        server.stop_seconds = STOP_SECONDS
        url = f"{settings.scheme}://{connect_host(settings.host)}:{listener.getsockname()[1]}"
        if dashboard:
            _check_free(settings.host, settings.ui_port)
            stack.enter_context(_dashboard(settings, settings.advertise_url or url))
            click.echo(f"dashboard  {settings.scheme}://{connect_host(settings.host)}:{settings.ui_port}")
        click.echo(f"server     {url}  (data in {settings.data_dir})")
        if settings.external_url:
            click.echo(f"           {settings.external_url}  (external URL)")
        if problem := plane.alerts.delivery_problem():
            click.echo(f"alerts     {problem.summary}. {problem.remedy}")
        sys.stdout.flush()
        tune_interpreter()
        server.run(sockets=[listener])
    _leave(LEASE_LOST_EXIT if plane.election.lost else 0)


def _leave(code: int) -> NoReturn:
    """End the process, all of whose work is done.

    To free the objects of thousands of queries one by one takes Python seconds, which a platform may not grant.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _check_free(host: str, port: int) -> None:
    from controlplane.api.server import listen

    listen(host, port).close()


@contextlib.contextmanager
def _dashboard(settings: Settings, url: str) -> Iterator[None]:
    """The dashboard's process while the server runs; it ends even where the server is killed."""
    command, environment = ui_process(settings, url)
    # No other thread runs yet, so code between fork and exec is safe.
    child = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        preexec_fn=die_with_parent(),  # noqa: PLW1509
    )
    try:
        yield
    finally:
        child.terminate()
        try:
            child.wait(UI_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def ui_process(settings: Settings, url: str) -> tuple[list[str], dict[str, str]]:
    """Command and environment of the dashboard's process."""
    launch = _launch()
    log_in = _log_in(settings)
    certificate_of(settings)  # a mistake in the files is reported before the start
    tls = (settings.tls_cert, settings.tls_key) if settings.tls_cert else None
    command = launch.command(settings.ui_port, settings.host, settings.host_names, log_in, tls)
    token_file = None if settings.token else settings.token_file or settings.admin_token_file.absolute()
    return command, launch.environment(url, settings.token, token_file, os.environ, log_in, settings.ca_file)


def _log_in(settings: Settings) -> Any:
    """The dashboard's log-in; UsageProblem if it cannot work."""
    log_in = _launch().LogIn(
        auth_file=settings.auth_file,
        trusted_proxies=settings.trusted_proxies,
        user_header=settings.proxy_user_header,
        groups_header=settings.proxy_groups_header,
        role_map=settings.role_map,
    )
    try:
        log_in.check()
    except ValueError as error:
        raise UsageProblem(str(error)) from None
    return log_in


def _launch() -> ModuleType:
    """`ui.launch`, imported by name: the server does not depend on the dashboard (decision 17)."""
    try:
        return importlib.import_module("ui.launch")
    except ModuleNotFoundError as error:
        raise UsageProblem(
            f"the dashboard needs {error.name}: pip install 'spark-controlplane[server]'"
        ) from None
