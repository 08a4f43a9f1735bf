"""Collecting an inventory: within limits, as of one batch, and tolerant of errors."""

from __future__ import annotations

import base64
import itertools
import json
from pathlib import Path

import pytest

from listeners.checkpoints.inventory_policy import InventoryBudget
from listeners.checkpoints.inventory_reader import (
    Bounds,
    DriverInventory,
    collect,
    display_root,
    holds_state_rows,
    newest_batches,
    output_location,
)
from listeners.protocol.errors import FilesError
from tests.unit.listeners.local_files import LocalFiles, write, write_batch, write_checkpoint


@pytest.fixture
def checkpoint_dir(tmp_path: Path) -> Path:
    root = tmp_path / "check point"
    write_checkpoint(root)
    return root


def inventory(files: LocalFiles, bounds: Bounds = Bounds(), late_after: float = 1e9) -> DriverInventory:  # noqa: B008
    """A clock that advances by one second with each call; the deadline is `late_after` calls away."""
    ticks = itertools.count()
    return DriverInventory(files, bounds, late_after, lambda: float(next(ticks)))


def taken(files: LocalFiles, bounds: Bounds = Bounds(), late_after: float = 1e9) -> dict[str, object]:  # noqa: B008
    found = inventory(files, bounds, late_after)
    collect(found)
    return json.loads(json.dumps(found.document(100.0, "4.3.0")))


def paths(document, kind="files"):
    return {each[0] for each in document[kind]}


def test_all_files_are_listed_and_newest_logs_read(checkpoint_dir):
    document = taken(LocalFiles(checkpoint_dir))
    on_disk = {str(p.relative_to(checkpoint_dir)) for p in checkpoint_dir.rglob("*")}
    assert paths(document) | paths(document, "folders") == on_disk
    assert document["complete"] and document["exists"] and document["errors"] == []
    assert {"metadata", "offsets/2", "commits/2", "sources/0/2", "state/0/1/3.delta"} <= {
        *document["contents"]
    }
    assert base64.b64decode(document["contents"]["offsets/2"]).startswith(b"v1\n")
    assert (document["root"], document["collector"]) == (str(checkpoint_dir), "driver file")


def test_newest_batches_are_those_of_two_listings(checkpoint_dir, tmp_path):
    files = LocalFiles(checkpoint_dir)
    assert newest_batches(files, 100) == {"committed": 2, "planned": 2}
    assert newest_batches(LocalFiles(tmp_path / "gone"), 100) == {"committed": None, "planned": None}
    files.broken.add("offsets")
    for limit in (100, 1):
        with pytest.raises(FilesError):
            newest_batches(files, limit)


def test_missing_checkpoint_and_plain_file_are_reported(tmp_path):
    assert taken(LocalFiles(tmp_path / "gone"))["exists"] is False
    (tmp_path / "file").write_text("x")
    assert taken(LocalFiles(tmp_path / "file"))["errors"] == ["it is a file, not a folder"]


def test_unreadable_folder_is_an_error_and_others_are_listed(checkpoint_dir):
    files = LocalFiles(checkpoint_dir)
    files.broken = {"state/0/0", "offsets/2"}
    document = taken(files)
    assert [error.partition(":")[0] for error in document["errors"]] == ["offsets/2", "state/0/0"]
    assert "state/0/1/3.delta" in paths(document) and "offsets/1" in document["contents"]


def test_batch_committed_while_listing_has_its_offsets(checkpoint_dir):
    files = LocalFiles(checkpoint_dir)
    files.meanwhile = {"offsets": lambda: write_batch(checkpoint_dir, 3)}
    document = taken(files)
    assert {"offsets/3", "commits/3", "sources/0/3"} <= paths(document)
    assert files.calls.count("offsets") == 2


def test_query_faster_than_the_listing_is_listed_as_it_is(checkpoint_dir):
    files, batches = LocalFiles(checkpoint_dir), itertools.count(3)

    def next_batch():
        write_batch(checkpoint_dir, next(batches))
        files.meanwhile["offsets"] = next_batch

    files.meanwhile = {"offsets": next_batch}
    document = taken(files)
    newest = {
        kind: max(int(p[8:]) for p in paths(document) if p.startswith(kind))
        for kind in ("offsets", "commits")
    }
    assert newest["offsets"] == newest["commits"] + 1  # as in any running query
    assert document["complete"]


def test_a_file_deleted_before_it_is_read_is_omitted(checkpoint_dir):
    files = LocalFiles(checkpoint_dir)
    files.meanwhile = {"sources/0": (checkpoint_dir / "offsets/0").unlink}
    document = taken(files)
    assert "offsets/0" not in paths(document) and document["errors"] == []


def test_deadline_cuts_the_listing_and_marks_it_incomplete(checkpoint_dir):
    document = taken(LocalFiles(checkpoint_dir), late_after=2)
    assert document["complete"] is False
    assert "commits/2" in paths(document) and "state/0/0/1.delta" not in paths(document)


