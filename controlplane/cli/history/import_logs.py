"""`controlplane history import PATH…`: event logs of Spark into the lake. Runs a Spark job of its own."""

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
    help="Where the lake is; it is made if need be.",
)
@click.option("--master", metavar="URL", help="Spark's master; else what spark-submit says, else local[*].")
@click.option(
    "--since", metavar="WHEN", help="Leave out logs that nobody wrote to since: 30d, or 2026-01-31."
)
@click.option("--force", is_flag=True, help="Read logs again that did not change since they were imported.")
@click.option("--json", "as_document", is_flag=True, help="The account as one JSON document.")
def import_logs(
    paths: tuple[str, ...],
    lake_url: str | None,
    master: str | None,
    since: str | None,
    force: bool,
    as_document: bool,
) -> None:
    """Bring Spark's event logs into the lake.

    PATH is a log, a folder of logs or a pattern, on any file system that Spark or fsspec reads. Logs may be plain or
    compressed, single or rolling, and still written to. What is no log, or damaged, is named and stops nothing.
    """
    if not lake_url:
        raise UsageProblem("say where the lake is: --lake URL, or CONTROLPLANE_LAKE")
    oldest = None if since is None else parse_when(since, time.time())
    from controlplane.lake.lake import Lake
    from controlplane.pipeline.eventlogs import import_summary as accounts
    from controlplane.pipeline.eventlogs.import_job import (
        ImportRequest,
        NoFilesFound,
        import_logs,
        normalize_paths,
    )
    from controlplane.pipeline.runtime.session import close_session, get_session

    lake = Lake.open(lake_url, create=True)
    shown = ProgressLine()
    try:
        account = import_logs(
            lambda: get_session("controlplane-history-import", master),
            lake,
            ImportRequest(normalize_paths(paths), oldest, force),
            shown,
        )
    except NoFilesFound as error:
        raise UsageProblem(str(error)) from None
    finally:
        shown.end()
        close_session()
    if as_document:
        click.echo(json.dumps(accounts.summary_json(account)))
    else:
        click.echo("\n".join(accounts.summary_lines(account)))


def parse_when(text: str, now: float) -> float:
    """A day, or so long ago, as Unix seconds. Mistake when it is neither."""
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
    """The line of progress on standard error: rewritten on a terminal, now and then a new one elsewhere."""

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
        if self.width:
            self.stream.write("\n")
            self.stream.flush()


def format_progress(progress: ImportProgress) -> str:
    rate = progress.bytes / progress.seconds / 1e6 if progress.seconds else 0.0
    left = progress.seconds_left
    return (
        f"logs {progress.logs}/{progress.of_logs}, {progress.bytes / 1e6:.0f} of {progress.of_bytes / 1e6:.0f} MB, "
        f"{progress.events} events, {rate:.0f} MB/s, {'time left unknown' if left is None else f'{left:.0f} s left'}"
    )
