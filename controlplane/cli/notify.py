"""`controlplane notify test RECEIVER`: send a trial notification through the server, and print what became of it."""

from __future__ import annotations

import json
from typing import Any

import click

from controlplane.cli.actions import person
from controlplane.cli.options import client_options, json_option, settings_of
from controlplane.console.client import ApiClient, click_error, token_of
from controlplane.console.errors import CallFailed
from controlplane.console.tables import plain, table

HEAD = ("INTEGRATION", "RESULT")
#: A mail server may take half a minute, twice: for the trial and for its end.
TIMEOUT_SECONDS = 90.0


@click.group()
def notify() -> None:
    """Notifications."""


@notify.command("test")
@click.argument("receiver")
@json_option
@client_options
@click.pass_context
def try_receiver(ctx: click.Context, receiver: str, as_json: bool, **where: Any) -> None:
    """Send a trial notification to every integration of RECEIVER. Exit code 1 if one of them fails.

    The trial is resolved at once where the receiver is notified of resolved alerts.
    """
    settings = settings_of(**where)
    client = ApiClient(settings.server_url, token_of(settings), TIMEOUT_SECONDS, settings.ca_file)
    try:
        answer = client.post("/api/v1/receivers/try", {"receiver": receiver, "actor": person()})
    except CallFailed as error:
        raise click_error(error, client) from None
    click.echo(json.dumps(answer, indent=2) if as_json else listed(answer["integrations"]))
    if not all(result["delivered"] for result in answer["integrations"]):
        ctx.exit(1)


def listed(results: list[dict[str, Any]]) -> str:
    """A table of the integrations: delivered, or why not."""
    return table(
        HEAD,
        [(r["name"], "delivered" if r["delivered"] else f"failed: {plain(r['error'])}") for r in results],
    )
