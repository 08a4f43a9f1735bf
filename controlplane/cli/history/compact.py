"""`controlplane history compact`: merge the lake's small files."""

from __future__ import annotations

import json
import sys
import time

import click

from controlplane.cli.options import json_option


@click.command()
@click.option("--lake", "url", envvar="CONTROLPLANE_LAKE", required=True, metavar="URL", help="The lake.")
@click.option("--master", metavar="URL", help="Spark's master.  [default: spark-submit's, else local[*]]")
@click.option("--today", is_flag=True, help="Include the current day (UTC).")
@click.option(
    "--min-files",
    type=click.IntRange(2),
    default=8,
    show_default=True,
    help="Minimum number of small files per table and day.",
)
@json_option
def compact(url: str, master: str | None, today: bool, min_files: int, as_json: bool) -> int:
    """Merge the small files of each table and day, drop duplicate rows, remove files that crashes left
    behind.
    """
    from controlplane.lake.lake import Lake
    from controlplane.pipeline import compaction
    from controlplane.pipeline.runtime.session import get_session

    summary = compaction.compact(
        Lake.open(url),
        time.time(),
        lambda: get_session("controlplane history compact", master),
        today,
        min_files,
        lambda done, total: click.echo(f"{done} of {total} tables and days compacted", err=True),
    )
    if as_json:
        json.dump({**vars(summary), "problems": list(summary.problems)}, sys.stdout, indent=2)
        click.echo()
    else:
        click.echo(
            f"{summary.files_before} files merged into {summary.files_after} "
            f"({summary.bytes_before:,} bytes into "
            f"{summary.bytes_after:,}), {summary.duplicates} duplicate rows dropped, in "
            f"{summary.seconds:.1f} s"
            if summary.groups
            else "Nothing to compact."
        )
    for problem in summary.problems:
        click.echo(f"not compacted: {problem}", err=True)
    return 1 if summary.problems else 0
