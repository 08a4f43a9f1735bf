"""`controlplane checkpoints` and `controlplane shape QUERY`: checkpoint reports and query shapes from the server.

The output of `controlplane shape QUERY` serves as `--old` of `controlplane preflight`.
"""

from __future__ import annotations

import json
import time
from typing import Any

import click

from controlplane.cli.fleet import ask, find_query
from controlplane.cli.options import client_options, json_option, settings_of
from controlplane.console.errors import UsageProblem
from controlplane.console.several_servers import open_client
from controlplane.console.tables import UNKNOWN, age, figure, listing, plain, query_name, shortened

HEAD = ("VERDICT", "QUERY", "BATCH", "NEXT", "FILES", "BYTES", "CHECKED", "SUMMARY")
#: Characters; --json and the dashboard have the full text.
MAX_SUMMARY_LENGTH = 110
BAD = ("broken", "unreadable")


@click.command()
@click.argument("query", required=False)
@json_option
@client_options
def checkpoints(query: str | None, as_json: bool, **where: Any) -> int:
    """List the checkpoint health of every query, worst first; of one QUERY, with its findings.

    Exit 1 if a checkpoint is broken or unreadable.
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
    return 1 if any(item["verdict"] in BAD for item in found) else 0


def _table(found: list[dict[str, Any]]) -> str:
    if not found:
        return "no queries"
    return listing(HEAD, found, lambda item: _row(item, time.time()))


def _row(item: dict[str, Any], now: float) -> tuple[object, ...]:
    verdict = f"{item['verdict']}{' (stale)' if item['stale'] else ''}"
    name = query_name({**item, "name": item["query"]})
    summary = item["summary"] if item["collected_at"] else item["trouble"] or UNKNOWN
    return (
        verdict,
        name,
        item["last_committed_batch"],
        item["next_batch"],
        figure(item["files"]),
        figure(item["bytes"]),
        age(item["logs_read_at"] or item["collected_at"], now),
        shortened(summary, MAX_SUMMARY_LENGTH),
    )


def _findings(found: list[dict[str, Any]]) -> list[str]:
    lines = []
    for finding in found:
        lines += ["", f"{finding['severity']}  {plain(finding['check'])}: {plain(finding['message'])}"]
        lines += [f"  {number}. {plain(step)}" for number, step in enumerate(finding["remedy"], 1)]
    return lines


@click.command()
@click.argument("query")
@click.option("--run", metavar="RUN", help="The run; default: the newest.")
@client_options
def shape(query: str, run: str | None, **where: Any) -> None:
    """Print the shape of a query's newest run as JSON: the parts of the query that its checkpoint depends on.

    `controlplane shape Q > old.json` and, after the change, `controlplane preflight --old old.json --new
    new.json`.
    """
    client = open_client(settings_of(**where))
    answer = ask(client, f"/api/v1/queries/{find_query(client, query)}/shape", run=run)
    if not isinstance(answer.get("shape"), dict):
        raise UsageProblem("the server sent no shape; it may be of an older version")
    click.echo(json.dumps(answer["shape"], indent=2))
