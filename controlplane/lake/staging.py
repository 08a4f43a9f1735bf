"""The parts of a commit while they are written: on executors, each file whole before it has its name.

`Lake.stage` makes a Staging; jobs send it to their tasks, which write rows of a table by it and hand back parts.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from controlplane.errors import LakeError
from controlplane.lake.folders import LakeFolder
from controlplane.lake.manifest import Part, checked_name
from controlplane.lake.schema import TABLES, ColumnType, arrow_schema

ROW_GROUP_ROWS = 128 * 1024


@dataclass(frozen=True)
class Staging:
    """Where the parts of one commit are written before it; can be sent to executors."""

    folder: LakeFolder
    job: str
    batch: str
    path: str
    #: What stood of the same batch when this was made (`Manifest.stands`); a commit over something else is refused.
    previous_state: tuple[float, frozenset[str]] | None = None

    def write(self, table: str, rows: pa.Table, part: str) -> list[Part]:
        """Write rows of a table, a file a day, sorted. `part`: told apart from all others of this commit.

        LakeError where a row has no time, it would be in no day, and where the disk takes it not.
        """
        spec = TABLES[table]
        if not rows.num_rows:
            return []
        days = pc.cast(pc.floor_temporal(rows[spec.partition_column], unit="day"), pa.date32())
        if days.null_count:
            raise LakeError(
                f"{days.null_count} rows of {table} have no {spec.partition_column}: they belong to no day"
            )
        if rows.schema != arrow_schema(table):
            rows = rows.select(list(spec.names)).cast(arrow_schema(table))
        found = sorted(pc.unique(days).to_pylist())
        try:
            return [
                self._write_day(
                    table, day, rows if len(found) == 1 else rows.filter(pc.equal(days, day)), part
                )
                for day in found
            ]
        except OSError as error:
            raise LakeError(f"the lake at {self.folder} cannot be written: {error}") from None

    def _write_day(self, table: str, day: date, rows: pa.Table, part: str) -> Part:
        with self.file(table, day, part) as file:
            file.write(_sorted(rows, TABLES[table].order))
        return file.part

    @contextlib.contextmanager
    def file(self, table: str, day: date, part: str) -> Iterator[PartFile]:
        """One file of one day, to be written piece by piece; `part` of it is to be had afterwards.

        Written beside and renamed: two attempts at one task never share a file.
        """
        path = f"{table}/date={day.isoformat()}/{self.job}-{self.batch}-{checked_name(part)}.parquet"
        target = self.folder.absolute(self.path, path)
        passing = f"{target}.{uuid.uuid4().hex[:8]}"
        self.folder.fs.makedirs(target.rpartition("/")[0], exist_ok=True)
        with (
            self.folder.fs.open(passing, "wb") as sink,
            pq.ParquetWriter(sink, arrow_schema(table), compression="zstd", **_encoding(table)) as writer,
        ):
            file = PartFile(Part(table, day, path, 0, 0), sink, writer)
            yield file
        self.folder.fsync(passing)
        self.folder.rename(passing, target)
        file.close(int(self.folder.fs.size(target)))


def _sorted(rows: pa.Table, order: tuple[str, ...]) -> pa.Table:
    """To look whether rows come sorted costs a fiftieth of sorting them."""
    tied: Any = True
    for name in order:
        column = rows[name].combine_chunks()
        before, after = column[:-1], column[1:]
        if column.null_count or pc.any(pc.and_(tied, pc.greater(before, after))).as_py():
            return rows.sort_by([(name, "ascending") for name in order])
        tied = pc.and_(tied, pc.equal(before, after))
    return rows


@cache
def _encoding(table: str) -> dict[str, Any]:
    """How columns are written: what is smallest and costs least for what they hold.

    Text repeats, so it has a dictionary; counters and times differ little from row to row. Statistics only of what
    rows are looked for by: of a small file they would be the larger part.
    """
    spec = TABLES[table]
    maps = {
        column.name: column.type
        for column in spec.columns
        if column.type in (ColumnType.BIGINT_MAP, ColumnType.STRING_MAP)
    }
    texts = [column.name for column in spec.columns if column.type is ColumnType.STRING]
    texts += [f"{name}.key_value.key" for name in maps]
    texts += [f"{name}.key_value.value" for name, kind in maps.items() if kind is ColumnType.STRING_MAP]
    steps = {
        column.name
        for column in spec.columns
        if column.type in (ColumnType.BIGINT, ColumnType.INT, ColumnType.TIMESTAMP)
    }
    return {
        "use_dictionary": texts,
        "column_encoding": dict.fromkeys(steps, "DELTA_BINARY_PACKED"),
        "write_statistics": list(dict.fromkeys((spec.partition_column, *spec.order, *spec.key))),
        "store_schema": False,
    }


class PartFile:
    """A file of the lake while it grows. `part` is right once `Staging.file` is left."""

    def __init__(self, part: Part, sink: Any, writer: pq.ParquetWriter):
        self.part = part
        self._sink, self._writer = sink, writer

    def write(self, rows: pa.Table) -> None:
        """More rows, in the order of the table and after those before."""
        self._writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
        self.part = replace(self.part, rows=self.part.rows + rows.num_rows)

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return int(self._sink.tell())

    def close(self, size: int) -> None:
        self.part = replace(self.part, bytes=size)
