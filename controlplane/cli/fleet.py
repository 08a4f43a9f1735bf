"""`controlplane queries`, `actions` and `capacity`: the API's answers as tables or JSON.

`ask` and `find_query` also serve the other commands.
"""

from __future__ import annotations

import json
import time
from typing import Any

import click

from controlplane.cli.options import client_options, json_option, settings_of
from controlplane.console.client import ApiClient, click_error
from controlplane.console.errors import CallFailed, UsageProblem
from controlplane.console.several_servers import open_client
from controlplane.console.tables import (
    UNKNOWN,
    age,
    backlog,
    figure,
    listing,
    plain,
    query_name,
    read_rate,
    shortened,
)
from controlplane.health.formatting import span
from controlplane.query_names import NamedQuery, candidates, matching, whole_id

FLEET = ("STATUS", "DESIRED", "QUERY", "ID", "BATCH", "LAG", "READ/S", "SINCE", "REASON")
ACTIONS = ("ID", "STATE", "ACTION", "QUERY", "BY", "AGE", "WHY", "OUTCOME")
CAPACITY = (
    "QUERY",
    "BUSY",
    "DEMAND/S",
    "CAPACITY/S",
    "HEADROOM/S",
    "CATCH-UP",
    "UNREAD DELETED",
    "STATE FULL",
    "BOTTLENECK",
)
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
    return listing(FLEET, found, lambda query: _fleet_row(query, now))


def _fleet_row(q: dict[str, Any], now: float) -> tuple[object, ...]:
    lag, rate = backlog(q), figure(read_rate(q))
    since = age(q["since"], now)
    wanted = q.get("desired", "running")
    return q["status"], wanted, query_name(q), q["query_id"][:8], q["batch_id"], lag, rate, since, q["reason"]


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
    return listing(ACTIONS, found, lambda action: _action_row(action, now))


def _action_row(a: dict[str, Any], now: float) -> tuple[object, ...]:
    when = age(a["requested_at"], now)
    why, outcome = shortened(a["request_reason"], MAX_WHY), shortened(a["reason"], MAX_OUTCOME)
    return a["id"], a["state"], a["action"], query_name(a), a["actor"], when, why, outcome


@click.command()
@click.argument("query", required=False)
@click.option("--app", help="Only this app.")
@click.option("--status", help="Only this status, e.g. lagging.")
@click.option("--label", multiple=True, metavar="NAME=VALUE", help="Only with this label; may be repeated.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="The worst so many."
)
@json_option
@client_options
def capacity(
    query: str | None,
    app: str | None,
    status: str | None,
    label: tuple[str, ...],
    limit: int,
    as_json: bool,
    **where: Any,
) -> None:
    """Load, headroom, bottleneck, and when state or retention run out; of QUERY with the reasons and advice."""
    client = open_client(settings_of(**where))
    if query is not None:
        found = _capacity_of(client, find_query(client, query))
        click.echo(json.dumps(found, indent=2) if as_json else _capacity_text(found))
        return
    listed = ask(client, "/api/v1/queries", app=app, status=status, label=label)["queries"]
    many = [_capacity_of(client, q["query_id"]) for q in listed[:limit]]
    click.echo(json.dumps({"queries": many}, indent=2) if as_json else _capacity_table(many))
    if len(listed) > limit:
        click.echo(f"{len(listed) - limit} more; --limit shows them", err=True)


def _capacity_of(client: ApiClient, query_id: str) -> dict[str, Any]:
    return dict(ask(client, f"/api/v1/queries/{query_id}/capacity"))


def _capacity_table(found: list[dict[str, Any]]) -> str:
    return listing(CAPACITY, found, _capacity_row) if found else "no queries"


def _capacity_row(c: dict[str, Any]) -> tuple[object, ...]:
    load, slow, kept = c["throughput"] or {}, c["bottleneck"] or {}, c["retention"] or {}
    busy = f"{load['busy_ratio']:.0%}" if load else UNKNOWN
    least = "≥" if load.get("capacity_is_lower_bound") and load.get("capacity_rows_per_second") else ""
    rates = (figure(load.get(f"{name}_rows_per_second")) for name in ("demand", "capacity", "headroom"))
    demand, sustained, spare = rates
    full = min((s["earliest_seconds"] for s in c["state"] if s["earliest_seconds"] is not None), default=None)
    times = (load.get("catch_up_seconds"), kept.get("left_seconds"), full)
    ends = (UNKNOWN if seconds is None else f"in {span(seconds)}" for seconds in times)
    return (
        query_name(c),
        busy,
        demand,
        least + sustained,
        least + spare,
        *ends,
        slow.get("part") or c["unknown"],
    )


def _capacity_text(c: dict[str, Any]) -> str:
    parts = [c["throughput"], c["bottleneck"], c["retention"], *c["state"]]
    lines = [query_name(c), *filter(None, [c["unknown"]]), *(part["sentence"] for part in parts if part)]
    for each in c["advice"]:
        now = "not set" if each["now"] is None else f"now {each['now']}"
        lines.append(f"Advice: {each['setting']} ({now}). {each['advice']} {each['reason']}")
    return "\n".join(plain(line) for line in lines)


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
    if not text.strip():
        raise UsageProblem("the name of the query is empty; controlplane queries lists them")
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
