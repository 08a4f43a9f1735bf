"""`controlplane history offload`: events past the hot retention go from the store to the lake; a job of Spark.

A server with a lake starts it by itself. Nothing leaves the store here: the server deletes what it has verified.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Any

import click

from controlplane.cli.options import DURATION, data_dir_option, database_option, json_option, settings_of
from controlplane.console.errors import UsageProblem
from listeners.protocol import wire
from listeners.protocol.errors import WireError

DAY = 86400.0


@click.command()
@click.option("--lake", metavar="URL", help="Where the lake lies.  [default: CONTROLPLANE_LAKE]")
@database_option
@data_dir_option
@click.option(
    "--older-than",
    type=DURATION,
    metavar="DURATION",
    help="What stays: younger events.  [default: CONTROLPLANE_HOT_DAYS, 3 days]",
)
@click.option(
    "--before", metavar="TIME", help="Instead: events before this moment, RFC 3339 or Unix seconds."
)
@click.option("--master", metavar="URL", help="Spark's master.  [default: as submitted, else local[*]]")
@json_option
def offload(
    lake: str | None,
    older_than: float | None,
    before: str | None,
    master: str | None,
    as_json: bool,
    **where: Any,
) -> None:
    """Move events past the hot retention from the store to the lake.

    May be repeated and cut off: what is in the lake is not moved again. An embedded store must be on this machine.
    """
    settings = settings_of(lake=lake, **where)
    if settings.lake is None:
        raise UsageProblem("say where the lake is: --lake URL, or CONTROLPLANE_LAKE")
    from controlplane.store.engine import default_url, sqlite_path

    database = settings.database_url or default_url(settings.data_dir.absolute())
    file = sqlite_path(database)
    if file is not None and not file.exists():
        raise UsageProblem(f"there is no store at {file}: give --data-dir or --database-url")
    from controlplane.pipeline.offload.offload_job import OffloadRequest
    from controlplane.pipeline.runtime.session import close_session, get_session, spark_errors

    kept = settings.store_days * DAY if older_than is None else older_than
    cutoff = time.time() - kept if before is None else _moment(before)
    spark = get_session("controlplane history offload", master)
    try:
        with spark_errors("moving failed (what was committed stays; run it again)"):
            done = offload(
                spark,
                OffloadRequest(database, settings.lake, cutoff),
                lambda line: click.echo(line, err=True),
            )
    finally:
        close_session(spark)
    if as_json:
        click.echo(json.dumps(asdict(done)))
        return
    said = done.counts
    click.echo(
        f"{said.stored} events moved in {done.commits} commits, {done.rows} rows; {said.malformed} could not be read,"
        f" {said.duplicates} were in the lake before; {done.repaired} damaged commits written again,"
        f" {done.days} days of alerts and actions"
    )


def _moment(text: str) -> float:
    try:
        return wire.seconds_of(float(text) if text.replace(".", "", 1).isdigit() else text)
    except WireError as error:
        raise UsageProblem(f"--before: {error}") from None
