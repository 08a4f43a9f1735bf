"""`controlplane rules check|test|replay|show|export`: validate, test, replay and export rule files.

`check`, `test`, `show` and `export` need no server. Errors are `FILE:LINE:COLUMN: message` on standard error.
"""

from __future__ import annotations

import glob
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import click

from alerts import unit_tests
from alerts.durations import format_duration
from alerts.matching.labels import Matcher
from alerts.promql.functions import relabeling
from alerts.promql.series import METRIC_NAME
from alerts.promql.syntax.nodes import selectors
from alerts.replay import ALERT_SERIES
from alerts.rules import loader, pack, thresholds
from alerts.rules.model import RuleGroup, RuleKind
from alerts.unit_tests import UnitTestFile
from alerts.yaml.tree import DocumentError
from controlplane.cli.options import DURATION, FiniteRange, client_options, json_option, settings_of
from controlplane.cli.rule_export import export_rules
from controlplane.console.client import TIMEOUT_SECONDS, ApiClient, click_error, token_of
from controlplane.console.errors import CallFailed, UsageProblem
from controlplane.console.tables import plain
from listeners.protocol import catalogue

REPLAY_SECONDS = 120.0 + TIMEOUT_SECONDS  # the server times out after two minutes
#: Prefixes of metrics that the catalogue derives from Spark's custom metrics.
DERIVED = tuple(catalogue.PREFIX + stem for stem in ("rocksdb_", "state_custom_", "source_custom_"))
Groups = Sequence[RuleGroup]


@click.group()
def rules() -> None:
    """Prometheus rule files: check, test, replay, export."""


rules.add_command(export_rules)


@rules.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE…")
def check(files: tuple[Path, ...]) -> int:
    """List every error in rule files; exit code 2 where there is one."""
    wrong = False
    for file in files:
        groups, mistakes = loader.load(read(file), str(file))
        mistakes = tuple(sorted((*mistakes, *never_evaluated(groups))))
        for line in error_lines(file, mistakes):
            click.echo(line, err=True)
        for line in warnings(file, groups):
            click.echo(line, err=True)
        wrong = wrong or bool(mistakes)
        if not mistakes:
            count = sum(len(group.rules) for group in groups)
            click.echo(f"{file}: {counted(len(groups), 'group')}, {counted(count, 'rule')}")
    return 2 if wrong else 0


def counted(count: int, noun: str) -> str:
    """`1 rule`, `2 rules`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def read(file: Path) -> str:
    """The text of a file; UsageProblem where it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(
            f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}"
        ) from None


def error_lines(file: Path | str, mistakes: Iterable[DocumentError]) -> list[str]:
    """`FILE:LINE:COLUMN: message` for each error."""
    return [f"{file}:{m.line}:{m.column}: {plain(m.message)}" for m in mistakes]


def never_evaluated(groups: Groups) -> Iterator[DocumentError]:
    """Errors of rules that load, as in Prometheus, and fail at every evaluation or have no effect."""
    for group in groups:
        for rule in group.rules:
            for mistake in relabeling.mistakes(rule.node):
                yield DocumentError(rule.line, 1, f"{rule.name} fails at every evaluation: {mistake}")
            if rule.kind is RuleKind.RECORD:
                yield from (DocumentError(rule.line, 1, m) for m in thresholds.mistakes(rule.name))


def warnings(file: Path | str, groups: Groups) -> Iterator[str]:
    """Warnings on metrics of this project that rules read and nothing reports."""
    recorded = {rule.name for group in groups for rule in group.rules if rule.kind is RuleKind.RECORD}
    for group in groups:
        for rule in group.rules:
            for name in sorted(names_read(rule.node) - recorded - ALERT_SERIES):
                if is_unknown(name):
                    yield f"{file}:{rule.line}: warning: {rule.name} reads {name}, which nothing reports"


def names_read(node: Any) -> set[str]:
    """Names of the metrics that an expression selects by name."""
    matchers = (m for selector in selectors(node) for m in selector.matchers)
    return {m.value for m in matchers if m.name == METRIC_NAME and m.operator == "="}


def is_unknown(name: str) -> bool:
    """Whether a name has a prefix of this project and is not in the catalogue."""
    if not name.startswith((catalogue.PREFIX, "controlplane_")) or name.startswith(DERIVED):
        return False
    if name.startswith(thresholds.PREFIX):
        return name.removeprefix(thresholds.PREFIX) not in thresholds.DEFAULTS
    custom = (*catalogue.STATE_METRICS.values(), *catalogue.SOURCE_METRICS.values())
    return name not in catalogue.BY_NAME and name not in {metric.name for metric in custom}


