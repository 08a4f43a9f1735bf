"""`controlplane history import PATH…`: import Spark event logs into the lake, by a Spark job."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from alerts.durations import parse_duration
from controlplane.console.errors import UsageProblem

if TYPE_CHECKING:
    from controlplane.pipeline.eventlogs.import_job import ImportProgress

TTY_SECONDS, LOG_SECONDS = 0.5, 10.0


@click.command("import")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option(
    "--lake",
    "lake_url",
    envvar="CONTROLPLANE_LAKE",
    metavar="URL",
    help="Lake; created if missing.",
)
@click.option("--master", metavar="URL", help="Spark master.  [default: spark-submit's, else local[*]]")
@click.option("--since", metavar="WHEN", help="Skip logs last modified before this time: 30d, or 2026-01-31.")
@click.option("--force", is_flag=True, help="Also read logs that have not changed since their import.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON document.")
def import_logs(
    paths: tuple[str, ...],
    lake_url: str | None,
    master: str | None,
    since: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Import Spark event logs into the lake.

    PATH is a log, a folder of logs or a pattern, on any file system that Spark or fsspec reads. Logs may be
    plain or compressed, single or rolling, and in progress. Files that are damaged or not event logs are
    reported and skipped.
    """
    if not lake_url:
        raise UsageProblem("no lake given: set --lake URL or CONTROLPLANE_LAKE")
    since_seconds = None if since is None else parse_when(since, time.time())
    from controlplane.lake.lake import Lake
    from controlplane.pipeline.eventlogs import import_summary
    from controlplane.pipeline.eventlogs.import_job import (
        ImportRequest,
        NoFilesFound,
        import_logs,
        normalize_paths,
    )
    from controlplane.pipeline.runtime.session import close_session, get_session

    lake = Lake.open(lake_url, create=True)
    progress_line = ProgressLine()
    try:
        summary = import_logs(
            lambda: get_session("controlplane-history-import", master),
            lake,
            ImportRequest(normalize_paths(paths), since_seconds, force),
            progress_line,
        )
    except NoFilesFound as error:
        raise UsageProblem(str(error)) from None
    finally:
        progress_line.end()
        close_session()
    if as_json:
        click.echo(json.dumps(import_summary.summary_json(summary)))
    else:
        click.echo("\n".join(import_summary.summary_lines(summary)))


def parse_when(text: str, now: float) -> float:
    """Parse a day, or a duration before `now`, to Unix seconds. UsageProblem when it is neither."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        pass
    try:
        return now - parse_duration(text)
    except ValueError:
        raise UsageProblem(
            f"--since {text}: give a day such as 2026-01-31, or a duration such as 30d"
        ) from None


class ProgressLine:
    """A progress line on standard error: rewritten in place on a terminal, else a new line at intervals."""

    def __init__(self, stream: Any = None):
        self.stream = sys.stderr if stream is None else stream
        self.terminal = self.stream.isatty()
        self.last = 0.0
        self.width = 0

    def __call__(self, progress: ImportProgress) -> None:
        now = time.monotonic()
        if now - self.last < (TTY_SECONDS if self.terminal else LOG_SECONDS):
            return
        self.last = now
        line = format_progress(progress)
        if self.terminal:
            self.stream.write("\r" + line.ljust(self.width))
            self.width = len(line)
        else:
            self.stream.write(line + "\n")
        self.stream.flush()

    def end(self) -> None:
        """End the line on a terminal."""
        if self.width:
            self.stream.write("\n")
            self.stream.flush()


def format_progress(progress: ImportProgress) -> str:
    """One line with logs, bytes, events, rate and time left."""
    from controlplane.pipeline.eventlogs.import_summary import format_bytes

    rate = progress.bytes / progress.seconds if progress.seconds else 0.0
    left = progress.seconds_left
    return (
        f"logs {progress.logs}/{progress.of_logs}, {format_bytes(progress.bytes)} of "
        f"{format_bytes(progress.of_bytes)}, "
        f"{progress.events} events, {format_bytes(rate)}/s, "
        f"{'time left unknown' if left is None else f'{left:.0f} s left'}"
    )
