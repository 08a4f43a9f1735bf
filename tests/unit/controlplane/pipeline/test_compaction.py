"""What is merged, in which pieces, and what of it is left out. Without Spark: a task's work is a plain function."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controlplane.lake.lake import Lake
from controlplane.lake.schema import arrow_schema
from controlplane.pipeline.compaction import (
    FileGroup,
    batch_name,
    compact_group,
    consolidatable,
    drop_duplicates,
    file_groups,
    split_by_rows,
)
from tests.unit.controlplane.lake.lakes import DAY, by_glob, by_manifest, day, put, reports


def filled(root: Path, files: int = 8, **facts: object) -> Lake:
    lake = Lake.open(str(root), create=True)
    for number in range(files):
        put(lake, "ingest", f"q-{number:04}", reports([number], run=f"run-{number % 3}"), **facts)
    return lake


def merged(lake: Lake, heap: FileGroup, **how: int) -> pa.Table:
    """Merge a heap, and read what came of it in the order of the files."""
    manifest = lake.manifest()
    staging = lake.stage("compact", batch_name(heap, manifest))
    done = compact_group(staging, heap, **how)
    assert done.problem is None
    lake.commit(staging, done.parts, {}, [part.path for part in heap.parts], seen=manifest)
    return pa.concat_tables(pq.ParquetFile(lake.folder.absolute(part.path)).read() for part in done.parts)


@pytest.mark.parametrize(("files", "heaped"), [(7, 0), (8, 1)])
def test_a_day_is_merged_from_so_many_small_files_on(tmp_path: Path, files: int, heaped: int) -> None:
    assert len(file_groups(filled(tmp_path, files).manifest(), day(1))) == heaped


def test_the_current_day_is_not_compacted(tmp_path: Path) -> None:
    assert file_groups(filled(tmp_path).manifest(), day(0)) == []


def test_big_files_are_left_alone(tmp_path: Path) -> None:
    assert file_groups(filled(tmp_path).manifest(), day(1), target_bytes=100) == []


def test_logs_in_progress_are_left_alone(tmp_path: Path) -> None:
    assert file_groups(filled(tmp_path, complete=False).manifest(), day(1)) == []
    assert len(file_groups(filled(tmp_path / "whole", complete=True).manifest(), day(1))) == 1


def test_tables_that_are_replaced_by_name_are_left_alone(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path), create=True)
    row = pa.Table.from_pylist([{"key": 1, "fired_at": DAY}], schema=arrow_schema("alerts"))
    staging = lake.stage("offload", "x")
    parts = [part for number in range(9) for part in staging.write("alerts", row, str(number))]
    lake.commit(staging, parts)
    assert file_groups(lake.manifest(), day(1)) == []


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([], []),
        ([("a", 1)], [("a", "a")]),
        ([("a", 2), ("b", 1), ("c", 1)], [("a", "b"), ("c", "c")]),
        ([("a", 1), ("b", 9), ("c", 1), ("d", 2)], [("a", "a"), ("b", "b"), ("c", "d")]),
    ],
    ids=["none", "one", "full", "too-big"],
)
def test_queries_are_parted_so_that_few_rows_are_in_memory(
    counts: list[tuple[str, int]], expected: list[tuple[str, str]]
) -> None:
    assert list(split_by_rows(counts, 3)) == expected


@pytest.mark.parametrize("chunk_rows", [1, 4, 1000])
def test_a_merge_keeps_every_row_in_the_order_of_the_table(tmp_path: Path, chunk_rows: int) -> None:
    lake = filled(tmp_path, 12)
    before = lake.read("progress")
    rows = merged(lake, file_groups(lake.manifest(), day(1))[0], chunk_rows=chunk_rows)
    order = [("query_id", "ascending"), ("trigger_at", "ascending")]
    assert rows.equals(before.sort_by(order))
    assert by_manifest(lake) == by_glob(tmp_path) == list(range(12))


def test_a_merge_rolls_over_to_another_file_when_one_is_big(tmp_path: Path) -> None:
    lake = filled(tmp_path, 12)
    merged(lake, file_groups(lake.manifest(), day(1))[0], chunk_rows=1, target_bytes=1)
    assert len(lake.manifest().parts("progress")) == 3  # one a query
    assert by_manifest(lake) == by_glob(tmp_path) == list(range(12))


def test_a_report_that_two_jobs_wrote_is_kept_once(tmp_path: Path) -> None:
    lake = filled(tmp_path)
    put(lake, "import", "log", reports([0, 3], run="run-0"))
    assert by_manifest(lake) == [0, 0, 1, 2, 3, 3, 4, 5, 6, 7]
    merged(lake, file_groups(lake.manifest(), day(1))[0])
    assert by_manifest(lake) == by_glob(tmp_path) == list(range(8))


def test_a_start_is_stored_once_whichever_agent_reports_it_and_when() -> None:
    events = [
        {"app": "a", "run_id": "r", "event": "started", "reported_at": DAY, "agent": "x", "seq": 1},
        {
            "app": "A",
            "run_id": "r",
            "event": "started",
            "reported_at": DAY + timedelta(seconds=1),
            "origin": "log",
        },
        {"app": "a", "run_id": "r", "event": "idle", "reported_at": DAY, "agent": "x", "seq": 2},
        {
            "app": "a",
            "run_id": "r",
            "event": "idle",
            "reported_at": DAY + timedelta(seconds=1),
            "agent": "x",
            "seq": 3,
        },
        {"app": "a", "event": "app_started", "reported_at": DAY},
        {"app": "b", "event": "app_started", "reported_at": DAY},
        {"app": "b", "event": "app_started", "reported_at": DAY},
    ]
    kept = drop_duplicates(
        "lifecycle", pa.Table.from_pylist(events, schema=arrow_schema("lifecycle"))
    ).to_pylist()
    assert [(item["app"], item["event"], item["seq"]) for item in kept] == [
        ("a", "started", 1),
        ("a", "idle", 2),
        ("a", "idle", 3),
        ("a", "app_started", None),
        ("b", "app_started", None),
    ]


def test_rows_of_no_query_are_merged_too(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path), create=True)
    for number in range(8):
        row = {
            "app": str(number),
            "event": "app_started",
            "reported_at": DAY,
            "query_id": "q" if number % 2 else None,
        }
        staging = lake.stage("ingest", f"q-{number}")
        rows = pa.Table.from_pylist([row], schema=arrow_schema("lifecycle"))
        lake.commit(staging, staging.write("lifecycle", rows, "0"))
    rows = merged(lake, file_groups(lake.manifest(), day(1))[0], chunk_rows=2)
    assert sorted(rows["app"].to_pylist()) == [str(number) for number in range(8)]


def test_a_damaged_file_is_reported_and_its_day_left_as_it_was(tmp_path: Path) -> None:
    lake = filled(tmp_path)
    heap = file_groups(lake.manifest(), day(1))[0]
    Path(lake.folder.absolute(heap.parts[3].path)).write_bytes(b"PAR1 no more")
    done = compact_group(lake.stage("compact", "x"), heap)
    assert done.problem is not None and heap.parts[3].path in done.problem and "\n" not in done.problem
    assert done.parts == ()


def test_a_file_with_fewer_rows_than_were_committed_is_reported(tmp_path: Path) -> None:
    lake = filled(tmp_path)
    heap = file_groups(lake.manifest(), day(1))[0]
    pq.write_table(reports([]), lake.folder.absolute(heap.parts[0].path))
    assert compact_group(lake.stage("compact", "x"), heap).problem == "8 rows were committed but 7 were read"


def test_folding_forgets_merged_batches_but_the_newest_of_each_ingest(tmp_path: Path) -> None:
    lake = filled(tmp_path)
    put(lake, "ingest", "other-0001", reports([50]))
    put(lake, "import", "log", reports([60]), fingerprint="f")
    merged(lake, file_groups(lake.manifest(), day(1))[0])
    folded, forgotten = consolidatable(lake.manifest())
    assert {key for key in folded if key[0] == "ingest"} - forgotten == {
        ("ingest", "q-0007"),
        ("ingest", "other-0001"),
    }
    lake.consolidate(folded, forgotten)
    manifest = Lake.open(str(tmp_path)).manifest()
    assert sorted(manifest.commits_of_job("ingest")) == ["other-0001", "q-0007"]
    assert manifest.commits[("import", "log")].facts == {"fingerprint": "f"}
    assert by_manifest(lake) == by_glob(tmp_path) == [*range(8), 50, 60]
