"""`controlplane policy …`, `suspend|resume QUERY` and `ledger`: supervision from the command line.

`policy check` needs no server. Mistakes of a file are `FILE:LINE:COLUMN: message` on standard error, exit code 2.
"""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from controlplane.cli.actions import conclude, drain_option, follow, person, reason_option, wait_option
from controlplane.cli.fleet import ask, find_query
from controlplane.cli.options import DURATION, client_options, json_option, settings_of
from controlplane.cli.rules import counted, error_lines, read
from controlplane.console.client import ApiClient, click_error
from controlplane.console.errors import CallFailed
from controlplane.console.several_servers import open_client
from controlplane.console.tables import age, listing, plain, query_name, shortened
from controlplane.query_names import APP_PREFIX
from controlplane.supervision import policy_file
from controlplane.supervision.policies import PolicySet

POLICIES = ("POLICY", "MODE", "QUERIES", "ON", "BUDGET", "MATCH")
LEDGER = ("AGE", "QUERY", "POLICY", "MODE", "DECISION", "OUTCOME", "WHY")
EFFECT = ("QUERY", "BEFORE", "AFTER")
MAX_WHY = 90  # characters; --json has the whole text
PATH = "/api/v1/policies"
file_argument = click.argument("file", type=click.Path(path_type=Path), metavar="FILE")


@click.group()
def policy() -> None:
    """Policies: which queries are restarted, when, and how often."""


def _loaded(file: Path) -> tuple[str, PolicySet]:
    """The text of a file and its policies; ends the command with 2 where it has mistakes."""
    text = read(file)
    found, mistakes = policy_file.load(text)
    for line in error_lines(file, mistakes):
        click.echo(line, err=True)
    if found is None:
        click.get_current_context().exit(2)
    return text, found


@policy.command()
@file_argument
def check(file: Path) -> None:
    """List every mistake of a file of policies; exit code 2 where there is one."""
    _, found = _loaded(file)
    acting = sum(each.acts for each in found.policies)
    number = len(found.policies)
    click.echo(f"{file}: {number} {'policy' if number == 1 else 'policies'}, {acting} in mode act")


@policy.command()
@file_argument
@reason_option
@json_option
@client_options
def apply(file: Path, reason: str, as_json: bool, **where: Any) -> None:
    """Put the policies of a file in force, in place of all previous ones."""
    text, _ = _loaded(file)
    client = open_client(settings_of(**where))
    body = {"text": text, "reason": reason, "actor": person()}
    answer = _call(client, lambda: client.put(PATH, body))
    click.echo(json.dumps(answer, indent=2) if as_json else _table(answer))


@policy.command()
@file_argument
@client_options
def diff(file: Path, **where: Any) -> int:
    """Compare a file with the policies in force: lines, and the queries whose policy changes. Exit code 1 if any."""
    text, found = _loaded(file)
    client = open_client(settings_of(**where))
    known = ask(client, PATH)
    before, _ = policy_file.load(known["text"])
    lines = difflib.unified_diff(
        known["text"].splitlines(), text.splitlines(), "in force", str(file), lineterm=""
    )
    changed = _effects(ask(client, "/api/v1/queries")["queries"], before or PolicySet(), found)
    shown = [plain(line) for line in lines]
    click.echo("\n".join(shown) if shown else "no difference")
    if changed:
        click.echo(f"\n{counted(len(changed), 'query').replace('querys', 'queries')} with another policy:")
        click.echo(
            listing(EFFECT, changed, lambda row: (query_name(row["query"]), row["before"], row["after"]))
        )
    return 1 if shown else 0


def _effects(queries: list[dict[str, Any]], before: PolicySet, after: PolicySet) -> list[dict[str, Any]]:
    found = []
    for query in queries:
        name = query["name"] or query["query_id"][:8]
        labels = {**query["labels"], "app": query["app"], "query": name, "query_id": query["query_id"]}
        old, new = _holding(before, labels), _holding(after, labels)
        if old != new:
            found.append({"query": query, "before": old, "after": new})
    return found


def _holding(policies: PolicySet, labels: dict[str, str]) -> str:
    found = policies.of(labels)
    return f"{found.name} ({found.mode})" if found else "none"


@policy.command()
@json_option
@client_options
def show(as_json: bool, **where: Any) -> None:
    """The policies in force, in order: the first that matches a query holds."""
    answer = ask(open_client(settings_of(**where)), PATH)
    click.echo(json.dumps(answer, indent=2) if as_json else _table(answer))


def _table(answer: dict[str, Any]) -> str:
    by = (
        f"applied by {plain(answer['applied_by'])} at {answer['applied_at']}"
        if answer["version"]
        else "built in"
    )
    head = f"version {answer['version']}, {by}"
    return f"{head}\n{listing(POLICIES, answer['policies'], _policy_row)}" if answer["policies"] else head


