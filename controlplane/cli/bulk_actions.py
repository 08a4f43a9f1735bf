"""`controlplane stop|start|restart` on several queries: show the plan, request a bulk action, follow it to its end.

Changes go to standard error, the outcome to standard output. Ctrl-C leaves the bulk action running on the server and
names the command that cancels it.
"""

from __future__ import annotations

import functools
import json
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import click

from controlplane.cli.fleet import find_query
from controlplane.cli.options import client_options, settings_of
from controlplane.console.client import ApiClient, click_error
from controlplane.console.errors import CallFailed, Unreachable
from controlplane.console.several_servers import open_client
from controlplane.console.tables import listing, plain, query_name

Json = dict[str, Any]
URL = "/api/v1/bulk-actions"
POLL_SECONDS = 0.5
PLAN = ("QUERY", "STATUS", "REFUSED")
OUTCOME = ("QUERY", "STATE", "REASON")


@dataclass(frozen=True)
class BulkOptions:
    """Options of an action on several queries."""

    selector: tuple[str, ...]
    statuses: tuple[str, ...]
    max_parallel: int
    keep_going: bool
    skip_refused: bool
    dry_run: bool
    yes: bool


_OPTIONS = (
    click.option(
        "--selector",
        multiple=True,
        metavar="MATCHERS",
        help='All queries that match, e.g. \'app="billing",team=~"pay.*"\'; also by query and query_id.',
    ),
    click.option("--status", "statuses", multiple=True, help="With --selector: only with this status."),
    click.option(
        "--max-parallel",
        type=click.IntRange(1, 50),
        default=1,
        show_default=True,
        help="Several queries: so many at once.",
    ),
    click.option("--keep-going", is_flag=True, help="Several queries: go on after one that fails."),
    click.option(
        "--skip-refused", is_flag=True, help="Several queries: leave out those that the plan refuses."
    ),
    click.option("--dry-run", is_flag=True, help="Show the plan and do nothing."),
    click.option("--yes", is_flag=True, help="Several queries: do not ask."),
)


