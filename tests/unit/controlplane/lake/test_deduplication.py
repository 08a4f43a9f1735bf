"""Rows that the lake holds already are left out, whoever put them there; a batch done again replaces its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controlplane.errors import LakeError
from controlplane.lake.deduplication import CommitConflict, conflict_check, drop_stored_rows
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import LakeManifest
from controlplane.lake.rows import LakeRowBuilder, Producer
from tests.drivers import BEGIN, report

DAY = 86400.0
HERE = ("import", "new")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(str(tmp_path / "lake"), create=True)


def rows(*batches: int, run: str = "r", at: float = BEGIN) -> LakeRowBuilder:
    made = LakeRowBuilder()
    for batch in batches:
        made.progress(Producer("shop", "4.3.0", "log"), report("q", run, batch, at + batch))
    return made


def put(lake: Lake, job: str, batch: str, tables: dict[str, Any]) -> None:
    staging = lake.stage(job, batch)
    parts = [part for name, table in tables.items() for part in staging.write(name, table, "0")]
    lake.commit(staging, parts)


def batches(tables: dict[str, Any]) -> dict[str, list[int]]:
    return {name: table["batch_id"].to_pylist() for name, table in tables.items() if name != "lifecycle"}


def test_an_empty_lake_holds_nothing(lake: Lake) -> None:
    tables = rows(1, 2).take()
    assert drop_stored_rows(lake, tables, HERE) == (tables, 0)


def test_reports_that_another_job_brought_are_left_out_of_all_tables(lake: Lake) -> None:
    put(lake, "ingest", "1", rows(1, 2).take())
    kept, known = drop_stored_rows(lake, rows(1, 2, 3).take(), HERE)
    assert known == 2
    assert batches(kept) == {"progress": [3], "sources": [3], "state_operators": [3]}


def test_what_the_same_batch_of_the_same_job_brought_before_is_no_reason_to_leave_it_out(lake: Lake) -> None:
    put(lake, *HERE, rows(1, 2).take())
    kept, known = drop_stored_rows(lake, rows(1, 2, 3).take(), HERE)
    assert (known, batches(kept)["progress"]) == (0, [1, 2, 3])


@pytest.mark.parametrize("other", [{"run": "s"}, {"at": BEGIN + 0.001}, {"at": BEGIN + DAY}])
def test_another_run_another_trigger_or_another_day_is_another_report(lake: Lake, other: Any) -> None:
    put(lake, "ingest", "1", rows(1, **other).take())
    kept, known = drop_stored_rows(lake, rows(1).take(), HERE)
    assert (known, batches(kept)["progress"]) == (0, [1])


def test_a_manifest_that_was_read_before_is_taken_as_it_is(lake: Lake) -> None:
    before = lake.manifest()
    put(lake, "ingest", "1", rows(1).take())
    assert drop_stored_rows(lake, rows(1).take(), HERE, before)[1] == 0
    assert drop_stored_rows(lake, rows(1).take(), HERE, lake.manifest())[1] == 1


def lives(*events: tuple[str, float], agent: str | None = None) -> LakeRowBuilder:
    made = LakeRowBuilder()
    for event, at in events:
        made.lifecycle(Producer("shop", "4.3.0", "log"), event, at, "q", "r", "orders", agent=agent)
    return made


@pytest.mark.parametrize("moved", [0.0, 3.5, -40_000.0])
def test_a_run_starts_and_ends_once_whatever_the_clocks_say(lake: Lake, moved: float) -> None:
    put(lake, "ingest", "1", lives(("started", BEGIN), ("idle", BEGIN), agent="a").take())
    reported = lives(("started", BEGIN + moved), ("idle", BEGIN + 60), ("terminated", BEGIN + 90)).take()
    kept, known = drop_stored_rows(lake, reported, HERE)
    assert kept["lifecycle"]["event"].to_pylist() == ["idle", "terminated"]
    assert known == 0


def test_an_idle_at_the_same_moment_is_the_same(lake: Lake) -> None:
    put(lake, "ingest", "1", lives(("idle", BEGIN)).take())
    assert drop_stored_rows(lake, lives(("idle", BEGIN)).take(), HERE)[0]["lifecycle"].num_rows == 0


def test_many_runs_are_reported_apart_without_naming_each_to_the_reader(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.lake.deduplication.MAX_FILTERED_RUNS", 1)
    put(lake, "ingest", "1", rows(1, run="a").take())
    both = {
        name: [table, rows(1, run="b").take()[name]] for name, table in rows(1, 2, run="a").take().items()
    }
    import pyarrow as pa

    kept, known = drop_stored_rows(lake, {name: pa.concat_tables(two) for name, two in both.items()}, HERE)
    assert known == 1
    assert sorted(zip(*(kept["progress"][c].to_pylist() for c in ("run_id", "batch_id")), strict=True)) == [
        ("a", 2),
        ("b", 1),
    ]


def batch_of(
    lake: Lake, job: str, batch: str, tables: dict[str, Any], asked: LakeManifest | None = None
) -> Any:
    """A commit about to be made, by a job that asked the lake before."""
    staging, asked = lake.stage(job, batch), asked or lake.manifest()
    kept, _ = drop_stored_rows(lake, tables, (job, batch), asked)
    parts = [part for name, table in kept.items() for part in staging.write(name, table, "0")]
    return lambda: lake.commit(staging, parts, check=conflict_check(lake, staging, parts, asked))


def merged(lake: Lake) -> None:
    """What tidy does to all that there is of progress."""
    seen = lake.manifest()
    parts = seen.parts("progress")
    staging = lake.stage("compact", f"merged-{len(seen.commits)}")
    made = staging.write("progress", lake.read("progress"), "0")
    lake.commit(staging, made, replaces=[part.path for part in parts], seen=seen)


def held(lake: Lake) -> list[int]:
    return sorted(lake.read("progress")["batch_id"].to_pylist())


def test_two_jobs_that_bring_the_same_rows_at_once_do_not_both_put_them_there(lake: Lake) -> None:
    item = batch_of(lake, "ingest", "1", rows(1, 2).take())
    other = batch_of(lake, "import", "x", rows(2, 3).take())
    item()
    with pytest.raises(CommitConflict, match="run the job again"):
        other()
    assert held(lake) == [1, 2] and lake.folder.list_names("_staging") == []
    batch_of(lake, "import", "x", rows(2, 3).take())()
    assert held(lake) == [1, 2, 3]


def test_jobs_at_once_with_rows_of_their_own_do_not_wait_for_each_other(lake: Lake) -> None:
    item, other = batch_of(lake, "ingest", "1", rows(1).take()), batch_of(lake, "import", "x", rows(2).take())
    item()
    other()
    assert held(lake) == [1, 2]


def test_lives_that_two_jobs_bring_at_once_are_not_taken_twice(lake: Lake) -> None:
    item = batch_of(lake, "ingest", "1", lives(("started", BEGIN), agent="a").take())
    other = batch_of(lake, "import", "x", lives(("started", BEGIN + 5)).take())
    item()
    with pytest.raises(CommitConflict):
        other()


def test_files_that_were_merged_since_the_lake_was_asked_are_found_again(lake: Lake) -> None:
    for number in (1, 2):
        put(lake, "ingest", str(number), rows(number).take())
    before = lake.manifest()
    merged(lake)
    assert drop_stored_rows(lake, rows(1, 2, 3).take(), HERE, before)[1] == 2


def test_a_file_that_is_missing_for_good_is_named(lake: Lake) -> None:
    put(lake, "ingest", "1", rows(1).take())
    lake.folder.remove(lake.manifest().parts("progress")[0].path)
    with pytest.raises(LakeError, match=r"progress/.*ingest-1-0\.parquet"):
        drop_stored_rows(lake, rows(1).take(), HERE)


def test_a_batch_whose_files_are_merged_while_it_is_done_again_is_not_twice(lake: Lake) -> None:
    put(lake, "import", "x", rows(1, 2).take())
    asked = lake.manifest()
    merged(lake)
    with pytest.raises(CommitConflict):
        batch_of(lake, "import", "x", rows(1, 2).take(), asked)()
    assert held(lake) == [1, 2]


@pytest.mark.parametrize("at", [-62135596800.0, 253402300799.0])
def test_the_first_and_the_last_day_that_there_is_have_no_day_beside(lake: Lake, at: float) -> None:
    put(lake, "import", "x", lives(("started", at)).take())
    assert drop_stored_rows(lake, lives(("started", at)).take(), HERE)[0]["lifecycle"].num_rows == 0


def test_who_else_committed_is_seen_without_reading_the_manifest(lake: Lake) -> None:
    before = lake.commit_stamps("import")
    put(lake, "import", "x", rows(1).take())
    assert lake.commit_stamps("import") == before
    put(lake, "ingest", "1", rows(2).take())
    assert lake.commit_stamps("import") != before
