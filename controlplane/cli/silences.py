"""`controlplane silence add|list|expire`: silences of alerts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote

import click

from controlplane.cli.actions import person
from controlplane.cli.fleet import ask
from controlplane.cli.options import DURATION, client_options, json_option, settings_of
from controlplane.console.client import ApiClient, click_error
from controlplane.console.errors import CallFailed, UsageProblem
from controlplane.console.several_servers import open_client
from controlplane.console.tables import listing, plain, shortened

HEAD = ("ID", "STATE", "ENDS", "BY", "ALERTS", "MATCHERS", "COMMENT")
MAX_COMMENT = 60  # characters; --json has the whole text
PATH = "/api/v1/silences"


@click.group()
def silence() -> None:
    """Silences: matching alerts are shown but not notified."""


@silence.command()
@click.argument("matchers", nargs=-1, required=True, metavar="MATCHER…")
@click.option("--for", "duration", type=DURATION, help="Duration, e.g. 2h.")
@click.option("--until", metavar="TIME", help="End time, e.g. 2026-11-20T18:00:00Z.")
@click.option("--comment", default="", help="Why; recorded with the silence.")
@json_option
@client_options
def add(
    matchers: tuple[str, ...],
    duration: float | None,
    until: str | None,
    comment: str,
    as_json: bool,
    **where: Any,
) -> None:
    """Silence alerts that match every MATCHER: alertname=LagGrowing, app="orders", team=~"a|b".

    A first argument without an operator is the name of an alert.
    """
    if (duration is None) == (until is None):
        raise UsageProblem("give the duration or the end: --for 2h or --until 2026-11-20T18:00:00Z")
    client = open_client(settings_of(**where))
    body = {
        "matchers": [named(matchers[0]), *matchers[1:]],
        "duration_seconds": duration,
        "ends_at": until,
        "comment": comment,
        "actor": person(),
    }
    made = _call(client, partial(client.post, PATH, body))
    click.echo(json.dumps(made, indent=2) if as_json else _made(made["silence"]))


def named(text: str) -> str:
    """`LagGrowing` becomes `alertname="LagGrowing"`, as in amtool; matchers stay."""
    return f'alertname="{text}"' if re.fullmatch(r"\w+", text) else text


def _made(made: dict[str, Any]) -> str:
    covers = f"{made['alerts']} firing alert{'' if made['alerts'] == 1 else 's'}"
    return f"{made['id']}  {plain(made['text'])} until {made['ends_at']}; covers {covers} now"


def _call(client: ApiClient, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except CallFailed as error:
        raise click_error(error, client) from None


@silence.command("list")
@click.option("--expired", is_flag=True, help="Include expired silences.")
@json_option
@client_options
def list_silences(expired: bool, as_json: bool, **where: Any) -> None:
    """Silences, newest first."""
    client = open_client(settings_of(**where))
    found = [s for s in ask(client, PATH)["silences"] if expired or s["state"] != "expired"]
    if as_json:
        click.echo(json.dumps({"silences": found}, indent=2))
    else:
        click.echo(listing(HEAD, found, _row) if found else "no silences")


def _row(s: dict[str, Any]) -> tuple[object, ...]:
    by = f"{s['created_by']} ({s['alertmanager']})" if s.get("alertmanager") else s["created_by"]
    shown = s["id"], s["state"], s["ends_at"], by, s["alerts"], s["text"]
    return *shown, shortened(s["comment"], MAX_COMMENT)


@silence.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@client_options
def expire(ids: tuple[str, ...], **where: Any) -> None:
    """End silences now, by their id or a unique beginning of it."""
    client = open_client(settings_of(**where))
    known = [silence["id"] for silence in ask(client, PATH)["silences"]]
    for id in [_one_of(known, text) for text in ids]:
        ended = _call(client, partial(client.delete, f"{PATH}/{id}?actor={quote(person() or '')}"))["silence"]
        click.echo(f"{ended['id']}  {plain(ended['text'])} has ended")


def _one_of(known: list[str], text: str) -> str:
    meant = [id for id in known if text and id.startswith(text.lower())]
    if len(meant) != 1:
        raise UsageProblem(
            f"{len(meant) or 'no'} silences begin with {plain(text)!r}; controlplane silence list shows them"
        )
    return meant[0]