def bulk_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of several queries to a command, as its argument `bulk`."""

    @functools.wraps(command)
    def wrapped(
        selector: tuple[str, ...],
        statuses: tuple[str, ...],
        max_parallel: int,
        keep_going: bool,
        skip_refused: bool,
        dry_run: bool,
        yes: bool,
        **others: Any,
    ) -> None:
        bulk = BulkOptions(selector, statuses, max_parallel, keep_going, skip_refused, dry_run, yes)
        command(bulk=bulk, **others)

    return functools.reduce(lambda made, option: option(made), reversed(_OPTIONS), wrapped)


def carry_out(
    client: ApiClient,
    queries: Sequence[str],
    asked: Json,
    bulk: BulkOptions,
    wait: float | None,
    as_json: bool,
) -> int:
    """Plan, confirm, request and follow; returns the exit code: 0 when every action succeeded."""
    targets = _targets(client, queries, bulk)
    plan = _post(client, f"{URL}/plan", {"action": asked["action"], **targets})
    refused = len(plan["queries"]) - plan["accepted"]
    click.echo(listing(PLAN, plan["queries"], _planned), err=not bulk.dry_run)
    if bulk.dry_run:
        return 0 if not refused else 1
    if refused and not bulk.skip_refused:
        raise click.ClickException(
            f"{refused} of {len(plan['queries'])} would be refused; --skip-refused leaves them out"
        )
    if not asked["reason"].strip():
        raise click.UsageError("several queries need --reason")
    _confirm(asked["action"], plan["accepted"], bulk)
    body = {
        **asked,
        **targets,
        "max_parallel": bulk.max_parallel,
        "halt_on_failure": not bulk.keep_going,
        "skip_refused": bulk.skip_refused,
    }
    found = _post(client, URL, body, Idempotency_Key=str(uuid.uuid4()))["bulk_action"]
    return _conclude(_follow(client, found, wait), as_json)


def _targets(client: ApiClient, queries: Sequence[str], bulk: BulkOptions) -> Json:
    if bool(queries) == bool(bulk.selector):
        raise click.UsageError("give QUERY… or --selector")
    if bulk.selector:
        return {"selector": list(bulk.selector), "statuses": list(bulk.statuses)}
    return {"query_ids": [find_query(client, text) for text in queries], "statuses": list(bulk.statuses)}


def _post(client: ApiClient, path: str, body: Json, **headers: str) -> Json:
    """POST, a second time where no answer came; the server takes a repeated key once."""
    for last in (False, True):
        try:
            found: Json = client.post(path, body, **headers)
            return found
        except Unreachable as error:
            if last:
                raise click_error(error, client) from None
        except CallFailed as error:
            raise click_error(error, client) from None
    raise AssertionError("unreachable")


def _planned(query: Json) -> tuple[object, ...]:
    return query_name(query), query["status"], plain(query["refusal"] or "")


def _confirm(action: str, count: int, bulk: BulkOptions) -> None:
    if not bulk.yes and sys.stdin.isatty():
        pace = f"{bulk.max_parallel} at once" if bulk.max_parallel > 1 else "one after the other"
        click.confirm(f"{action.capitalize()} {count} queries, {pace}?", abort=True, err=True)


def _follow(client: ApiClient, bulk: Json, wait: float | None) -> Json:
    """Poll until the bulk action has ended and no action is open, or `wait` seconds are over."""
    until = None if wait is None else time.monotonic() + wait
    reported: set[tuple[str, str]] = set()
    try:
        while True:
            for query in bulk["queries"]:
                if query["action_id"] and (query["query_id"], query["state"]) not in reported:
                    reported.add((query["query_id"], query["state"]))
                    click.echo(f"{query_name(query)} {query['state']}: {plain(query['reason'])}", err=True)
            if _is_over(bulk) or (until is not None and time.monotonic() >= until):
                return bulk
            time.sleep(POLL_SECONDS)
            bulk = _again(client, bulk)
    except KeyboardInterrupt:
        click.echo(f"it goes on; cancel it with: controlplane bulk-actions --cancel {bulk['id']}", err=True)
        raise


def _is_over(bulk: Json) -> bool:
    open_states = {"waiting", "requested", "delivered", "running"}
    return bool(bulk["ended_at"]) and not open_states & set(bulk["counts"])


def _again(client: ApiClient, bulk: Json) -> Json:
    try:
        found: Json = client.get(f"{URL}/{bulk['id']}")["bulk_action"]
        return found
    except Unreachable:
        return bulk
    except CallFailed as error:
        raise click_error(error, client) from None


def _conclude(bulk: Json, as_json: bool) -> int:
    if as_json:
        click.echo(json.dumps({"bulk_action": bulk}, indent=2))
    else:
        click.echo(
            listing(OUTCOME, bulk["queries"], lambda q: (query_name(q), q["state"], plain(q["reason"])))
        )
        done = bulk["counts"].get("succeeded", 0)
        why = f": {plain(bulk['reason'])}" if bulk["reason"] else ""
        click.echo(f"{bulk['action']} {bulk['state']}, {done} of {len(bulk['queries'])} succeeded{why}")
    return 0 if bulk["state"] == "succeeded" else 1


@click.command("bulk-actions")
@click.option("--cancel", metavar="ID", help="Act on no further query of this one.")
@client_options
def bulk_actions(cancel: str | None, **where: Any) -> None:
    """Actions on several queries, newest first."""
    client = open_client(settings_of(**where))
    try:
        answer = client.post(f"{URL}/{cancel}/cancel", {}) if cancel else client.get(URL)
    except CallFailed as error:
        raise click_error(error, client) from None
    found = [answer["bulk_action"]] if cancel else answer["bulk_actions"]
    rows = ("ID", "ACTION", "STATE", "BY", "DONE", "WHY", "REASON")
    click.echo(listing(rows, found, _bulk_row) if found else "no bulk actions")


def _bulk_row(bulk: Json) -> tuple[object, ...]:
    done = f"{bulk['counts'].get('succeeded', 0)}/{len(bulk['queries'])}"
    return (
        bulk["id"],
        bulk["action"],
        bulk["state"],
        bulk["actor"],
        done,
        bulk["request_reason"],
        bulk["reason"],
    )
