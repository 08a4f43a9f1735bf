"""A lake whose writers die at every step, meet each other, or find it damaged."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controlplane.errors import LakeError
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import Commit
from tests.served_s3 import DENIED, ServedS3, no_failure
from tests.unit.controlplane.lake.lakes import (
    Broken,
    FailingFolder,
    by_glob,
    by_manifest,
    day,
    put,
    reports,
)


def first(lake: Lake) -> Commit:
    return put(lake, "import", "a", reports(range(3)))


def again(lake: Lake) -> Commit:
    """The same batch with more days and rows, after another shape of it."""
    staging = lake.stage("import", "a")
    parts = staging.write("progress", reports(range(86398, 86402)), "0")
    return lake.commit(staging, parts + staging.write("progress", reports(range(5)), "1"))


def merge(lake: Lake) -> Commit:
    """What the tidying job does: all files of a day become one."""
    seen = lake.manifest()
    old = seen.parts("progress", day(0), day(0))
    # Not what the lake holds by now: rows of a commit since then would be there twice.
    rows = pa.concat_tables(pq.ParquetFile(lake.folder.absolute(part.path)).read() for part in old)
    staging = lake.stage("compact", f"progress-{day(0)}")
    parts = staging.write("progress", rows, "0")
    return lake.commit(staging, parts, replaces=[part.path for part in old], seen=seen)


def filled(root: Path) -> Lake:
    lake = Lake.open(str(root), create=True)
    first(lake)
    put(lake, "import", "b", reports(range(10, 13)))
    return lake


FIRST = [0, 1, 2, 10, 11, 12]
AGAIN = [0, 1, 2, 3, 4, 10, 11, 12, 86398, 86399, 86400, 86401]


@pytest.mark.long
def test_a_commit_that_s3_refuses_from_any_write_on_is_whole_after_recovery_or_never_was(
    s3: ServedS3,
) -> None:
    ends, step = set(), 0
    while True:
        url = f"s3://{s3.bucket()}/lake"
        first(Lake.open(url, create=True))
        lake, served = Lake.open(url), iter(range(step))
        s3.fails = lambda request, served=served: (
            None if request[0] in ("GET", "HEAD") or next(served, None) is not None else DENIED
        )
        try:
            again(lake)
        except (OSError, LakeError):
            pass
        else:
            break
        finally:
            s3.fails = no_failure
        recovered = Lake.open(url)
        recovered.recover()
        found = by_manifest(recovered)
        assert found in ([0, 1, 2], [0, 1, 2, 3, 4, 86398, 86399, 86400, 86401]), step
        ends.add(len(found))
        step += 1
    assert ends == {3, 9}


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("act", "after"), [(again, AGAIN), (merge, FIRST)], ids=["again", "merged"])
def test_a_commit_cut_off_at_any_step_is_whole_after_recovery_or_never_was(
    tmp_path: Path, act: Callable[[Lake], Commit], after: list[int], done: bool
) -> None:
    ends, step = set(), 0
    while True:
        root = tmp_path / str(step)
        filled(root)
        lake = Lake.open(str(root))
        lake.folder = FailingFolder(str(root), step, done)
        try:
            act(lake)
        except Broken:
            pass
        else:
            break
        recovered = Lake.open(str(root))
        ends.add(recovered.recover())
        assert by_glob(root) == by_manifest(recovered), step
        assert by_manifest(recovered) in (FIRST, after), step
        assert recovered.recover() == 0
        act(recovered)  # the job is run again
        assert by_glob(root) == by_manifest(recovered) == after, step
        step += 1
    assert step >= 6  # one part at least: written, journalled, moved, reported of, and two removals
    assert ends == {0, 1}


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_a_job_that_is_run_again_without_recovery_finishes_what_was_cut_off(
    tmp_path: Path, done: bool
) -> None:
    for step in range(50):
        root = tmp_path / str(step)
        filled(root)
        lake = Lake.open(str(root))
        lake.folder = FailingFolder(str(root), step, done)
        try:
            again(lake)
        except Broken:
            again(Lake.open(str(root)))
        else:
            return
        assert by_glob(root) == by_manifest(Lake.open(str(root))) == AGAIN, step
    raise AssertionError("a commit has no end")


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_folding_cut_off_at_any_step_loses_no_commit(tmp_path: Path, done: bool) -> None:
    for step in range(20):
        root = tmp_path / str(step)
        merge(filled(root))
        lake = Lake.open(str(root))
        lake.folder = FailingFolder(str(root), step, done)
        keys = [("import", "a"), ("import", "b")]
        try:
            lake.consolidate(keys)
        except Broken:
            pass
        else:
            return
        assert by_manifest(Lake.open(str(root))) == by_glob(root) == FIRST, step
        Lake.open(str(root)).consolidate(keys)
        assert by_manifest(Lake.open(str(root))) == by_glob(root) == FIRST, step
    raise AssertionError("folding has no end")


def test_a_batch_done_again_after_it_was_merged_stands_beside_the_merged_file(tmp_path: Path) -> None:
    lake = filled(tmp_path)
    merge(lake)
    put(lake, "import", "a", reports([3]))  # what is new of it, under the name that was replaced
    assert by_manifest(lake) == by_glob(tmp_path) == [0, 1, 2, 3, 10, 11, 12]
    merge(lake)
    assert by_manifest(lake) == by_glob(tmp_path) == [0, 1, 2, 3, 10, 11, 12]
    assert len(lake.manifest().parts("progress")) == 1


def test_a_merge_done_again_does_not_bring_back_what_the_first_one_replaced(tmp_path: Path) -> None:
    lake = filled(tmp_path)
    merge(lake)
    put(lake, "import", "c", reports([20]))
    merge(lake)
    assert by_manifest(lake) == by_glob(tmp_path) == [*FIRST, 20]


def test_a_batch_done_again_after_it_was_folded_wins_over_the_folded_one(tmp_path: Path) -> None:
    lake = filled(tmp_path)
    lake.consolidate([("import", "a")])
    again(lake)
    assert by_manifest(Lake.open(str(tmp_path))) == by_glob(tmp_path) == AGAIN
    lake.consolidate([("import", "a")])
    assert by_manifest(Lake.open(str(tmp_path))) == by_glob(tmp_path) == AGAIN


def test_folding_a_merged_commit_keeps_its_facts_and_forgets_its_files(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path), create=True)
    put(lake, "import", "a", reports(range(3)), fingerprint=7)
    put(lake, "ingest", "1", reports(range(3, 6)), events=3)
    merge(lake)
    compacted = ("compact", f"progress-{day(0)}")
    lake.consolidate([("import", "a"), ("ingest", "1"), compacted], dropped=[("ingest", "1")])
    manifest = Lake.open(str(tmp_path)).manifest()
    kept = manifest.get("import", "a")
    assert kept is not None and kept.facts == {"fingerprint": 7} and not kept.parts
    assert manifest.get("ingest", "1") is None
    assert by_manifest(lake) == by_glob(tmp_path) == list(range(6))
    assert manifest.commits[compacted].replaces == ()


def test_folding_leaves_replaced_files_replaced_while_a_commit_beside_names_them(tmp_path: Path) -> None:
    lake = filled(tmp_path)
    merge(lake)
    lake.consolidate([("compact", f"progress-{day(0)}")])
    assert by_manifest(Lake.open(str(tmp_path))) == by_glob(tmp_path) == FIRST


def test_a_merge_of_files_that_were_written_anew_meanwhile_is_refused_and_changes_nothing(
    tmp_path: Path,
) -> None:
    lake, other = filled(tmp_path), Lake.open(str(tmp_path))
    seen = lake.manifest()
    staging = lake.stage("compact", "x")
    parts = staging.write("progress", lake.read("progress"), "0")
    put(other, "import", "a", reports(range(4)))
    with pytest.raises(LakeError, match="another job changed the lake"):
        lake.commit(staging, parts, replaces=[part.path for part in seen.parts("progress")], seen=seen)
    assert by_manifest(lake) == by_glob(tmp_path) == [0, 1, 2, 3, 10, 11, 12]
    assert lake.folder.list_names("_staging") == []


def test_a_batch_that_was_merged_while_it_was_done_again_is_refused(tmp_path: Path) -> None:
    # Its rows were chosen when the lake held them under its own name: now they would be there twice.
    lake = filled(tmp_path)
    staging = lake.stage("import", "a")
    parts = staging.write("progress", reports(range(4)), "0")
    merge(Lake.open(str(tmp_path)))
    with pytest.raises(LakeError, match="another job changed the lake"):
        lake.commit(staging, parts)
    assert by_manifest(lake) == by_glob(tmp_path) == FIRST


def test_two_jobs_of_the_same_batch_at_once_leave_one_of_them(tmp_path: Path) -> None:
    item, two = filled(tmp_path), Lake.open(str(tmp_path))
    slow = item.stage("import", "a")
    parts = slow.write("progress", reports([7]), "0")
    put(two, "import", "a", reports([8]))
    with pytest.raises(LakeError, match="run the job again"):
        item.commit(slow, parts)
    assert by_manifest(item) == by_glob(tmp_path) == [8, 10, 11, 12]


def test_many_jobs_at_once_and_one_that_merges_keep_every_row(tmp_path: Path) -> None:
    filled(tmp_path)
    failed: list[BaseException] = []

    def write(writer: int) -> None:
        lake = Lake.open(str(tmp_path))
        for number in range(8):
            put(lake, "ingest", f"{writer}-{number}", reports([1000 + 100 * writer + number]))

    def guarded(writer: int) -> None:
        try:
            write(writer)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(writer,)) for writer in range(3)]
    for thread in threads:
        thread.start()
    merged = 0
    while merged < 5:
        merge(Lake.open(str(tmp_path)))
        lake = Lake.open(str(tmp_path))
        lake.consolidate(key for key in lake.manifest().commits if key[0] == "ingest")
        merged += 1
    for thread in threads:
        thread.join()
    assert failed == []
    expected = [*FIRST, *(1000 + 100 * writer + number for writer in range(3) for number in range(8))]
    assert by_manifest(Lake.open(str(tmp_path))) == by_glob(tmp_path) == expected


def test_a_reader_whose_manifest_is_older_than_a_merge_reads_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = filled(tmp_path)
    stale = [lake.manifest()]
    merge(Lake.open(str(tmp_path)))
    fresh = lake.manifest
    monkeypatch.setattr(lake, "manifest", lambda: stale.pop() if stale else fresh())
    assert by_manifest(lake) == FIRST
    assert stale == []


def look(root: Path) -> None:
    lake = Lake.open(str(root))
    lake.manifest()
    lake.recover()


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("_manifest/import/a.json", "_manifest/import/a.json"),
        ("_manifest/base.json", "_manifest/base.json"),
        ("_journal/import~a.json", "_journal/import~a.json"),
        ("lake.json", "lake.json"),
    ],
)
@pytest.mark.parametrize("content", [b"", b"\xff\x00", b"[]", b"7", b'{"commits": [1]}', b'{"commit": {}}'])
def test_a_damaged_file_of_the_lakes_own_is_named(
    tmp_path: Path, damage: str, named: str, content: bytes
) -> None:
    filled(tmp_path)
    (tmp_path / damage).parent.mkdir(exist_ok=True)
    (tmp_path / damage).write_bytes(content)
    with pytest.raises(LakeError) as error:
        look(tmp_path)
    assert str(tmp_path / named) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_journal_that_leads_out_of_the_lake_removes_nothing(tmp_path: Path) -> None:
    filled(tmp_path / "lake")
    precious = tmp_path / "precious.parquet"
    precious.write_text("mine")
    journal = {
        "commit": {"job": "import", "batch": "z", "at": 1, "parts": [], "replaces": [], "facts": {}},
        "staging": "_staging/z",
        "gone": ["../precious.parquet"],
    }
    (tmp_path / "lake/_journal/import~z.json").write_text(json.dumps(journal))
    with pytest.raises(LakeError, match=r"import~z\.json is damaged"):
        Lake.open(str(tmp_path / "lake")).recover()
    assert precious.exists()


def test_a_lake_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "lake.json").write_text('{"format": "spark-controlplane-lake", "version": 2}')
    with pytest.raises(LakeError, match="has version 2, this release reads version 1"):
        Lake.open(str(tmp_path))


def test_a_missing_part_of_a_cut_off_commit_is_named_before_anything_is_removed(tmp_path: Path) -> None:
    lake = filled(tmp_path)
    lake.folder = FailingFolder(str(tmp_path), 3, True)  # the journal is the last thing that is written
    with pytest.raises(Broken):
        again(lake)
    assert lake.folder.list_names("_journal") == ["import~a.json"]
    for path in tmp_path.glob("_staging/**/*.parquet"):
        path.unlink()
    with pytest.raises(LakeError, match="is missing, so the commit import/a cannot be completed"):
        Lake.open(str(tmp_path)).recover()
    assert by_glob(tmp_path) == FIRST


def test_rows_without_a_time_are_refused_not_left_out(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path), create=True)
    rows = reports(range(2))
    at = rows.schema.get_field_index("trigger_at")
    rows = rows.set_column(at, rows.schema.field(at), [[None, rows["trigger_at"][0].as_py()]])
    with pytest.raises(LakeError, match="1 rows of progress have no trigger_at"):
        lake.stage("import", "a").write("progress", rows, "0")


def test_two_parts_of_one_name_are_refused(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path), create=True)
    staging = lake.stage("import", "a")
    parts = staging.write("progress", reports([1]), "0") + staging.write("progress", reports([2]), "0")
    with pytest.raises(LakeError, match="two parts of import/a have the same name"):
        lake.commit(staging, parts)


def test_only_old_staged_files_that_no_journal_names_are_swept(tmp_path: Path) -> None:
    lake = filled(tmp_path)
    lake.stage("import", "old").write("progress", reports([1]), "0")
    old = lake.folder.list_names("_staging")
    lake.stage("import", "young").write("progress", reports([1]), "0")
    for path in [*tmp_path.glob(f"_staging/{old[0]}/**/*"), tmp_path / "_staging" / old[0]]:
        os.utime(path, (1, 1))
    assert lake.remove_orphans(time.time()) == 1
    assert len(lake.folder.list_names("_staging")) == 1
    assert lake.remove_orphans(time.time() + 2 * 86400) == 1


def test_a_lake_that_is_removed_under_a_job_is_not_begun_anew(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    put(lake, "ingest", "s-1", reports(range(3)))
    shutil.rmtree(tmp_path / "lake")
    with pytest.raises(LakeError, match=r"no longer exists: lake\.json is missing"):
        lake.stage("ingest", "s-2")
    assert not (tmp_path / "lake").exists()
