"""`controlplane stop|start|restart|retire QUERY`: request an action and follow it to its end.

With several queries, `--selector` or `--dry-run` the first three request a bulk action (`controlplane.cli.bulk_actions`).

Exit code 0 only when it is done and verified; 1 when it was refused, failed, timed out or could not be verified.
State changes go to standard error, the outcome to standard output.
"""

from __future__ import annotations

import getpass
import json
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

import click

from controlplane.cli import bulk_actions
from controlplane.cli.bulk_actions import BulkOptions, bulk_options
from controlplane.cli.fleet import find_query
from controlplane.cli.options import FiniteRange, client_options, json_option, settings_of
from controlplane.console.client import ApiClient, click_error
from controlplane.console.errors import CallFailed, RequestRefused, Unreachable
from controlplane.console.several_servers import open_client
from controlplane.console.tables import plain, query_name

POLL_SECONDS = 0.4
FINAL = ("succeeded", "failed", "unverified", "refused", "expired")
Sleep = Callable[[float], None]

wait_option = click.option(
    "--wait",
    type=FiniteRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Follow the action for this time; default: until its deadline.",
)
reason_option = click.option("--reason", default="", help="Why; recorded with the action.")
force_option = click.option(
    "--force",
    is_flag=True,
    help="Start although the checkpoint is broken; recorded with the action.",
)


def overrides_of(context: click.Context, option: click.Parameter, pairs: tuple[str, ...]) -> dict[str, Any]:
    """`("trigger=10s", "rate=5")` becomes `{"trigger": "10s", "rate": 5}`: values are JSON, else text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE, e.g. trigger=10s", context, option)
        try:
            found[name] = json.loads(value, parse_constant=str)
        except ValueError:
            found[name] = value
    return found


set_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="NAME=VALUE",
    callback=overrides_of,
    help="For the new run: trigger=10s, or a parameter of the query's factory.",
)
drain_option = click.option("--drain", is_flag=True, help="Wait for the running batch to finish first.")


def _action(name: str, summary: str, drains: bool, starts: bool) -> click.Command:
    """The command of one action."""

    def command(
        query: tuple[str, ...],
        reason: str,
        wait: float | None,
        as_json: bool,
        bulk: BulkOptions,
        drain: bool = False,
        force: bool = False,
        overrides: dict[str, Any] | None = None,
        **where: Any,
    ) -> None:
        client = open_client(settings_of(**where))
        if bulk.dry_run or bulk.selector or len(query) != 1:
            if force or overrides:
                raise click.UsageError("--force and --set take one QUERY and no --dry-run")
            asked = {"action": name, "reason": reason, "drain": drain, "actor": person()}
            code = bulk_actions.carry_out(client, query, asked, bulk, wait, as_json)
            click.get_current_context().exit(code)
        query_id = find_query(client, query[0])
        if not starts:
            confirm_final_stop(client, query_id)
        body = {"action": name, "drain": drain, "reason": reason, "overrides": overrides or {}}
        body |= {"force": True} if force else {}
        action = request(client, query_id, body)
        click.get_current_context().exit(conclude(follow(client, action, wait), as_json))

    for option in (
        client_options,
        json_option,
        wait_option,
        reason_option,
        *([drain_option] if drains else []),
        *([force_option, set_option] if starts else []),
    ):
        command = option(command)
    return click.command(name, help=summary)(click.argument("query", nargs=-1)(bulk_options(command)))


stop = _action("stop", "Stop queries and wait until they have stopped.", drains=True, starts=False)
start = _action(
    "start", "Start stopped or failed queries and wait until they work.", drains=False, starts=True
)
restart = _action("restart", "Restart queries and wait until the new runs work.", drains=True, starts=True)


@click.command()
@click.argument("query")
@reason_option
@json_option
@client_options
def retire(query: str, reason: str, as_json: bool, **where: Any) -> None:
    """Retire a query: it leaves the fleet, its history stays."""
    client = open_client(settings_of(**where))
    query_id = find_query(client, query)
    try:
        answer = client.post(f"/api/v1/queries/{query_id}/retire", {"reason": reason, "actor": person()})
    except CallFailed as error:
        raise click_error(error, client) from None
    click.echo(json.dumps(answer, indent=2) if as_json else f"{query_name(answer)} is retired")


def confirm_final_stop(client: ApiClient, query_id: str) -> None:
    """Print a warning before a stop that no start can undo; a person at a terminal must confirm it."""
    try:
        query = client.get(f"/api/v1/queries/{query_id}")
    except CallFailed:  # the stop itself reports what is wrong
        return
    warning = no_start_after_stop(query)
    if warning is None:
        return
    click.echo(f"{query_name(query)} cannot be started again from here: {plain(warning)}", err=True)
    if sys.stdin.isatty():
        click.confirm("Stop it?", abort=True, err=True)


def no_start_after_stop(query: dict[str, Any]) -> str | None:
    """Why a stopped query could not be started again by a command; None if it could."""
    restart = query.get("restart") or {}
    if query.get("actions_allowed") == "stop":
        return "its driver allows stops only (CONTROLPLANE_ACTIONS=stop)"
    if restart.get("how") == "needs_factory":
        return str(restart.get("reason") or "it needs a factory, as its writer cannot be reused")
    return None


def request(client: ApiClient, query_id: str, body: dict[str, Any]) -> dict[str, Any]:
    """Request an action once: the idempotency key makes a retry after a lost response the same action."""
    path, key = f"/api/v1/queries/{query_id}/actions", str(uuid.uuid4())
    document = {**body, "actor": person()}
    for last in (False, True):
        try:
            action: dict[str, Any] = client.post(path, document, Idempotency_Key=key)["action"]
            return action
        except Unreachable as error:
            if last:
                raise click_error(error, client) from None
        except RequestRefused as error:
            if isinstance(error.detail.get("action"), dict):
                return dict(error.detail["action"])
            raise click_error(error, client) from None
    raise AssertionError("unreachable")


def person() -> str | None:
    """The user of this terminal, for the record; None where it has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return None


