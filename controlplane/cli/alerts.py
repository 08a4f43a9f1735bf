"""`controlplane alerts`: present alerts; `alerts ack`: acknowledge one; `alerts history`: past alerts."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from controlplane.cli.actions import person
from controlplane.cli.fleet import ask, find_query
from controlplane.cli.options import DURATION, client_options, json_option, settings_of
from controlplane.console.client import ApiClient, click_error, open_client
from controlplane.console.errors import CallFailed, UsageProblem
from controlplane.console.tables import age, plain, shortened, table

HEAD = ("STATE", "SEVERITY", "ALERT", "ABOUT", "FINGERPRINT", "SINCE", "NOTE", "SUMMARY")
MAX_SUMMARY = 90  # characters; --json has the whole text
MIN_PREFIX = 4
STATES = ("firing", "pending", "resolved")
query_option = click.option(
    "--query", metavar="QUERY", help="Only of this query: as printed, or by id, prefix of one, or name."
)


@click.group(invoke_without_command=True)
@click.option(
    "--state", multiple=True, type=click.Choice(STATES), help="Only in this state; may be repeated."
)
@query_option
@click.option("--label", multiple=True, metavar="NAME=VALUE", help="Only with this label; may be repeated.")
@json_option
@client_options
@click.pass_context
def alerts(
    ctx: click.Context,
    state: tuple[str, ...],
    query: str | None,
    label: tuple[str, ...],
    as_json: bool,
    **where: Any,
) -> None:
    """Alerts, firing first: pending, firing, and resolved within the last 15 minutes."""
    if ctx.invoked_subcommand is not None:
        return
    client = open_client(settings_of(**where))
    query_id = find_query(client, query) if query else None
    answer = ask(client, "/api/v1/alerts", state=state, query_id=query_id, label=label)
    click.echo(json.dumps(answer, indent=2) if as_json else _listed(answer["alerts"], time.time()))
    if problem := None if as_json else ask(client, "/api/v1/receivers")["problem"]:
        click.echo(f"{plain(problem['summary'])}. {plain(problem['remedy'])}", err=True)


@alerts.command()
@click.option("--since", type=DURATION, default="1d", show_default=True, help="How far back.")
@query_option
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@json_option
@client_options
def history(since: float, query: str | None, limit: int, as_json: bool, **where: Any) -> None:
    """Alerts that fired, newest first."""
    now = time.time()
    client = open_client(settings_of(**where))
    query_id = find_query(client, query) if query else None
    answer = ask(client, "/api/v1/alerts/history", start=now - since, query_id=query_id, limit=limit)
    click.echo(json.dumps(answer, indent=2) if as_json else _listed(answer["alerts"], now))


def _listed(found: list[dict[str, Any]], now: float) -> str:
    if not found:
        return "no alerts"
    return table(HEAD, [_row(alert, now) for alert in found])


def _row(a: dict[str, Any], now: float) -> tuple[object, ...]:
    since = a["resolved_at"] or a["fired_at"] or a["active_at"]
    summary = a["annotations"].get("summary") or a["reason"]
    about, note = about_of(a), note_of(a)
    what = a["state"], a["severity"], a["name"], about
    return *what, a["fingerprint"], age(since, now), note, shortened(summary, MAX_SUMMARY)


def about_of(alert: dict[str, Any]) -> str | None:
    """`app/query`, or the one of both that is known."""
    return "/".join(part for part in (alert["app"], alert["query"]) if part) or None


def note_of(alert: dict[str, Any]) -> str:
    """Why the alert is not notified."""
    notes = ["silenced"] if alert["silenced_by"] else []
    notes += [f"inhibited by {alert['inhibited_by'][0]['name']}"] if alert["inhibited_by"] else []
    notes += [f"acknowledged by {alert['acknowledged']['by']}"] if alert["acknowledged"] else []
    return ", ".join(notes)


@alerts.command()
@click.argument("fingerprint")
@click.option("--comment", default="", help="What you do about it; recorded.")
@json_option
@client_options
def ack(fingerprint: str, comment: str, as_json: bool, **where: Any) -> None:
    """Acknowledge a firing alert: its notification is not repeated, its end is still notified.

    FINGERPRINT is a fingerprint, the beginning of one, or the name of an alert that fires once.
    """
    client = open_client(settings_of(**where))
    alert = _one_of(ask(client, "/api/v1/alerts", state=("firing",))["alerts"], fingerprint)
    answer = acknowledge(client, alert["fingerprint"], comment)
    shown = f"{plain(alert['name'])} of {plain(about_of(alert))} is acknowledged"
    click.echo(json.dumps(answer, indent=2) if as_json else shown)


def acknowledge(client: ApiClient, fingerprint: str, comment: str) -> Any:
    """Acknowledge an alert as the user of this terminal."""
    try:
        document = {"comment": comment, "actor": person()}
        return client.post(f"/api/v1/alerts/{fingerprint}/acknowledge", document)
    except CallFailed as error:
        raise click_error(error, client) from None


def _one_of(firing: list[dict[str, Any]], text: str) -> dict[str, Any]:
    """The alert that `text` names; UsageProblem where it names none or several."""
    meant = [alert for alert in firing if alert["name"] == text]
    if not meant and len(text) >= MIN_PREFIX:
        meant = [alert for alert in firing if alert["fingerprint"].startswith(text.lower())]
    if len(meant) == 1:
        return meant[0]
    if not meant:
        raise UsageProblem(f"no firing alert matches {plain(text)}; controlplane alerts lists them")
    named = " or ".join(f"{alert['fingerprint']} ({plain(about_of(alert))})" for alert in meant[:10])
    raise UsageProblem(f"{plain(text)} matches {named}; give the fingerprint")
