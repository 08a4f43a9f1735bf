"""The grid survives a restart in a file; a file that is of no use does no harm."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from controlplane.metrics.series import snapshot
from controlplane.metrics.series.grid import Grid
from tests.unit.controlplane.metrics.series.stories import by_labels, named

STEP = 15.0


def full_grid() -> Grid:
    grid = Grid({"x": 600.0, "y": 60.0}, STEP)
    for slot in range(30):
        reported = [
            ("x", {"n": str(n), "text": "Zürich\n"}, float(n + slot)) for n in range(4) if (n + slot) % 5
        ]
        grid.put(slot * STEP, [*reported, ("y", {}, slot)])
    return grid


def test_what_is_loaded_is_what_was_saved(tmp_path: Path) -> None:
    grid, again = full_grid(), Grid({"x": 600.0, "y": 60.0}, STEP)
    snapshot.save(grid, tmp_path / "series")
    assert snapshot.load(again, tmp_path / "series", now=1000.0) == 29 * STEP
    assert by_labels(again.select([], -1.0, 1e9)) == by_labels(grid.select([], -1.0, 1e9))
    again.put(30 * STEP, [("y", {}, 1.0)])
    grid.put(30 * STEP, [("y", {}, 1.0)])
    assert by_labels(again.select([], -1.0, 1e9)) == by_labels(grid.select([], -1.0, 1e9))
    assert [path.name for path in tmp_path.iterdir()] == ["series"]


def test_other_rules_take_from_it_what_they_read(tmp_path: Path) -> None:
    snapshot.save(full_grid(), tmp_path / "series")
    grid = Grid({"y": 30.0, "z": 60.0}, STEP)
    assert snapshot.load(grid, tmp_path / "series", now=1000.0) == 29 * STEP
    (series,) = grid.select([], -1.0, 1e9)
    assert series.labels == {"__name__": "y"} and series.times.tolist() == [27 * STEP, 28 * STEP, 29 * STEP]


def test_a_clock_that_was_set_back_makes_no_samples_of_the_future(tmp_path: Path) -> None:
    snapshot.save(full_grid(), tmp_path / "series")
    grid = Grid({"x": 600.0, "y": 60.0}, STEP)
    assert snapshot.load(grid, tmp_path / "series", now=20 * STEP + 1) == 20 * STEP
    assert max(item.times[-1] for item in grid.select(named("x"), -1.0, 1e9)) == 20 * STEP


def test_where_there_is_none_nothing_is_stated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert snapshot.load(Grid({"x": 60.0}), tmp_path / "series", 0.0) is None
    assert caplog.records == []


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-300])


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(bytes(data))


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def of_another_kind(path: Path) -> None:
    path.write_text("series, but not of ours")


def pickled(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, head=np.array([{"format": 1}], dtype=object))


def rewritten(change: Callable[[dict[str, object]], None]) -> Callable[[Path], None]:
    def rewrite(path: Path) -> None:
        with np.load(path) as arrays:
            found = dict(arrays)
        head = json.loads(bytes(found["head"]))
        change(head)
        found["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
        with path.open("wb") as file:
            np.savez(file, **found)

    return rewrite


@pytest.mark.parametrize(
    "damage",
    [
        cut_short,
        flipped,
        emptied,
        of_another_kind,
        pickled,
        rewritten(lambda head: head.update(format=0)),
        rewritten(lambda head: head.update(step=30.0)),
        rewritten(lambda head: head["blocks"][0]["labels"].pop()),  # type: ignore[attr-defined,index]
        rewritten(lambda head: head.update(blocks=7)),
    ],
)
def test_a_file_that_is_of_no_use_is_a_line_in_the_log(
    damage: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    snapshot.save(full_grid(), tmp_path / "series")
    damage(tmp_path / "series")
    grid = Grid({"x": 600.0, "y": 60.0}, STEP)
    with caplog.at_level(logging.WARNING):
        assert snapshot.load(grid, tmp_path / "series", now=1000.0) is None
    assert len(caplog.records) == 1 and "cannot use the saved series" in caplog.text
    assert grid.series_count == 0


def test_a_save_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    snapshot.save(full_grid(), tmp_path / "series")
    before = (tmp_path / "series").read_bytes()
    (tmp_path / "series.new").mkdir()
    with pytest.raises(OSError, match=r"series\.new"):
        snapshot.save(Grid({}), tmp_path / "series")
    assert (tmp_path / "series").read_bytes() == before
