"""`controlplane history ingest`: stream events from a landing zone or Kafka to the lake and to a server, by a
Spark job.

Runs until SIGTERM or SIGINT; with `--available-now` until all available data is processed.
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
@click.option("--lake", envvar="CONTROLPLANE_LAKE", metavar="URL", help="Lake; created if missing.")
@click.option("--checkpoint", metavar="FOLDER", help="Checkpoint folder of the stream.")
@click.option("--server", metavar="URL", help="Also forward the events to this server.")
@click.option(
    "--trigger", "trigger_seconds", type=DURATION, default="10s", show_default=True, help="Trigger interval."
)
@click.option("--available-now", is_flag=True, help="Process all available data, then exit.")
@click.option("--format", "format_", type=click.Choice(["text", "kafka"]), default="text", show_default=True)
@click.option(
    "--option", "options", multiple=True, metavar="NAME=VALUE", help="Option of Spark's reader; repeatable."
)
@click.option("--dedup-window", type=DURATION, default="1d", show_default=True, help="Deduplication window.")
@click.option(
    "--max-files", type=click.IntRange(1), default=1000, show_default=True, help="Maximum files per batch."
)
@click.option("--clean/--keep-files", help="Delete files after they are processed.  [default: keep]")
@click.option("--master", metavar="URL", help="Spark master.  [default: spark-submit's, else local[*]]")
@json_option
def ingest(
    landing: str | None,
    lake: str | None,
    checkpoint: str | None,
    server: str | None,
    trigger_seconds: float,
    available_now: bool,
    options: tuple[str, ...],
    dedup_window: float,
    master: str | None,
    as_json: bool,
    **source: Any,
) -> None:
    """Ingest events from the folder LANDING (or Kafka) into the lake, each once.

    Drivers write there when their CONTROLPLANE_URL is file:///FOLDER. On SIGTERM the current batch is
    finished.
    """
    reader_options = _checked(landing, lake, checkpoint, server, dedup_window, source["format_"], options)
    from controlplane.pipeline.ingest.ingest_job import IngestPlan
    from controlplane.pipeline.ingest.landing_zone import IngestSource
    from controlplane.pipeline.ingest.launch import run_ingest

    plan = IngestPlan(
        IngestSource(landing or "", source["format_"], reader_options, source["max_files"], source["clean"]),
        str(checkpoint),
        dedup_window,
        None if available_now else trigger_seconds,
    )
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    summary = run_ingest(plan, str(lake), server, master, stopping, lambda line: click.echo(line, err=True))
    if as_json:
        click.echo(json.dumps(asdict(summary)))
    else:
        click.echo(
            f"{summary.batches} batches: {summary.events} events ingested, {summary.rows} rows; "
            f"{summary.malformed} malformed,"
            f" {summary.duplicates} reports already in the lake, {summary.rejected} rejected by the server"
        )


def _checked(
    landing: str | None,
    lake: str | None,
    checkpoint: str | None,
    server: str | None,
    window: float,
    format_: str,
    options: tuple[str, ...],
) -> dict[str, str]:
    """The reader's options. UsageProblem where an argument is missing or invalid."""
    if lake is None:
        raise UsageProblem("no lake given: set --lake URL or CONTROLPLANE_LAKE")
    if checkpoint is None:
        raise UsageProblem("no checkpoint given: set --checkpoint FOLDER")
    if (landing is None) != (format_ == "kafka"):
        raise UsageProblem(
            "no landing zone given: name a folder" if landing is None else "--format kafka takes no folder"
        )
    if landing is not None and "://" not in landing and not Path(landing).is_dir():
        raise UsageProblem(f"folder {landing} does not exist: create it first")
    if server is not None and urlsplit(server).scheme not in ("http", "https"):
        raise UsageProblem(f"--server must be an http:// or https:// URL, not {server}")
    if window < 60:
        raise UsageProblem("--dedup-window must be at least 1m")
    malformed = [option for option in options if not option.partition("=")[0] or "=" not in option]
    if malformed:
        raise UsageProblem(f"--option must be NAME=VALUE, not {malformed[0]!r}")
    return {name: value for name, _, value in (option.partition("=") for option in options)}