def test_logs_are_read_before_the_state_is_listed(checkpoint_dir):
    files = LocalFiles(checkpoint_dir)
    taken(files)
    assert max(map(files.calls.index, ("metadata", "offsets/2", "commits/2"))) < files.calls.index("state")
    assert len(files.calls) == len({*files.calls}) + 1  # only the newest commit is listed twice


def test_unread_logs_are_reported_and_unread_state_is_not(checkpoint_dir):
    found = inventory(LocalFiles(checkpoint_dir), late_after=0)
    found.entries = {}
    collect_listing = inventory(LocalFiles(checkpoint_dir))
    collect(collect_listing)
    found.entries = collect_listing.entries
    found.read(InventoryBudget())
    assert found.contents == {} and "metadata" in found.errors[0]
    found.errors, found.entries = [], {"state/0/0/1.delta": found.entries["state/0/0/1.delta"]}
    found.read(InventoryBudget())
    assert found.errors == []


def test_too_many_files_drop_those_a_restart_does_not_open(tmp_path):
    for partition in range(4):
        for version in range(1, 41):
            kind = "snapshot" if version % 10 == 0 else "delta"
            write(
                tmp_path, {f"state/0/{partition}/{version}.{kind}": "x", "offsets/0": "v1", "metadata": "{}"}
            )
    whole = taken(LocalFiles(tmp_path))
    assert len(whole["files"]) == 162
    document = taken(LocalFiles(tmp_path), Bounds(entries=120))
    assert document["complete"] is True
    kept = {p for p in paths(document) if p.startswith("state/0/3/")}
    assert kept == {f"state/0/3/{v}.{'snapshot' if v % 10 == 0 else 'delta'}" for v in range(20, 41)}


def test_more_files_than_the_limit_are_not_complete(tmp_path):
    for partition in range(10):
        write(tmp_path, {f"state/0/{partition}/{version}.delta": "x" for version in range(1, 11)})
    document = taken(LocalFiles(tmp_path), Bounds(entries=50))
    assert document["complete"] is False and len(document["files"]) < 70


def test_folder_with_too_many_files_is_cut(tmp_path):
    write(tmp_path, {f"offsets/{number}": "v1" for number in range(30)})
    document = taken(LocalFiles(tmp_path), Bounds(entries=20))
    assert document["complete"] is False and len(paths(document)) <= 20


def test_contents_stay_within_the_budget_most_important_first(checkpoint_dir):
    document = taken(LocalFiles(checkpoint_dir), Bounds(contents=InventoryBudget(files=3)))
    assert list(document["contents"]) == sorted(["metadata", "offsets/1", "offsets/2"])
    small = taken(LocalFiles(checkpoint_dir), Bounds(contents=InventoryBudget(bytes=60)))
    assert sum(len(base64.b64decode(data)) for data in small["contents"].values()) <= 60


def test_state_rows_are_not_read_when_excluded(checkpoint_dir):
    write(checkpoint_dir, {"state/0/_metadata/metadata": "v1\n{}"})
    found = inventory(LocalFiles(checkpoint_dir))
    collect(found, rows=False)
    assert "state/0/_metadata/metadata" in found.contents
    assert not any(map(holds_state_rows, found.contents))
    assert "state/0/0/1.delta" in found.entries


def test_only_the_sink_log_of_an_output_is_listed(checkpoint_dir, tmp_path):
    out = tmp_path / "out"
    write(out, {"_spark_metadata/0": "v1\n{}", "part-0.parquet": "x", "day=1/part-1.parquet": "x"})
    found, sink = inventory(LocalFiles(checkpoint_dir)), inventory(LocalFiles(out))
    collect(found, sink)
    document = sink.document(1.0, None)
    assert paths(document) == {"_spark_metadata/0"} == {*document["contents"]}
    assert document["complete"] is False  # otherwise the data files would be reported as missing


def test_partial_inventory_can_be_read_at_any_time(checkpoint_dir):
    files, seen = LocalFiles(checkpoint_dir), []
    found = inventory(files)
    files.meanwhile = {"state/0/1": lambda: seen.append(found.document(1.0, None))}
    collect(found)
    assert seen[0]["complete"] is False and "offsets/2" in paths(seen[0])


@pytest.mark.parametrize(
    ("sink", "path"),
    [
        ("FileSink[file:/o ut/a[1]]", "file:/o ut/a[1]"),
        ("ForeachBatchSink", None),
        ("FileSink[/cut", None),
        (None, None),
    ],
)
def test_output_location_comes_from_the_sink_description(sink, path):
    assert output_location(sink) == path


def test_local_root_is_named_without_scheme():
    assert [display_root(root) for root in ("file:/a/b/", "file:///a", "s3a://b/c", "file:/")] == [
        "/a/b",
        "/a",
        "s3a://b/c",
        "/",
    ]
