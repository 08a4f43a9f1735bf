"""Lakes for tests: rows by number, a look at what any reader of files finds, a folder that breaks down on demand."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from controlplane.lake.folders import LakeFolder
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import Commit
from controlplane.lake.schema import arrow_schema

DAY = datetime(2026, 3, 1, tzinfo=UTC)


def reports(batches: Iterable[int], run: str = "run", day: datetime = DAY, input_rows: int = 1) -> pa.Table:
    """Rows of `progress`, one a batch, a second apart."""
    rows = [
        {
            "app": "shop",
            "query_id": f"of-{run}",
            "run_id": run,
            "batch_id": batch,
            "trigger_at": day + timedelta(seconds=batch),
            "input_rows": input_rows,
            "origin": "agent",
        }
        for batch in batches
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema("progress"))


def put(lake: Lake, job: str, batch: str, rows: pa.Table, **facts: Any) -> Commit:
    staging = lake.stage(job, batch)
    return lake.commit(staging, staging.write("progress", rows, "0"), facts)


def by_manifest(lake: Lake) -> list[int]:
    """The ids of all batches, as our own reader finds them."""
    return sorted(lake.read("progress", columns=["batch_id"])["batch_id"].to_pylist())


def by_glob(root: Path) -> list[int]:
    """The same, as any reader of files finds them."""
    found: list[int] = []
    for path in sorted(root.glob("progress/**/*.parquet")):
        found += pq.ParquetFile(path).read(columns=["batch_id"])["batch_id"].to_pylist()
    return sorted(found)


def day(number: int) -> date:
    return (DAY + timedelta(days=number)).date()


class Broken(BaseException):
    """The process is no more; no code of ours catches this."""


class FailingFolder(LakeFolder):
    """A folder whose k-th change of the disk is the last thing that happens: before it is done, or after."""

    def __init__(self, url: str, at: int, done: bool):
        super().__init__(url)
        self.left, self.done = at, done

    def _put(self, source: str, target: str) -> None:
        if self._last():
            if self.done:
                os.replace(source, target)
            raise Broken
        super()._put(source, target)

    def remove(self, path: str) -> None:
        if self._last():
            if self.done:
                super().remove(path)
            raise Broken
        super().remove(path)

    def _last(self) -> bool:
        self.left -= 1
        return self.left < 0