# -- unit tests ------------------------------------------------------------------------------------


@rules.command("test")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE…")
def test_rules(files: tuple[Path, ...]) -> int:
    """Run unit tests in promtool's format; exit code 1 where one fails."""
    failed = False
    for file in files:
        tests, groups = _loaded(file)
        differences = [mistake for test in tests.tests for mistake in unit_tests.run(test, groups, tests)]
        for line in error_lines(file, sorted(differences)):
            click.echo(line, err=True)
        failed = failed or bool(differences)
        passed = f"{counted(len(tests.tests), 'test')} passed"
        click.echo(f"{file}: {'FAILED' if differences else passed}")
    return 1 if failed else 0


def _loaded(file: Path) -> tuple[UnitTestFile, Groups]:
    """The tests and the rules that they test; ends the command with every error of these files."""
    tests, mistakes = unit_tests.load(read(file))
    found = error_lines(file, mistakes)
    groups: list[RuleGroup] = []
    for pattern in tests.rule_files:
        paths = sorted(glob.glob(str(file.parent / pattern)))
        if not paths:
            found.append(f"{file}: there is no rule file {plain(pattern)}")
        for path in paths:
            loaded, wrong = loader.load(read(Path(path)), path)
            groups += loaded
            found += error_lines(path, wrong)
    if found:
        refuse(found)
    return tests, groups


def refuse(lines: Iterable[str]) -> NoReturn:
    """End the command with exit code 2 and one line an error."""
    for line in lines:
        click.echo(line, err=True)
    click.get_current_context().exit(2)


# -- replay ----------------------------------------------------------------------------------------


@rules.command("replay")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--since", type=DURATION, default="1d", show_default=True, help="How far back to begin.")
@click.option("--until", type=DURATION, default="0", help="How far back to end.  [default: now]")
@json_option
@client_options
def replay_rules(file: Path, since: float, until: float, as_json: bool, **where: Any) -> None:
    """Show when the rules of FILE would have fired on the stored history."""
    text = read(file)
    _, mistakes = loader.load(text, str(file))
    if mistakes:
        refuse(error_lines(file, mistakes))
    settings = settings_of(**where)
    client = ApiClient(settings.server_url, token_of(settings), REPLAY_SECONDS, settings.ca_file)
    now = time.time()
    body = {"rules": text, "start": now - since, "end": now - until}
    try:
        answer = client.post("/api/v1/rules/replay", body)
    except CallFailed as error:
        raise click_error(error, client) from None
    click.echo(json.dumps(answer, indent=2) if as_json else "\n".join(replay_lines(answer)))


def replay_lines(answer: dict[str, Any]) -> list[str]:
    """One line an episode, then errors, notes and totals."""
    lines = [episode_line(episode) for episode in answer["episodes"]]
    lines += [
        f"{plain(e['rule'])} failed {counted(e['count'], 'time')}, first at {e['first_at']}: {plain(e['error'])}"
        for e in answer["errors"]
    ]
    lines += [f"note: {plain(note)}" for note in answer["notes"]]
    alerts, count = counted(len(answer["episodes"]), "alert"), counted(answer["evaluations"], "evaluation")
    return [*lines, f"{alerts} in {count} from {answer['start']} to {answer['until']}"]


def episode_line(episode: dict[str, Any]) -> str:
    """When an alert would have fired, and with which labels."""
    labels = {name: value for name, value in episode["labels"].items() if name != "alertname"}
    where = plain("{" + ", ".join(str(Matcher(n, "=", v)) for n, v in sorted(labels.items())) + "}")
    return (
        f"{plain(episode['name'])} would have fired at {episode['fired_at']} {_length(episode)}, on {where}"
    )


def _length(episode: dict[str, Any]) -> str:
    if episode["resolved_at"] is None:
        return "until now"
    fired, resolved = (datetime.fromisoformat(episode[name]) for name in ("fired_at", "resolved_at"))
    return f"for {format_duration(round((resolved - fired).total_seconds()))}"


@rules.command()
@click.option(
    "--scale",
    type=FiniteRange(0, 1000, min_open=True),
    default=1.0,
    help="Multiply windows and `for` durations.",
)
@click.option("--routing", is_flag=True, help="Show the shipped routing instead of the rules.")
def show(scale: float, routing: bool) -> None:
    """Print the shipped rules as a Prometheus rule file."""
    click.echo(pack.render_routing(scale) if routing else pack.render(scale), nl=False)
