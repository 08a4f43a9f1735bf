"""`controlplane history offload`: move events that are past the hot retention from the store to the lake, by
a Spark job.

A server with a lake starts this job itself. The job deletes nothing from the store: the server deletes what
it has verified.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Any

import click

from alerts.durations import DAY_SECONDS
from controlplane.cli.options import DURATION, data_dir_option, database_option, json_option, settings_of
from controlplane.console.errors import UsageProblem
from listeners.protocol import wire
from listeners.protocol.errors import WireError


@click.command()
@click.option("--lake", metavar="URL", help="Lake.  [default: CONTROLPLANE_LAKE]")
@database_option
@data_dir_option
@click.option(
    "--older-than",
    type=DURATION,
    metavar="DURATION",
    help="Minimum age of the events to offload.  [default: CONTROLPLANE_HOT_DAYS, 3 days]",
)
@click.option(
    "--before", metavar="TIME", help="Instead: offload events before this time, RFC 3339 or Unix seconds."
)
@click.option("--master", metavar="URL", help="Spark master.  [default: spark-submit's, else local[*]]")
@json_option
def offload(
    lake: str | None,
    older_than: float | None,
    before: str | None,
    master: str | None,
    as_json: bool,
    **where: Any,
) -> None:
    """Offload events past the hot retention from the store to the lake.

    The job continues where an interrupted one stopped. An embedded store must be on this machine.
    """
    settings = settings_of(lake=lake, **where)
    if settings.lake is None:
        raise UsageProblem("no lake given: set --lake URL or CONTROLPLANE_LAKE")
    from controlplane.store.engine import default_url, sqlite_path

    database = settings.database_url or default_url(settings.data_dir.absolute())
    sqlite_file = sqlite_path(database)
    if sqlite_file is not None and not sqlite_file.exists():
        raise UsageProblem(f"no store found at {sqlite_file}: give --data-dir or --database-url")
    from controlplane.pipeline.offload import offload_job
    from controlplane.pipeline.runtime.session import close_session, get_session, spark_errors

    hot_seconds = settings.store_days * DAY_SECONDS if older_than is None else older_than
    cutoff = time.time() - hot_seconds if before is None else _moment(before)
    spark = get_session("controlplane history offload", master)
    try:
        with spark_errors("offload failed; committed events stay in the lake, run the command again"):
            summary = offload_job.offload(
                spark,
                offload_job.OffloadRequest(database, settings.lake, cutoff),
                lambda line: click.echo(line, err=True),
            )
    finally:
        close_session(spark)
    if as_json:
        click.echo(json.dumps(asdict(summary)))
        return
    counts = summary.counts
    click.echo(
        f"{counts.stored} events offloaded in {summary.commits} commits, {summary.rows} rows; "
        f"{counts.malformed} malformed,"
        f" {counts.duplicates} already in the lake; {summary.repaired} damaged commits rewritten,"
        f" {summary.days} days of alerts and actions"
    )


def _moment(text: str) -> float:
    try:
        return wire.seconds_of(float(text) if text.replace(".", "", 1).isdigit() else text)
    except WireError as error:
        raise UsageProblem(f"--before: {error}") from None
