"""Every filesystem that fsspec opens is a home for a lake: the same deeds on a local disk, in memory and on S3."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.errors import LakeError
from controlplane.lake.folders import LakeFolder
from controlplane.lake.lake import Lake
from tests.served_s3 import DENIED, THROTTLED, ServedS3
from tests.unit.controlplane.lake.lakes import by_manifest, day, put, reports


@pytest.fixture(params=["path", "file", "memory", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "s3":
        yield f"s3a://{request.getfixturevalue('s3').bucket()}/lake"
    elif request.param == "memory":
        home = f"memory://lake-{uuid.uuid4().hex}"
        yield home
        LakeFolder(home).remove("")
    else:
        yield str(tmp_path / "lake") if request.param == "path" else f"file://{tmp_path}/lake"


def test_what_is_written_is_read_and_listed_by_its_path_in_the_folder(url: str) -> None:
    folder = LakeFolder(url)
    folder.write("a/b.json", b"{}")
    folder.write_json("a/c/d.json", {"x": 1})
    assert folder.read("a/b.json") == b"{}" and folder.read_json("a/c/d.json") == {"x": 1}
    assert folder.list_names("a") == ["b.json", "c"]
    assert {path: size for path, (size, _) in folder.list_files("a").items()} == {
        "a/b.json": 2,
        "a/c/d.json": 7,
    }
    assert all(changed > 0 for _, changed in folder.list_files("a").values())
    assert folder.list_names("nowhere") == [] and folder.list_files("nowhere") == {}


def test_a_file_moves_over_another_one(url: str) -> None:
    folder = LakeFolder(url)
    folder.write("a", b"old")
    folder.write("b/c", b"new")
    folder.move({"b/c": "a"})
    folder.move({"a": "new/place"})
    assert folder.read("new/place") == b"new"
    assert not folder.exists("a") and not folder.exists("b/c")


def test_removing_a_missing_file_is_no_error(url: str) -> None:
    folder = LakeFolder(url)
    folder.write("a/b", b"x")
    folder.remove("a")
    folder.remove("a")
    assert not folder.exists("a/b")


def test_a_folder_survives_the_way_to_an_executor(url: str) -> None:
    folder = LakeFolder(url)
    folder.write("a", b"x")
    assert pickle.loads(pickle.dumps(folder)).read("a") == b"x"


def test_a_missing_file_is_missing_and_a_damaged_one_is_named(url: str) -> None:
    folder = LakeFolder(url)
    with pytest.raises(FileNotFoundError):
        folder.read_json("nothing.json")
    folder.write("bad.json", b"{")
    with pytest.raises(LakeError, match=r"bad\.json is damaged"):
        folder.read_json("bad.json")


def test_a_lake_is_written_replaced_merged_folded_and_read(url: str) -> None:
    lake = Lake.open(url, create=True)
    put(lake, "import", "a", reports([1, 2]))
    put(lake, "import", "b", reports([3, 90_000]))
    put(lake, "import", "a", reports([1, 2, 4]))
    assert by_manifest(Lake.open(url)) == [1, 2, 3, 4, 90_000]
    seen = lake.manifest()
    staging = lake.stage("compact", "one")
    parts = staging.write("progress", lake.read("progress", day(0), day(0)), "0")
    lake.commit(staging, parts, replaces=[p.path for p in seen.parts("progress", day(0), day(0))], seen=seen)
    lake.consolidate(lake.manifest().commits)
    again = Lake.open(url)
    assert by_manifest(again) == [1, 2, 3, 4, 90_000]
    assert [part.rows for part in again.manifest().parts("progress")] == [4, 1]
    assert again.folder.list_names("_journal") == [] and again.folder.list_names("_staging") == []
    assert lake.read("progress", day(1), day(1), columns=["batch_id"])["batch_id"].to_pylist() == [90_000]
    files = [path for path in lake.folder.list_files("progress") if path.endswith(".parquet")]
    assert sorted(files) == sorted(part.path for part in again.manifest().parts("progress"))


def test_without_a_lake_the_error_names_the_lake(url: str) -> None:
    with pytest.raises(LakeError, match=r"there is no lake at .*: lake\.json is missing"):
        Lake.open(url)


def test_a_lake_that_s3_denies_or_throttles_is_named_in_one_line(s3: ServedS3) -> None:
    folder = LakeFolder(f"s3://{s3.bucket()}/lake")
    folder.write("a", b"x")
    s3.fails = lambda request: DENIED
    for deed in (lambda: folder.read("a"), lambda: folder.write("a", b"y"), lambda: folder.list_files("")):
        with pytest.raises(LakeError, match=r"^s3://bucket-\w+/lake cannot be used: PermissionError: "):
            deed()
    s3.fails = lambda request: THROTTLED
    with pytest.raises(LakeError, match="Please reduce your request rate"):
        folder.list_names("")


def test_a_write_to_s3_is_one_request_and_a_move_three(s3: ServedS3) -> None:
    folder = LakeFolder(f"s3://{s3.bucket()}/lake")
    s3.requests.clear()
    folder.write("a/b", b"x")
    folder.move({"a/b": "c"})
    assert s3.methods() == ["PUT", "HEAD", "PUT", "DELETE"]


def test_an_unknown_scheme_is_one_clear_line() -> None:
    with pytest.raises(LakeError, match="nosuch://x cannot be opened"):
        Lake.open("nosuch://x")
