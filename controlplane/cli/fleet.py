"""`controlplane queries` and `actions`: the API's lists as tables or JSON.

`ask` and `find_query` also serve the other commands.
"""

from __future__ import annotations

import json
import time
from typing import Any

import click

from controlplane.cli.options import client_options, json_option, settings_of
from controlplane.console.client import ApiClient, click_error, open_client
from controlplane.console.errors import CallFailed, UsageProblem
from controlplane.console.tables import age, backlog, figure, plain, query_name, read_rate, shortened, table
from controlplane.query_names import NamedQuery, candidates, matching, whole_id

FLEET = ("STATUS", "QUERY", "ID", "BATCH", "LAG", "READ/S", "SINCE", "REASON")
ACTIONS = ("ID", "STATE", "ACTION", "QUERY", "BY", "AGE", "WHY", "OUTCOME")
MAX_WHY, MAX_OUTCOME = 30, 80  # characters; --json and the Actions page have the whole texts


@click.command()
@click.option("--app", help="Only this app.")
@click.option("--status", help="Only this status, e.g. failed or retired.")
@click.option("--label", multiple=True, metavar="NAME=VALUE", help="Only with this label; may be repeated.")
@json_option
@client_options
def queries(app: str | None, status: str | None, label: tuple[str, ...], as_json: bool, **where: Any) -> None:
    """The fleet, worst first."""
    client = open_client(settings_of(**where))
    answer = ask(client, "/api/v1/queries", app=app, status=status, label=label)
    click.echo(json.dumps(answer, indent=2) if as_json else _fleet_table(answer["queries"], time.time()))


def _fleet_table(found: list[dict[str, Any]], now: float) -> str:
    if not found:
        return "no queries"
    return table(FLEET, [_fleet_row(query, now) for query in found])


def _fleet_row(q: dict[str, Any], now: float) -> tuple[object, ...]:
    lag, rate = backlog(q), figure(read_rate(q))
    since = age(q["since"], now)
    return q["status"], query_name(q), q["query_id"][:8], q["batch_id"], lag, rate, since, q["reason"]


@click.command()
@click.option(
    "--query", metavar="QUERY", help="Only of this query: as printed, or by id, prefix of one, or name."
)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@json_option
@client_options
def actions(query: str | None, limit: int, as_json: bool, **where: Any) -> None:
    """Actions, newest first."""
    client = open_client(settings_of(**where))
    query_id = find_query(client, query) if query else None
    answer = ask(client, "/api/v1/actions", query_id=query_id, limit=limit)
    click.echo(json.dumps(answer, indent=2) if as_json else _action_table(answer["actions"], time.time()))


def _action_table(found: list[dict[str, Any]], now: float) -> str:
    if not found:
        return "no actions"
    return table(ACTIONS, [_action_row(action, now) for action in found])


def _action_row(a: dict[str, Any], now: float) -> tuple[object, ...]:
    when = age(a["requested_at"], now)
    why, outcome = shortened(a["request_reason"], MAX_WHY), shortened(a["reason"], MAX_OUTCOME)
    return a["id"], a["state"], a["action"], query_name(a), a["actor"], when, why, outcome


def ask(client: ApiClient, path: str, **parameters: Any) -> Any:
    """GET `path`; a failure ends the command with one line."""
    try:
        return client.get(path, **parameters)
    except CallFailed as error:
        raise click_error(error, client) from None


def find_query(client: ApiClient, text: str) -> str:
    """The id of the query that `text` names, also of a retired one. UsageProblem if none or several match.

    A whole id need not be listed.
    """
    if known := whole_id(text):
        return known
    for status in (None, "retired"):
        listed = ask(client, "/api/v1/queries", status=status)["queries"]
        found = matching(text, (NamedQuery(str(q["query_id"]), q["app"], q["name"]) for q in listed))
        if len(found) == 1:
            return found[0].query_id
        if found:
            raise UsageProblem(f"{plain(text)} matches {candidates(found)}; give app/name or the id")
    raise UsageProblem(f"no query matches {plain(text)}; controlplane queries lists them")
