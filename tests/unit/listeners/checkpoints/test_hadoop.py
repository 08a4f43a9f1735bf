"""Parsing the text of a directory listing, with any file name.

The rest needs Hadoop: tests/spark/test_inventory.py.
"""

import pytest

from listeners.checkpoints.hadoop import parse_listing


def text(folder: str, *names: str, kind: str = "FileStatus", tail: str = "") -> str:
    parts = [
        f"{kind}{{path={folder}/{name}; isDirectory=false; length={n}; replication=1; blocksize=33554432; "
        f"modification_time={1000 + n}; access_time=0; owner=; group=; permission=rw-; isSymlink=false{tail}}}"
        for n, name in enumerate(names)
    ]
    return f"Array({', '.join(parts)})"


@pytest.mark.parametrize("kind", ["FileStatus", "DeprecatedRawLocalFileStatus", "HdfsLocatedFileStatus"])
def test_listed_names_keep_their_sizes_and_times(kind):
    names = [
        "1.delta",
        "a b",
        "ü;=,{}",
        "line\nbreak",
        "x; isDirectory=true; length=7; modification_time=3",
        "%20#?",
    ]
    found = parse_listing(
        text("hdfs://nn:8020/ck/state", *names, kind=kind, tail="; hasAcl=false"), "hdfs://nn:8020/ck/state"
    )
    assert [(each.name, each.size, each.modified, each.folder) for each in found] == [
        (name, n, (1000 + n) / 1000, False) for n, name in enumerate(names)
    ]


def test_folders_have_no_length():
    line = "Array(FileStatus{path=file:/c/state; isDirectory=true; modification_time=5000; access_time=0})"
    assert parse_listing(line, "file:/c") == [("state", True, 0, 5.0)]


def test_folder_in_object_store_is_split_at_its_own_path():
    inner = "FileStatus{path=abfs://c@a/ck/offsets/1; isDirectory=false; length=3; modification_time=9}"
    assert (
        parse_listing(f"Array(VersionedFileStatus{{{inner}; version = 'x'}})", "abfs://c@a/ck/offsets")[
            0
        ].name
        == "1"
    )


def test_unknown_text_form_parses_to_nothing():
    assert parse_listing("Array(Status(/c/1, 3), Status(/c/2, 4))", "file:/c") == []
    assert parse_listing("Array()", "file:/c") == []
