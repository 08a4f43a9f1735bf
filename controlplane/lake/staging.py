"""Staged parts of a commit: executors write each file completely before it gets its name.

`Lake.stage` creates a Staging. Jobs send it to their tasks, which write rows with it and return the parts.
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
    """The location where the parts of one commit are written before it is committed. Can be pickled for
    executors.
    """

    folder: LakeFolder
    job: str
    batch: str
    path: str
    #: State of the same batch when this was created (`LakeManifest.live_state`); a commit over another state
    #: is refused.
    previous_state: tuple[float, frozenset[str]] | None = None

    def write(self, table: str, rows: pa.Table, part: str) -> list[Part]:
        """Write rows of a table, sorted, one file per day. `part`: unique within this commit.

        LakeError where a row has no value in the partition column, and where the disk rejects the write.
        """
        table_spec = TABLES[table]
        if not rows.num_rows:
            return []
        days = pc.cast(pc.floor_temporal(rows[table_spec.partition_column], unit="day"), pa.date32())
        if days.null_count:
            raise LakeError(
                f"{days.null_count} rows of {table} have no {table_spec.partition_column}, so they "
                "belong to no day"
            )
        if rows.schema != arrow_schema(table):
            rows = rows.select(list(table_spec.names)).cast(arrow_schema(table))
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
        """One file of one day, written piece by piece; `part` of the yielded file is complete after the
        block.

        The file is written under a temporary name and renamed: two attempts at one task never share a file.
        """
        path = f"{table}/date={day.isoformat()}/{self.job}-{self.batch}-{checked_name(part)}.parquet"
        target = self.folder.absolute(self.path, path)
        temporary = f"{target}.{uuid.uuid4().hex[:8]}"
        self.folder.make_parent(target)
        with (
            self.folder.fs.open(temporary, "wb") as sink,
            pq.ParquetWriter(sink, arrow_schema(table), compression="zstd", **_encoding(table)) as writer,
        ):
            file = PartFile(Part(table, day, path, 0, 0), sink, writer)
            yield file
        self.folder.fsync(temporary)
        self.folder.rename(temporary, target)
        file.close(int(self.folder.fs.size(target)))


def _sorted(rows: pa.Table, order: tuple[str, ...]) -> pa.Table:
    """Sort rows unless they are sorted already: the test costs a fiftieth of sorting."""
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
    """Column encodings: the smallest and cheapest for each type.

    Repeating text is dictionary-encoded; counters and times differ little from row to row and are
    delta-encoded. Statistics are written only for columns that rows are filtered by: in a small file they
    would be the larger part.
    """
    table_spec = TABLES[table]
    maps = {
        column.name: column.type
        for column in table_spec.columns
        if column.type in (ColumnType.BIGINT_MAP, ColumnType.STRING_MAP)
    }
    texts = [column.name for column in table_spec.columns if column.type is ColumnType.STRING]
    texts += [f"{name}.key_value.key" for name in maps]
    texts += [f"{name}.key_value.value" for name, kind in maps.items() if kind is ColumnType.STRING_MAP]
    steps = {
        column.name
        for column in table_spec.columns
        if column.type in (ColumnType.BIGINT, ColumnType.INT, ColumnType.TIMESTAMP)
    }
    return {
        "use_dictionary": texts,
        "column_encoding": dict.fromkeys(steps, "DELTA_BINARY_PACKED"),
        "write_statistics": list(
            dict.fromkeys((table_spec.partition_column, *table_spec.order, *table_spec.key))
        ),
        "store_schema": False,
    }


class PartFile:
    """A file of the lake while it is written. `part` is final once `Staging.file` is left."""

    def __init__(self, part: Part, sink: Any, writer: pq.ParquetWriter):
        self.part = part
        self._sink, self._writer = sink, writer

    def write(self, rows: pa.Table) -> None:
        """Append rows, which must follow the previous ones in the table's order."""
        self._writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
        self.part = replace(self.part, rows=self.part.rows + rows.num_rows)

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return int(self._sink.tell())

    def close(self, size: int) -> None:
        """Set the final size in bytes."""
        self.part = replace(self.part, bytes=size)
