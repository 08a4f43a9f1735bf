"""`controlplane history rollup`: rollups and baselines of the lake, kept up to date; a job of Spark.

What did not change is not done again: the command may run every hour, or after each import.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from alerts.durations import format_duration, parse_duration
from controlplane.cli.options import DURATION, client_options, json_option, settings_of
from controlplane.console.client import ApiClient, click_error, open_client
from controlplane.console.errors import CallFailed, ServerFailed, UsageProblem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from controlplane.lake.lake import Lake
    from controlplane.pipeline.rollup.baseline_job import BaselineResult
    from controlplane.pipeline.rollup.rollup_job import RollupRequest, RollupSummary

DAY_HELP = "a day, as 2026-03-29 (UTC), or how long ago, as 30d"


@click.command()
@click.option("--lake", metavar="URL", help="Where the lake lies.  [default: CONTROLPLANE_LAKE]")
@click.option("--since", metavar="DAY", help=f"First day: {DAY_HELP}.")
@click.option("--until", metavar="DAY", help="Last day.")
@click.option(
    "--objective",
    type=DURATION,
    default="5m",
    show_default=True,
    help="A batch meets the service level whose lag and duration are within it.",
)
@click.option("--weeks", type=click.IntRange(3, 52), default=4, show_default=True, help="Baselines: so many.")
@click.option("--no-baselines", is_flag=True, help="Learn nothing.")
@click.option("--publish", is_flag=True, help="Send the baselines to the server, for its rules and pages.")
@click.option("--master", metavar="URL", help="Spark's master.  [default: as submitted, else local[*]]")
@click.option("--force", is_flag=True, help="Also what did not change.")
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
    """Roll the lake up by the minute, hour and day, and learn what is usual for each query.

    A day is done again when its rows, or those of the day before or after it, changed. Repeat it as often as you like.
    """
    settings = settings_of(lake=lake, **where)
    if settings.lake is None:
        raise UsageProblem("say where the lake is: --lake URL, or CONTROLPLANE_LAKE")
    if publish and no_baselines:
        raise UsageProblem("--publish has nothing to send with --no-baselines: leave one of them out")
    from controlplane.lake.lake import Lake
    from controlplane.pipeline.rollup.rollup_job import RollupRequest

    now = time.time()
    asked = RollupRequest(_day("--since", since, now), _day("--until", until, now), objective, force)
    if asked.since and asked.until and asked.until < asked.since:
        raise UsageProblem(f"--until {asked.until} is before --since {asked.since}")
    held = Lake.open(settings.lake)
    done, learned = _work(held, asked, None if no_baselines else weeks, master, now)
    published = _publish(held, open_client(settings)) if publish else None
    _tell(done, learned, published, as_json)


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
            f"{option}: {text!r} is no day: write 2026-03-29 (UTC), or how long ago, as 30d"
        ) from None


def _work(
    lake: Lake, asked: RollupRequest, weeks: int | None, master: str | None, now: float
) -> tuple[RollupSummary, BaselineResult | None]:
    """Rollups, then baselines of `weeks` weeks. Spark is started when the first of them has something to do."""
    from controlplane.pipeline.rollup.baseline_job import refresh_baselines
    from controlplane.pipeline.rollup.rollup_job import refresh_rollups
    from controlplane.pipeline.runtime.session import close_session, get_session, spark_errors

    started: list[SparkSession] = []

    def spark() -> SparkSession:
        if not started:
            started.append(get_session("controlplane history rollup", master))
        return started[0]

    try:
        with spark_errors("rolling up failed (days that were done are kept; run it again)"):
            done = refresh_rollups(lake, spark, asked, _saying())
        with spark_errors("the rollups are done, but learning from them failed"):
            return done, None if weeks is None else refresh_baselines(lake, spark, now, weeks, asked.force)
    finally:
        for one in started:
            close_session(one)


def _saying() -> Callable[[str], None]:
    began = time.monotonic()
    return lambda text: click.echo(f"{format_duration(round(time.monotonic() - began))}: {text}", err=True)


def _publish(lake: Lake, client: ApiClient) -> int:
    """Send the set that the lake holds; how many queries it is of."""
    from controlplane.pipeline.rollup.baseline_documents import baseline_documents

    sent, answer = 0, None
    for document in baseline_documents(lake.read("baselines")):
        try:
            answer = client.put("/api/v1/baselines", document)
        except CallFailed as error:
            raise click_error(error, client) from None
        sent += len(document["baselines"])
    if not (isinstance(answer, dict) and answer.get("complete") is True):
        raise ServerFailed("another set of baselines was published meanwhile; publish again")
    return sent


def _tell(done: RollupSummary, learned: BaselineResult | None, published: int | None, as_json: bool) -> None:
    if as_json:
        told = {
            "days": [day.isoformat() for day in done.days],
            "unchanged": done.unchanged,
            "rows": dict(done.rows),
            "baselines": None if learned is None else {"values": learned.values, "changed": learned.changed},
            "published_queries": published,
        }
        click.echo(json.dumps(told))
        return
    rows = ", ".join(f"{count:,} rows of {table}" for table, count in done.rows.items())
    click.echo(f"{len(done.days)} days rolled up ({rows}), {done.unchanged} were up to date")
    if learned is not None:
        fresh = "learned" if learned.changed else "as before"
        click.echo(f"baselines: {learned.values:,} values, {fresh}")
    if published is not None:
        click.echo(f"published: the baselines of {published} queries")
