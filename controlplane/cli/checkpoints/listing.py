"""`controlplane checkpoints` and `controlplane shape QUERY`: what the server knows of checkpoints and shapes.

`controlplane shape QUERY > old.json` is the `--old` of `controlplane preflight`.
"""

from __future__ import annotations

import json
import time
from typing import Any

import click

from controlplane.cli.fleet import ask, find_query
from controlplane.cli.options import client_options, json_option, settings_of
from controlplane.console.client import open_client
from controlplane.console.errors import UsageProblem
from controlplane.console.tables import UNKNOWN, age, figure, plain, query_name, shortened, table

HEAD = ("VERDICT", "QUERY", "BATCH", "NEXT", "FILES", "BYTES", "SEEN", "SUMMARY")
SUMMARY = 110  # characters; the whole of it is in --json and on the page
BAD = ("broken", "unreadable")


@click.command()
@click.argument("query", required=False)
@json_option
@client_options
def checkpoints(query: str | None, as_json: bool, **where: Any) -> int:
    """What the doctor says of each query's checkpoint, worst first; of one QUERY, with its findings.

    Exit 1 where one of them is broken or unreadable.
    """
    client = open_client(settings_of(**where))
    if query is not None:
        answer = ask(client, f"/api/v1/checkpoints/{find_query(client, query)}")
        found = [answer["checkpoint"]]
        text = "\n".join([_table(found), *_findings(answer["findings"])])
    else:
        answer = ask(client, "/api/v1/checkpoints")
        found = answer["checkpoints"]
        text = _table(found)
    click.echo(json.dumps(answer, indent=2) if as_json else text)
    return 1 if any(one["verdict"] in BAD for one in found) else 0


def _table(found: list[dict[str, Any]]) -> str:
    if not found:
        return "no queries"
    return table(HEAD, [_row(one, time.time()) for one in found])


def _row(one: dict[str, Any], now: float) -> tuple[object, ...]:
    verdict = f"{one['verdict']}{' (stale)' if one['stale'] else ''}"
    name = query_name({**one, "name": one["query"]})
    summary = one["summary"] if one["collected_at"] else one["trouble"] or UNKNOWN
    return (
        verdict,
        name,
        one["last_committed_batch"],
        one["next_batch"],
        figure(one["files"]),
        figure(one["bytes"]),
        age(one["collected_at"], now),
        shortened(summary, SUMMARY),
    )


def _findings(found: list[dict[str, Any]]) -> list[str]:
    lines = []
    for finding in found:
        lines += ["", f"{finding['severity']}  {plain(finding['check'])}: {plain(finding['message'])}"]
        lines += [f"  {number}. {plain(step)}" for number, step in enumerate(finding["remedy"], 1)]
    return lines


@click.command()
@click.argument("query")
@click.option("--run", metavar="RUN", help="Of this run; default: the newest.")
@client_options
def shape(query: str, run: str | None, **where: Any) -> None:
    """Print the shape of a query's newest run as JSON: what of it its checkpoint depends on.

    `controlplane shape Q > old.json` and, after the change, `controlplane preflight --old old.json --new new.json`.
    """
    client = open_client(settings_of(**where))
    answer = ask(client, f"/api/v1/queries/{find_query(client, query)}/shape", run=run)
    if not isinstance(answer.get("shape"), dict):
        raise UsageProblem("the server sent no shape; is it of an older version?")
    click.echo(json.dumps(answer["shape"], indent=2))
