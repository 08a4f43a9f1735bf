"""Collecting an inventory: bounded, as of one batch, and never more than a note where something fails."""

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
    output_location,
)
from tests.unit.listeners.local_files import LocalFiles, write, write_batch, write_checkpoint


@pytest.fixture
def place(tmp_path: Path) -> Path:
    root = tmp_path / "check point"
    write_checkpoint(root)
    return root


def inventory(files: LocalFiles, bounds: Bounds = Bounds(), late_after: float = 1e9) -> DriverInventory:  # noqa: B008
    """A clock that goes on by a second a look: `late_after` is so many looks away."""
    ticks = itertools.count()
    return DriverInventory(files, bounds, late_after, lambda: float(next(ticks)))


def taken(files: LocalFiles, bounds: Bounds = Bounds(), late_after: float = 1e9) -> dict[str, object]:  # noqa: B008
    found = inventory(files, bounds, late_after)
    collect(found)
    return json.loads(json.dumps(found.document(100.0, "4.3.0")))


def paths(document, kind="files"):
    return {each[0] for each in document[kind]}


def test_all_is_listed_and_the_newest_of_the_logs_is_read(place):
    document = taken(LocalFiles(place))
    on_disk = {str(p.relative_to(place)) for p in place.rglob("*")}
    assert paths(document) | paths(document, "folders") == on_disk
    assert document["complete"] and document["exists"] and document["errors"] == []
    assert {"metadata", "offsets/2", "commits/2", "sources/0/2", "state/0/1/3.delta"} <= {
        *document["contents"]
    }
    assert base64.b64decode(document["contents"]["offsets/2"]).startswith(b"v1\n")
    assert (document["root"], document["collector"]) == (str(place), "driver file")


def test_what_is_not_there_and_what_is_no_folder_is_told(tmp_path):
    assert taken(LocalFiles(tmp_path / "gone"))["exists"] is False
    (tmp_path / "file").write_text("x")
    assert taken(LocalFiles(tmp_path / "file"))["errors"] == ["it is a file, not a folder"]


def test_a_folder_that_cannot_be_read_is_a_note_and_its_neighbours_go_on(place):
    files = LocalFiles(place)
    files.broken = {"state/0/0", "offsets/2"}
    document = taken(files)
    assert [error.partition(":")[0] for error in document["errors"]] == ["offsets/2", "state/0/0"]
    assert "state/0/1/3.delta" in paths(document) and "offsets/1" in document["contents"]


def test_a_batch_that_ends_while_the_logs_are_listed_makes_no_commit_without_its_offsets(place):
    files = LocalFiles(place)
    files.meanwhile = {"offsets": lambda: write_batch(place, 3)}
    document = taken(files)
    assert {"offsets/3", "commits/3", "sources/0/3"} <= paths(document)
    assert files.calls.count("offsets") == 2


def test_a_query_that_never_holds_still_is_taken_as_it_is(place):
    files, batches = LocalFiles(place), itertools.count(3)

    def next_batch():
        write_batch(place, next(batches))
        files.meanwhile["offsets"] = next_batch

    files.meanwhile = {"offsets": next_batch}
    document = taken(files)
    newest = {
        kind: max(int(p[8:]) for p in paths(document) if p.startswith(kind))
        for kind in ("offsets", "commits")
    }
    assert newest["offsets"] == newest["commits"] + 1  # as in any query under way
    assert document["complete"]


def test_a_file_that_goes_away_before_it_is_read_was_never_there(place):
    files = LocalFiles(place)
    files.meanwhile = {"sources/0": (place / "offsets/0").unlink}
    document = taken(files)
    assert "offsets/0" not in paths(document) and document["errors"] == []


def test_time_that_is_up_cuts_the_listing_and_says_so(place):
    document = taken(LocalFiles(place), late_after=2)
    assert document["complete"] is False
    assert "commits/2" in paths(document) and "state/0/0/1.delta" not in paths(document)


def test_the_logs_are_read_before_the_state_is_listed(place):
    files = LocalFiles(place)
    taken(files)
    assert max(map(files.calls.index, ("metadata", "offsets/2", "commits/2"))) < files.calls.index("state")
    assert len(files.calls) == len({*files.calls}) + 1  # nothing is asked for twice but the newest commit


def test_logs_that_were_not_read_in_time_are_told_and_state_is_not(place):
    found = inventory(LocalFiles(place), late_after=0)
    found.entries = {}
    collect_listing = inventory(LocalFiles(place))
    collect(collect_listing)
    found.entries = collect_listing.entries
    found.read(InventoryBudget())
    assert found.contents == {} and "metadata" in found.errors[0]
    found.errors, found.entries = [], {"state/0/0/1.delta": found.entries["state/0/0/1.delta"]}
    found.read(InventoryBudget())
    assert found.errors == []


def test_too_many_files_spare_what_a_restart_does_not_open(tmp_path):
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


def test_more_than_the_bound_of_what_cannot_be_spared_is_not_complete(tmp_path):
    for partition in range(10):
        write(tmp_path, {f"state/0/{partition}/{version}.delta": "x" for version in range(1, 11)})
    document = taken(LocalFiles(tmp_path), Bounds(entries=50))
    assert document["complete"] is False and len(document["files"]) < 70


def test_one_folder_of_too_many_files_is_cut(tmp_path):
    write(tmp_path, {f"offsets/{number}": "v1" for number in range(30)})
    document = taken(LocalFiles(tmp_path), Bounds(entries=20))
    assert document["complete"] is False and len(paths(document)) <= 20


def test_contents_stay_within_their_budget_weightiest_first(place):
    document = taken(LocalFiles(place), Bounds(contents=InventoryBudget(files=3)))
    assert list(document["contents"]) == sorted(["metadata", "offsets/1", "offsets/2"])
    small = taken(LocalFiles(place), Bounds(contents=InventoryBudget(bytes=60)))
    assert sum(len(base64.b64decode(data)) for data in small["contents"].values()) <= 60


def test_rows_of_state_stay_in_the_driver_where_that_is_asked_for(place):
    write(place, {"state/0/_metadata/metadata": "v1\n{}"})
    found = inventory(LocalFiles(place))
    collect(found, rows=False)
    assert "state/0/_metadata/metadata" in found.contents
    assert not any(map(holds_state_rows, found.contents))
    assert "state/0/0/1.delta" in found.entries


def test_of_an_output_only_the_sinks_log_is_listed(place, tmp_path):
    out = tmp_path / "out"
    write(out, {"_spark_metadata/0": "v1\n{}", "part-0.parquet": "x", "day=1/part-1.parquet": "x"})
    found, sink = inventory(LocalFiles(place)), inventory(LocalFiles(out))
    collect(found, sink)
    document = sink.document(1.0, None)
    assert paths(document) == {"_spark_metadata/0"} == {*document["contents"]}
    assert document["complete"] is False  # else the data files would be called missing


def test_what_was_seen_so_far_can_be_told_at_any_moment(place):
    files, seen = LocalFiles(place), []
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
def test_the_output_is_read_from_what_spark_calls_the_sink(sink, path):
    assert output_location(sink) == path


def test_a_local_place_is_named_without_its_scheme():
    assert [display_root(root) for root in ("file:/a/b/", "file:///a", "s3a://b/c", "file:/")] == [
        "/a/b",
        "/a",
        "s3a://b/c",
        "/",
    ]
