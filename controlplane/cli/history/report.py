"""`controlplane history report`: a report on the lake's history, as an HTML page and as JSON."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from controlplane.cli.history.import_logs import parse_when
from controlplane.cli.options import FiniteRange
from controlplane.console.errors import UsageProblem

SIZES = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}


class SizeType(click.ParamType):
    """Parse `500MB` or `8GiB` to bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?", str(value).lower())
        if found is None or found[2] not in SIZES:
            self.fail(f"{value!r} is not a size: write 500MB or 8GiB", param, ctx)
        return float(found[1]) * SIZES[found[2]]


@click.command()
@click.option("--lake", "url", envvar="CONTROLPLANE_LAKE", required=True, metavar="URL", help="Lake.")
@click.option(
    "--since",
    default="30d",
    show_default=True,
    metavar="WHEN",
    help="Start of the report: 30d, or 2026-01-31.",
)
@click.option("--until", metavar="WHEN", help="End of the report, in the same form.  [default: now]")
@click.option(
    "--query",
    "queries",
    multiple=True,
    metavar="NAME|ID",
    help="Only this query, also as APP/NAME; repeatable.",
)
@click.option("--app", help="Only this application.")
@click.option(
    "--limit-state-rows",
    type=FiniteRange(1),
    metavar="N",
    help="Limit of a query's state in rows, for the forecast.",
)
@click.option(
    "--limit-state-bytes",
    type=SizeType(),
    metavar="SIZE",
    help="Limit of a query's state in bytes, for the forecast.",
)
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the HTML page to this file."
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option("--master", metavar="URL", help="Spark master.  [default: spark-submit's, else local[*]]")
def report(
    url: str,
    since: str,
    until: str | None,
    queries: tuple[str, ...],
    app: str | None,
    limit_state_rows: float | None,
    limit_state_bytes: float | None,
    out: Path | None,
    as_json: bool,
    master: str | None,
) -> None:
    """Report objectives, worst queries, trends and forecasts, restarts, noisy alerts and headroom."""
    if out is None and not as_json:
        raise UsageProblem("no output chosen: set --out report.html or --json")
    if out is not None and not out.absolute().parent.is_dir():
        raise UsageProblem(f"folder {out.absolute().parent} does not exist: create it first")
    from controlplane.lake.lake import Lake
    from controlplane.pipeline.report.page import render_html
    from controlplane.pipeline.report.report_job import build_report
    from controlplane.pipeline.report.report_stats import ReportRequest
    from controlplane.pipeline.runtime.job_progress import JobProgress
    from controlplane.pipeline.runtime.session import get_session, spark_errors

    now = time.time()
    begin, end = _at(parse_when(since, now)), _at(now if until is None else parse_when(until, now))
    if begin >= end:
        raise UsageProblem(f"--since {since} is not before --until {until or 'now'}")
    report_request = ReportRequest(url, begin, end, queries, app, limit_state_rows, limit_state_bytes)
    lake = Lake.open(url)
    with JobProgress(partial(click.echo, err=True)) as progress:
        progress.step("starting Spark")
        spark = get_session("controlplane-history-report", master)
        progress.watch(spark)
        with spark_errors("the lake cannot be read"):
            document = build_report(spark, lake, report_request, _at(now), progress.step)
    if out is not None:
        out.write_text(render_html(document), encoding="utf-8")
        click.echo(
            f"{out}: {document['fleet']['queries']} queries, {begin:%Y-%m-%d} to {end:%Y-%m-%d}", err=True
        )
    if as_json:
        click.echo(json.dumps(document, indent=2))


def _at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
