"""`controlplane history ingest`: events from a landing zone, or Kafka, to the lake and to a server; a job of Spark.

Runs until it is told to stop (SIGTERM, SIGINT), or with `--available-now` until all that is there is taken in.
"""

from __future__ import annotations

import json
import signal
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from controlplane.cli.options import DURATION, json_option
from controlplane.console.errors import UsageProblem


@click.command()
@click.argument("landing", required=False)
@click.option(
    "--lake", envvar="CONTROLPLANE_LAKE", metavar="URL", help="Where the lake lies; made if need be."
)
@click.option("--checkpoint", metavar="FOLDER", help="Where the stream keeps how far it came.")
@click.option("--server", metavar="URL", help="Forward the events to this server too.")
@click.option(
    "--trigger", "every", type=DURATION, default="10s", show_default=True, help="How often it looks."
)
@click.option("--available-now", is_flag=True, help="Take in what is there, then end.")
@click.option("--format", "form", type=click.Choice(["text", "kafka"]), default="text", show_default=True)
@click.option(
    "--option", "options", multiple=True, metavar="NAME=VALUE", help="For Spark's reader; may be repeated."
)
@click.option(
    "--dedup-window", type=DURATION, default="1d", show_default=True, help="Doubles are known so long."
)
@click.option("--max-files", type=click.IntRange(1), default=1000, show_default=True, help="Of one batch.")
@click.option("--clean/--keep-files", help="Remove files once they are taken in.  [default: keep]")
@click.option("--master", metavar="URL", help="Spark's master.  [default: as submitted, else local[*]]")
@json_option
def ingest(
    landing: str | None,
    lake: str | None,
    checkpoint: str | None,
    server: str | None,
    every: float,
    available_now: bool,
    options: tuple[str, ...],
    dedup_window: float,
    master: str | None,
    as_json: bool,
    **source: Any,
) -> None:
    """Take events from the folder LANDING (or from Kafka) into the lake, each once.

    Drivers write there when their CONTROLPLANE_URL is file:///FOLDER. SIGTERM lets the batch under way end.
    """
    checked = _checked(landing, lake, checkpoint, server, dedup_window, source["form"], options)
    from controlplane.pipeline.ingest.ingest_job import IngestPlan
    from controlplane.pipeline.ingest.landing_zone import IngestSource
    from controlplane.pipeline.ingest.launch import run_ingest

    plan = IngestPlan(
        IngestSource(landing or "", source["form"], checked, source["max_files"], source["clean"]),
        str(checkpoint),
        dedup_window,
        None if available_now else every,
    )
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    done = run_ingest(plan, str(lake), server, master, stopping, lambda line: click.echo(line, err=True))
    if as_json:
        click.echo(json.dumps(asdict(done)))
    else:
        click.echo(
            f"{done.batches} batches: {done.events} events taken in, {done.rows} rows; {done.malformed} malformed,"
            f" {done.duplicates} reports were in the lake before, {done.rejected} refused by the server"
        )


def _checked(
    landing: str | None,
    lake: str | None,
    checkpoint: str | None,
    server: str | None,
    window: float,
    form: str,
    options: tuple[str, ...],
) -> dict[str, str]:
    """The reader's options; Mistake where something is missing or does not fit."""
    if lake is None:
        raise UsageProblem("say where the lake is: --lake URL, or CONTROLPLANE_LAKE")
    if checkpoint is None:
        raise UsageProblem("say where the stream keeps how far it came: --checkpoint FOLDER")
    if (landing is None) != (form == "kafka"):
        raise UsageProblem(
            "name the landing zone: a folder" if landing is None else "with --format kafka name no folder"
        )
    if landing is not None and "://" not in landing and not Path(landing).is_dir():
        raise UsageProblem(f"there is no folder {landing}: create it first")
    if server is not None and urlsplit(server).scheme not in ("http", "https"):
        raise UsageProblem(f"--server must be an http:// or https:// URL, not {server}")
    if window < 60:
        raise UsageProblem("--dedup-window must be at least 1m")
    wrong = [option for option in options if not option.partition("=")[0] or "=" not in option]
    if wrong:
        raise UsageProblem(f"--option must be NAME=VALUE, not {wrong[0]!r}")
    return {name: value for name, _, value in (option.partition("=") for option in options)}
