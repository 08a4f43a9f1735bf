"""`controlplane history rollup`: update the lake's rollups and baselines, by a Spark job.

Unchanged days are skipped, so the command may run every hour or after each import.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from alerts.durations import parse_duration
from controlplane.cli.options import DURATION, client_options, json_option, settings_of
from controlplane.console.client import ApiClient, click_error
from controlplane.console.errors import CallFailed, ServerFailed, UsageProblem
from controlplane.console.several_servers import open_client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from controlplane.lake.lake import Lake
    from controlplane.pipeline.rollup.baseline_job import BaselineResult
    from controlplane.pipeline.rollup.rollup_job import RollupRequest, RollupSummary

DAY_HELP = "a day, as 2026-03-29 (UTC), or how long ago, as 30d"


@click.command()
@click.option("--lake", metavar="URL", help="Lake.  [default: CONTROLPLANE_LAKE]")
@click.option("--since", metavar="DAY", help=f"First day: {DAY_HELP}.")
@click.option("--until", metavar="DAY", help="Last day.")
@click.option(
    "--objective",
    type=DURATION,
    default="5m",
    show_default=True,
    help="Objective: a batch meets it if its lag and its duration are within this duration.",
)
@click.option(
    "--weeks", type=click.IntRange(3, 52), default=4, show_default=True, help="Weeks of data for baselines."
)
@click.option("--no-baselines", is_flag=True, help="Do not compute baselines.")
@click.option("--publish", is_flag=True, help="Publish the baselines to the server.")
@click.option("--master", metavar="URL", help="Spark master.  [default: spark-submit's, else local[*]]")
@click.option("--force", is_flag=True, help="Also recompute unchanged days.")
@client_options
@json_option
def rollup(
    lake: str | None,
    since: str | None,
    until: str | None,
    objective: float,
    weeks: int,
    no_baselines: bool,
    publish: bool,
    master: str | None,
    force: bool,
    as_json: bool,
    **where: Any,
) -> None:
    """Roll up the lake by minute, hour and day, and compute baselines for each query.

    A day is recomputed when its rows, or those of the day before or after it, have changed.
    """
    settings = settings_of(lake=lake, **where)
    if settings.lake is None:
        raise UsageProblem("no lake given: set --lake URL or CONTROLPLANE_LAKE")
    if publish and no_baselines:
        raise UsageProblem("--publish and --no-baselines exclude each other: remove one of them")
    from controlplane.lake.lake import Lake
    from controlplane.pipeline.rollup.rollup_job import RollupRequest

    now = time.time()
    request = RollupRequest(_day("--since", since, now), _day("--until", until, now), objective, force)
    if request.since and request.until and request.until < request.since:
        raise UsageProblem(f"--until {request.until} is before --since {request.since}")
    opened_lake = Lake.open(settings.lake)
    rollups, baseline_result = _work(opened_lake, request, None if no_baselines else weeks, master, now)
    published = _publish(opened_lake, open_client(settings)) if publish else None
    _print_summary(rollups, baseline_result, published, as_json)


def _day(option: str, text: str | None, now: float) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        pass
    try:
        return (datetime.fromtimestamp(now, UTC) - timedelta(seconds=parse_duration(text))).date()
    except (ValueError, OverflowError):
        raise UsageProblem(
            f"{option}: {text!r} is not a day: write 2026-03-29 (UTC), or how long ago, as 30d"
        ) from None


def _work(
    lake: Lake, request: RollupRequest, weeks: int | None, master: str | None, now: float
) -> tuple[RollupSummary, BaselineResult | None]:
    """Update rollups, then baselines over `weeks` weeks. Spark is started by the first that has
    work to do.
    """
    from controlplane.pipeline.rollup.baseline_job import refresh_baselines
    from controlplane.pipeline.rollup.rollup_job import refresh_rollups
    from controlplane.pipeline.runtime.job_progress import JobProgress
    from controlplane.pipeline.runtime.session import close_session, get_session, spark_errors

    started: list[SparkSession] = []

    def spark() -> SparkSession:
        if not started:
            progress.step("starting Spark")
            started.append(get_session("controlplane history rollup", master))
            progress.watch(started[0])
        return started[0]

    with JobProgress(partial(click.echo, err=True)) as progress:
        try:
            with spark_errors("rollup failed; finished days are kept, run the command again"):
                rollups = refresh_rollups(lake, spark, request, progress.step)
            with spark_errors("the rollups are complete, but computing baselines failed"):
                return rollups, None if weeks is None else refresh_baselines(
                    lake, spark, now, weeks, request.force, progress.step
                )
        finally:
            for item in started:
                close_session(item)


def _publish(lake: Lake, client: ApiClient) -> int:
    """Publish the lake's baselines; return the number of queries."""
    from controlplane.pipeline.rollup.baseline_documents import baseline_documents

    sent, answer = 0, None
    for document in baseline_documents(lake.read("baselines")):
        try:
            answer = client.put("/api/v1/baselines", document, compressed=True)
        except CallFailed as error:
            raise click_error(error, client) from None
        sent += len(document["baselines"])
    if not (isinstance(answer, dict) and answer.get("complete") is True):
        raise ServerFailed("another set of baselines was published meanwhile: run the command again")
    return sent


def _print_summary(
    rollups: RollupSummary, baseline_result: BaselineResult | None, published: int | None, as_json: bool
) -> None:
    if as_json:
        document = {
            "days": [day.isoformat() for day in rollups.days],
            "unchanged": rollups.unchanged,
            "rows": dict(rollups.rows),
            "baselines": None
            if baseline_result is None
            else {"values": baseline_result.values, "changed": baseline_result.changed},
            "published_queries": published,
        }
        click.echo(json.dumps(document))
        return
    rows = ", ".join(f"{count:,} rows of {table}" for table, count in rollups.rows.items())
    click.echo(f"{len(rollups.days)} days rolled up ({rows}), {rollups.unchanged} up to date")
    if baseline_result is not None:
        state_text = "updated" if baseline_result.changed else "unchanged"
        click.echo(f"baselines: {baseline_result.values:,} values, {state_text}")
    if published is not None:
        click.echo(f"published baselines of {published} queries")
