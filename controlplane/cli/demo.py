"""`controlplane demo`: server, dashboard and a fleet of real PySpark queries with named troubles.

Checks the options; `controlplane.demo.fleet` runs the demonstration.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from controlplane.cli.options import FiniteRange, data_dir_option, port_option, settings_of, ui_port_option
from controlplane.console import tables
from controlplane.console.errors import UsageProblem
from controlplane.demo import scenarios
from controlplane.settings import Settings


@click.command()
@click.option(
    "--minutes", type=FiniteRange(min=0, min_open=True), help="End after this time; default: on Ctrl-C."
)
@port_option
@ui_port_option
@data_dir_option
@click.option("--only", multiple=True, metavar="TROUBLE…", help="Start only these troubles.")
@click.option("--webhook", metavar="URL", help="Receives every notification.")
@click.option("--list", "list_only", is_flag=True, help="Print the troubles and end.")
@click.option("--json", "as_json", is_flag=True, help="With --list: one JSON document.")
@click.argument("more", nargs=-1, metavar="")
def demo(
    minutes: float | None,
    port: int | None,
    ui_port: int | None,
    data_dir: Path | None,
    only: tuple[str, ...],
    webhook: str | None,
    list_only: bool,
    as_json: bool,
    more: tuple[str, ...],
) -> int:
    """Run a server, the dashboard and four Spark drivers with healthy and troubled queries. Ctrl-C ends them all."""
    troubles = _chosen(only, more)
    if list_only:
        click.echo(listing(troubles, as_json))
        return 0
    base = settings_of(port=port, ui_port=ui_port, data_dir=data_dir, webhook=webhook)
    return _run(base, troubles, minutes, webhook)


def _chosen(only: tuple[str, ...], more: tuple[str, ...]) -> tuple[scenarios.Trouble, ...]:
    """The chosen troubles: `--only a b`, `--only a --only b` and `--only a,b` are the same."""
    if more and not only:
        raise UsageProblem(f"unexpected argument {more[0]!r}; troubles are chosen with --only")
    return scenarios.chosen(name for part in (*only, *more) for name in part.split(",") if name)


def listing(troubles: tuple[scenarios.Trouble, ...], as_json: bool) -> str:
    """The troubles as a table or as JSON."""
    if as_json:
        return json.dumps(scenarios.listing(troubles), indent=2)
    rows = [(t.name, t.query, t.expected_status, t.expected_alert or "-", t.story) for t in troubles]
    return tables.table(("TROUBLE", "QUERY", "STATUS", "ALERT", "WHAT"), rows)


def _run(
    base: Settings, troubles: tuple[scenarios.Trouble, ...], minutes: float | None, webhook: str | None
) -> int:
    from controlplane.demo import fleet
    from controlplane.demo.launch import Options

    options = Options(base.data_dir.resolve(), base.port, base.ui_port, troubles, minutes, webhook)
    return fleet.run(options, click.echo)
