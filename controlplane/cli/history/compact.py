"""`controlplane history compact`: many small files of the lake become few big ones."""

from __future__ import annotations

import json
import sys
import time

import click

from controlplane.cli.options import json_option


@click.command()
@click.option("--lake", "url", envvar="CONTROLPLANE_LAKE", required=True, metavar="URL", help="The lake.")
@click.option("--master", metavar="URL", help="Spark's master.  [default: spark-submit's, else local[*]]")
@click.option("--today", is_flag=True, help="Also the day that is not over yet (UTC).")
@click.option(
    "--min-files", type=click.IntRange(2), default=8, show_default=True, help="Fewer are left alone."
)
@json_option
def compact(url: str, master: str | None, today: bool, min_files: int, as_json: bool) -> int:
    """Merge the small files of each table and day, drop rows that are there twice, sweep what crashes left."""
    from controlplane.lake.lake import Lake
    from controlplane.pipeline import compaction
    from controlplane.pipeline.runtime.session import get_session

    account = compaction.compact(
        Lake.open(url),
        time.time(),
        lambda: get_session("controlplane history compact", master),
        today,
        min_files,
        lambda done, of: click.echo(f"{done} of {of} tables and days", err=True),
    )
    if as_json:
        json.dump({**vars(account), "problems": list(account.problems)}, sys.stdout, indent=2)
        click.echo()
    else:
        click.echo(
            f"{account.files_before} files became {account.files_after}, {account.bytes_before:,} bytes "
            f"{account.bytes_after:,}, {account.duplicates} duplicates dropped, in {account.seconds:.1f} s"
            if account.groups
            else "nothing to compact"
        )
    for problem in account.problems:
        click.echo(f"left as it was: {problem}", err=True)
    return 1 if account.problems else 0
