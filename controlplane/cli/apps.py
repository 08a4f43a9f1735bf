"""`controlplane apps check|apply|list|start|stop|restart|logs`: applications and their drivers.

Exit code of an action: 0 only when it succeeded. Errors of a file are `FILE:LINE:COLUMN: message` on standard error.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from alerts.yaml.tree import DocumentError
from controlplane.apps import apps_file
from controlplane.cli.actions import person, reason_option
from controlplane.cli.fleet import ask
from controlplane.cli.options import client_options, json_option, settings_of
from controlplane.cli.rules import counted, error_lines, read, refuse
from controlplane.console.client import ApiClient, click_error
from controlplane.console.errors import CallFailed, RequestRefused, Unreachable
from controlplane.console.several_servers import open_client
from controlplane.console.tables import age, listing, plain, shortened

PATH = "/api/v1/apps"
HEAD = ("STATE", "DESIRED", "APP", "LAUNCHER", "VERSION", "STARTED", "QUERIES", "REASON")
MAX_REASON = 90  # characters; --json has the whole text
POLL_SECONDS = 0.5
WAIT_SECONDS = 600.0


@click.group()
def apps() -> None:
    """Applications: declare them, start and stop their drivers."""


@apps.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE…")
def check(files: tuple[Path, ...]) -> int:
    """List every error of files of applications; exit code 2 where there is one."""
    wrong = False
    for file in files:
        specs, mistakes = apps_file.load(read(file))
        for line in error_lines(file, mistakes):
            click.echo(line, err=True)
        wrong = wrong or bool(mistakes)
        if not mistakes:
            click.echo(f"{file}: {counted(len(specs), 'application')}")
    return 2 if wrong else 0


@apps.command()
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@client_options
def apply(file: Path, as_json: bool, **where: Any) -> None:
    """Declare the applications of FILE in place of the present ones. Nothing is started."""
    text = read(file)
    _, mistakes = apps_file.load(text)
    if mistakes:
        refuse(error_lines(file, mistakes))
    client = open_client(settings_of(**where))
    try:
        answer = client.put(PATH, {"text": text, "actor": person()}, compressed=False)
    except RequestRefused as error:  # a newer server may know more errors
        found = error.detail.get("mistakes")
        if isinstance(found, list):
            refuse(
                error_lines(file, [DocumentError(m["line"], m["column"], str(m["message"])) for m in found])
            )
        raise click_error(error, client) from None
    except CallFailed as error:
        raise click_error(error, client) from None
    lines = [f"{change}  {plain(name)}" for name, change in sorted(answer["changes"].items())]
    click.echo(json.dumps(answer, indent=2) if as_json else "\n".join(lines) or "no applications")


@apps.command("list")
@json_option
@client_options
def list_apps(as_json: bool, **where: Any) -> None:
    """Every application with its desired and its actual state."""
    answer = ask(open_client(settings_of(**where)), PATH)
    found, now = answer["apps"], time.time()
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        click.echo(listing(HEAD, found, lambda app: _row(app, now)) if found else "no applications")


def _row(app: dict[str, Any], now: float) -> tuple[object, ...]:
    version = app["running_version"] or app["version"]
    started, reason = age(app["started_at"], now), shortened(app["reason"], MAX_REASON)
    shown = app["state"], app["desired"], app["name"], app["launcher"], version, started
    return *shown, len(app["queries"]), reason


@apps.command()
@click.argument("app")
@click.option("--lines", type=click.IntRange(1, 5000), default=100, show_default=True)
@client_options
def logs(app: str, lines: int, **where: Any) -> None:
    """Print the end of the output of the application's driver."""
    answer = ask(open_client(settings_of(**where)), f"{PATH}/{quote(app, safe='')}/logs", lines=lines)
    click.echo("\n".join(map(plain, answer["text"].splitlines())))


drain_option = click.option(
    "--drain", is_flag=True, help="Stop the queries after their running batch first, within the app's time."
)
force_option = click.option(
    "--force", is_flag=True, help="Start although an earlier driver may still run; admins only."
)


def _action(name: str, summary: str, *options: Callable[..., Any]) -> None:
    """Add the command of one action."""

    def command(app: str, reason: str, as_json: bool, **rest: Any) -> None:
        body = {"action": name, "reason": reason}
        body |= {flag: rest.pop(flag) for flag in ("drain", "force") if flag in rest}
        client = open_client(settings_of(**rest))
        action = _followed(client, app, _requested(client, app, body))
        shown = f"{name} of {plain(app)} {action['state']}: {plain(action['reason'])}".rstrip(": ")
        click.echo(json.dumps({"action": action}, indent=2) if as_json else shown)
        click.get_current_context().exit(0 if action["state"] == "succeeded" else 1)

    for option in (client_options, json_option, reason_option, *options):
        command = option(command)
    apps.add_command(click.command(name, help=summary)(click.argument("app")(command)))


_action("start", "Start the application's driver, unless one may still run.", force_option)
_action("stop", "Stop the application's driver: SIGTERM, then SIGKILL after its grace.", drain_option)
_action("restart", "Stop the application's driver, then start it again.", drain_option, force_option)


def _requested(client: ApiClient, app: str, body: dict[str, Any]) -> dict[str, Any]:
    """Request an action once: the key makes a retry after a lost response the same action."""
    path, key = f"{PATH}/{quote(app, safe='')}/actions", str(uuid.uuid4())
    document = {**body, "actor": person()}
    for last in (False, True):
        try:
            return dict(client.post(path, document, Idempotency_Key=key)["action"])
        except Unreachable as error:
            if last:
                raise click_error(error, client) from None
        except RequestRefused as error:
            if isinstance(error.detail.get("action"), dict):
                return dict(error.detail["action"])
            raise click_error(error, client) from None
    raise AssertionError("unreachable")


def _followed(client: ApiClient, app: str, action: dict[str, Any]) -> dict[str, Any]:
    """The action when it has ended."""
    until = time.monotonic() + WAIT_SECONDS
    while action["state"] == "running" and time.monotonic() < until:
        time.sleep(POLL_SECONDS)
        newest = ask(client, f"{PATH}/{quote(app, safe='')}")["action"]
        if newest is None or newest["id"] != action["id"]:
            break
        action = newest
    return action