def _policy_row(p: dict[str, Any]) -> tuple[object, ...]:
    budget, match = p["restart"]["budget"], ", ".join(p["match"]) or "every query"
    return (
        p["name"],
        p["mode"],
        p["queries"],
        ", ".join(p["restart"]["on"]),
        f"{budget['restarts']} in {budget['per']}",
        match,
    )


@policy.command()
@click.argument("query")
@json_option
@client_options
def explain(query: str, as_json: bool, **where: Any) -> None:
    """Which policy holds for a query, why, and what it would decide now."""
    client = open_client(settings_of(**where))
    answer = ask(client, f"/api/v1/queries/{find_query(client, query)}/policy")
    click.echo(json.dumps(answer, indent=2) if as_json else "\n".join(_explained(answer)))


def _explained(answer: dict[str, Any]) -> list[str]:
    desired, holding, decision = answer["desired"], answer["policy"], answer["next"]
    by = f", set by {plain(desired['actor'])} at {desired['at']}" if desired["actor"] else ""
    lines = [f"desired: {desired['state']}{by}", f"actual: {answer['status']}"]
    name = f"{plain(holding['name'])} (mode {holding['mode']})" if holding else "none"
    lines += [f"policy: {name}. {plain(answer['why'])}"]
    lines += [
        f"  passed over {plain(m['policy'])}: {plain(m['why'])}"
        for m in answer["compared"]
        if not m["matches"]
    ]
    if holding:
        lines.append(f"restarts: {answer['restarts']} of {holding['restart']['budget']['restarts']} counted")
    if answer["hold"]:
        lines.append(f"given up: {plain(answer['hold']['why'])}")
    now = (
        f"{decision['decision']}: {plain(decision['why'])}"
        if decision
        else "nothing: the query is not in trouble"
    )
    return [*lines, f"now: {now}"]


def _desired(name: str, state: str, summary: str) -> click.Command:
    def command(
        query: str, reason: str, wait: float | None, as_json: bool, drain: bool = False, **where: Any
    ) -> None:
        client = open_client(settings_of(**where))
        query_id = find_query(client, query)
        body = {"state": state, "reason": reason, "actor": person(), "drain": drain}
        answer = _call(client, lambda: client.put(f"/api/v1/queries/{query_id}/desired", body))
        if answer["action"] is None:
            done = f"desired state: {state}; nothing else to do"
            click.echo(json.dumps(answer, indent=2) if as_json else done)
            return
        click.get_current_context().exit(conclude(follow(client, answer["action"], wait), as_json))

    for option in (
        client_options,
        json_option,
        wait_option,
        reason_option,
        *([drain_option] if name == "suspend" else []),
    ):
        command = option(command)
    return click.command(name, help=summary)(click.argument("query")(command))


suspend = _desired("suspend", "suspended", "Stop a query until it is resumed; no policy starts it.")
resume = _desired("resume", "running", "Start a suspended or stopped query; policies supervise it again.")


@click.command()
@click.option(
    "--query",
    metavar="QUERY",
    help="Only about this query: id, prefix of one, or name; `app:NAME`: about an application.",
)
@click.option(
    "--since", type=DURATION, default="7d", show_default=True, metavar="DURATION", help="For example 12h."
)
@click.option("--limit", type=click.IntRange(1, 10_000), default=200, show_default=True)
@json_option
@client_options
def ledger(query: str | None, since: float, limit: int, as_json: bool, **where: Any) -> None:
    """Every decision of the policies, newest first, and what they were worth."""
    client, now = open_client(settings_of(**where)), time.time()
    query_id = query if not query or query.startswith(APP_PREFIX) else find_query(client, query)
    answer = ask(client, "/api/v1/ledger", query_id=query_id, start=now - since, limit=limit)
    click.echo(json.dumps(answer, indent=2) if as_json else _ledger_table(answer, now))


def _ledger_table(answer: dict[str, Any], now: float) -> str:
    if not answer["entries"]:
        return "no decisions"
    rows = listing(LEDGER, answer["entries"], lambda entry: _ledger_row(entry, now))
    return f"{rows}\n\n" + "\n".join(
        _figures(mode, f) for mode, f in answer["figures"].items() if any(f.values())
    )


def _ledger_row(e: dict[str, Any], now: float) -> tuple[object, ...]:
    outcome = e["outcome"] or "–"
    why = shortened(e["why"], MAX_WHY)
    return age(e["at"], now), query_name(e), e["policy"], e["mode"], e["decision"], outcome, why


def _figures(mode: str, f: dict[str, int]) -> str:
    helped, was = ("helped", "was") if mode == "act" else ("would have helped", "would have been")
    worth = (
        f"{helped} {f['helped']}, {was} useless {f['useless']}, {was} wrong {f['wrong']}, open {f['open']}"
    )
    return f"mode {mode}: automation {worth}"


def _call(client: ApiClient, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except CallFailed as error:
        raise click_error(error, client) from None
