"""What a part of the lake is as a file: sorted, small, and plain for any reader."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controlplane.lake.lake import Lake
from controlplane.lake.schema import TABLES, arrow_schema
from tests.unit.controlplane.lake.lakes import reports

ORDER = [(name, "ascending") for name in TABLES["progress"].order]


def written(lake: Lake, rows: pa.Table) -> Path:
    staging = lake.stage("import", "x")
    (part,) = staging.write("progress", rows, "0")
    return Path(staging.folder.absolute(staging.path, part.path))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(str(tmp_path / "lake"), create=True)


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_sorted_however_they_come(lake: Lake, seed: int) -> None:
    runs = [reports([*[3, 1, 2, 2, 1][seed:], 4], run=run) for run in "cab"]
    rows = pa.concat_tables(runs)
    mixed = rows.take(random.Random(seed).sample(range(len(rows)), len(rows)))
    found = pq.read_table(written(lake, mixed), partitioning=None)
    assert found.equals(mixed.sort_by(ORDER))


def test_rows_that_come_sorted_in_pieces_are_written_as_they_are(lake: Lake) -> None:
    rows = pa.concat_tables([reports([1, 2], run="a"), reports([3], run="a"), reports([1], run="b")])
    assert pq.read_table(written(lake, rows), partitioning=None).equals(rows)


def test_a_file_has_the_types_of_the_table_for_any_reader(lake: Lake) -> None:
    path = written(lake, reports(range(3)))
    meta = pq.read_metadata(path)
    assert pq.read_schema(path).equals(arrow_schema("progress"))
    assert meta.metadata is None, "no reader needs what Arrow alone would say of the types"


def test_what_rows_are_looked_for_by_has_statistics_and_nothing_else_has(lake: Lake) -> None:
    group = pq.read_metadata(written(lake, reports(range(3)))).row_group(0)
    columns = [group.column(place) for place in range(group.num_columns)]
    reported = {column.path_in_schema for column in columns if column.is_stats_set}
    assert reported == {"query_id", "run_id", "batch_id", "trigger_at"}