def follow(
    client: ApiClient, action: dict[str, Any], wait: float | None, sleep: Sleep = time.sleep
) -> dict[str, Any]:
    """Poll the action until it has ended or `wait` seconds are over; print each change to standard error."""
    until = None if wait is None else time.monotonic() + wait
    reported = None
    while True:
        if reported != (action["state"], action["reason"]) and action["state"] not in FINAL:
            reported = (action["state"], action["reason"])
            _report_state(action)
        if action["state"] in FINAL or (until is not None and time.monotonic() >= until):
            return action
        sleep(POLL_SECONDS)
        action = _again(client, action)


def _again(client: ApiClient, action: dict[str, Any]) -> dict[str, Any]:
    """The action as it is now; unchanged where the server does not answer."""
    try:
        found: dict[str, Any] = client.get(f"/api/v1/actions/{action['id']}")["action"]
        return found
    except Unreachable:
        return action
    except RequestRefused as error:
        if error.status >= 500:
            return action
        raise click_error(error, client) from None


def _report_state(action: dict[str, Any]) -> None:
    reason = f": {plain(action['reason'])}" if action["reason"] else ""
    click.echo(f"{action['state']}{reason}", err=True)


def conclude(action: dict[str, Any], as_json: bool) -> int:
    """Print the outcome and return the exit code."""
    click.echo(json.dumps({"action": action}, indent=2) if as_json else "\n".join(outcome(action)))
    return 0 if action["state"] == "succeeded" else 1


def _remedy(findings: Any) -> list[str]:
    """Steps for the worst finding, and how to start anyway."""
    first = findings[0] if isinstance(findings, list) and findings else {}
    steps = [f"{number}. {step}" for number, step in enumerate(first.get("remedy") or (), 1)]
    return [*steps, "--force starts the query anyway"]


def outcome(action: dict[str, Any]) -> list[str]:
    """The outcome as lines: a sentence, then what is known of a failure."""
    what = f"{action['action']} of {query_name(action)}"
    if action["state"] not in FINAL:
        return [f"{what} is still {action['state']}; follow it with: controlplane actions"]
    lines = [f"{what} {action['state']}: {plain(action['reason'])}"]
    if action["evidence"].get("code") == "checkpoint_broken":
        lines += [f"  {plain(step)}" for step in _remedy(action["evidence"].get("findings"))]
    failure = action["evidence"].get("failure")
    if isinstance(failure, dict):
        named = (("condition", "condition"), ("root_cause", "root cause"), ("advice", "what to do"))
        known = ((title, failure.get(name)) for name, title in named)
        lines += [
            f"  {title}: {plain(text)}" for title, text in known if text and text not in action["reason"]
        ]
    return lines
