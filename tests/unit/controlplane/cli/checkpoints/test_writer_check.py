"""Whether the query that the server knows is the one whose checkpoint lies here, or this is a copy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from controlplane.checkpoints.repair.errors import InUse
from controlplane.cli.checkpoints.writer_check import KnownQuery, refuse_running, same_place

ID = "9b43c760-2baa-4810-939c-6c4fb7c86f89"


@pytest.fixture
def original(tmp_path: Path) -> Path:
    (tmp_path / "ck").mkdir()
    (tmp_path / "ck/metadata").write_text(f'{{"id":"{ID}"}}')
    return tmp_path / "ck"


def test_one_folder_has_many_names(original: Path) -> None:
    (original.parent / "link").symlink_to(original)
    for reported in (f"file:{original}", f"file://{original}/", str(original.parent / "link")):
        assert same_place(reported, str(original), ID) is True


def test_a_copy_beside_the_original_is_another_place(original: Path) -> None:
    copy = shutil.copytree(original, original.parent / "copy")
    assert same_place(f"file:{original}", str(copy), ID) is False


def test_a_folder_of_that_name_that_holds_another_query_is_another_machines(original: Path) -> None:
    copy = shutil.copytree(original, original.parent / "copy")
    (original / "metadata").write_text("{}")
    assert same_place(f"file:{original}", str(copy), ID) is None


@pytest.mark.parametrize(
    ("reported", "here", "same_location"),
    [
        ("s3a://lake/ck", "s3://lake/ck/", True),
        ("s3a://lake/ck", "s3://lake/copy", False),
        ("hdfs://name:8020/ck", "hdfs://other/ck", True),
        ("hdfs://name:8020/ck", "webhdfs://name/copy", False),
        ("s3a://lake/ck", "/mnt/lake/ck", None),
        ("file:/in/the/container/ck", "/mnt/volume/ck", None),
        ("dbfs:/ck", "/dbfs/ck", None),
    ],
)
def test_locations_that_cannot_be_compared_give_none(
    reported: str, here: str, same_location: bool | None
) -> None:
    assert same_place(reported, here, ID) is same_location


def running(**more: object) -> KnownQuery:
    sink = {"sink": {"description": "FileSink[file:/out/a]"}}
    return KnownQuery(ID, "running", "app/q", sink, "file:/ck/a", **more)  # type: ignore[arg-type]


def test_only_a_copy_is_operated_on_while_its_original_runs() -> None:
    refuse_running(running(same_location=False))
    refuse_running(running(same_location=None, is_copy=True))
    for reported in (
        running(same_location=True),
        running(same_location=True, is_copy=True),
        running(same_location=None),
    ):
        with pytest.raises(InUse, match="stop it first"):
            refuse_running(reported)
    with pytest.raises(InUse, match="--relocate"):
        refuse_running(running(same_location=None))


def test_an_output_that_the_original_writes_to_is_not_cut_for_its_copy() -> None:
    refuse_running(running(same_location=False), "/out/copy")
    with pytest.raises(InUse, match="stop it first"):
        refuse_running(running(same_location=False), "/out/a")
