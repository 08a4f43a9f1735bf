"""`controlplane alerts`: present alerts; `alerts ack`: acknowledge one; `alerts history`: past alerts; `incidents`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from controlplane.cli.actions import person
from controlplane.cli.fleet import ask, find_query
from controlplane.cli.options import DURATION, client_options, json_option, settings_of
from controlplane.console.client import ApiClient, click_error
from controlplane.console.errors import CallFailed, UsageProblem
from controlplane.console.several_servers import open_client
from controlplane.console.tables import age, listing, plain, query_name, shortened

INCIDENT_HEAD = ("ID", "AGE", "STATE", "KIND", "CAUSE", "TRIAL", "EXTENT")
MEMBER_HEAD = ("STATUS", "QUERY", "ID", "SINCE", "UP AGAIN")
ID_CHARS = 8
WHOLE_ID_CHARS = 36
INCIDENTS = "/api/v1/incidents"
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
    return listing(HEAD, found, lambda alert: _row(alert, now))


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


class IncidentGroup(click.Group):
    """`incidents [ID]` is `incidents show [ID]`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named else ["show", *args])


@click.group(cls=IncidentGroup)
def incidents() -> None:
    """Incidents: queries that failed with one cause. `incidents [ID]` is `incidents show [ID]`."""


@incidents.command()
@click.argument("incident", required=False)
@click.option(
    "--since", type=DURATION, default="7d", show_default=True, metavar="DURATION", help="For example 12h."
)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@json_option
@client_options
def show(incident: str | None, since: float, limit: int, as_json: bool, **where: Any) -> None:
    """Open and recent incidents, newest first; of INCIDENT (an id or the beginning of one) its queries and timeline."""
    client, now = open_client(settings_of(**where)), time.time()
    found = ask(client, INCIDENTS, start=now - since, limit=limit)["incidents"]
    if incident is None:
        click.echo(json.dumps({"incidents": found}, indent=2) if as_json else _incident_table(found, now))
        return
    detail = ask(client, f"{INCIDENTS}/{_incident_id(found, incident)}")
    click.echo(json.dumps(detail, indent=2) if as_json else "\n".join(_incident_detail(detail, now)))


@incidents.command()
@click.argument("incident")
@click.option(
    "--output", type=click.Path(path_type=Path, dir_okay=False), help="File; default: standard output."
)
@client_options
def export(incident: str, output: Path | None, **where: Any) -> None:
    """Write an incident with its queries as one HTML file: timeline, failures, changes, checkpoints, actions."""
    client = open_client(settings_of(**where))
    incident_id = incident
    if len(incident) < WHOLE_ID_CHARS:
        incident_id = _incident_id(ask(client, INCIDENTS, start=0, limit=1000)["incidents"], incident)
    page = ask(client, f"{INCIDENTS}/{incident_id}/bundle")
    if output is None:
        click.echo(page)
        return
    try:
        output.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageProblem(f"cannot write {output}: {error.strerror or error}") from None
    click.echo(f"{output}: incident {incident_id}", err=True)


def _incident_id(found: list[dict[str, Any]], prefix: str) -> str:
    matching = [str(i["id"]) for i in found if i["id"].startswith(prefix)]
    if len(matching) != 1:
        raise click.UsageError(
            f"{len(matching)} incidents of the last days have an id that begins with {prefix}"
        )
    return matching[0]


def _incident_table(found: list[dict[str, Any]], now: float) -> str:
    return listing(INCIDENT_HEAD, found, lambda i: _incident_row(i, now)) if found else "no incidents"


def _incident_row(i: dict[str, Any], now: float) -> tuple[object, ...]:
    state = "ended" if i["ended_at"] else f"{i['down']} of {len(i['members'])} down"
    trial = i["trial"]["state"] if i["trial"] else "–"
    return i["id"][:ID_CHARS], age(i["began_at"], now), state, i["kind"], i["cause"], trial, i["sentence"]


def _incident_detail(detail: dict[str, Any], now: float) -> list[str]:
    incident = detail["incident"]
    members = listing(MEMBER_HEAD, incident["members"], lambda m: _member_row(m, now))
    events = [f"{e['at']}  {e['kind']:<12}  {plain(e['text'])}" for e in detail["timeline"]]
    return [plain(incident["sentence"]), "", members, "", *events]


def _member_row(m: dict[str, Any], now: float) -> tuple[object, ...]:
    up = age(m["until"], now) if m["until"] else "–"
    return m["status"], query_name(m), m["query_id"][:ID_CHARS], age(m["since"], now), up
