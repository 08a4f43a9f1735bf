"""The source of `clicks_slow`: it obeys its limit and tells its head."""

from __future__ import annotations

import runpy
from typing import Any

import pytest

from controlplane.demo.scenarios import PROGRAMS

datasource = pytest.importorskip("pyspark.sql.streaming.datasource")


@pytest.fixture(scope="module")
def program() -> dict[str, Any]:
    return runpy.run_path(str(PROGRAMS / "clicks.py"), run_name="clicks")


@pytest.fixture
def reader(program: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    made = program["ClickReader"]({"rows_per_second": "200", "max_rows_per_batch": "200", "since": "1000"})
    monkeypatch.setattr(program["time"], "time", lambda: 1010.0)  # 2 000 clicks have arrived
    return made


def offsets(zero: int, one: int) -> dict[str, dict[str, int]]:
    return {"clicks": {"0": zero, "1": one}}


def test_a_batch_ends_at_its_limit_while_the_head_runs_on(reader: Any) -> None:
    assert reader.latestOffset(offsets(100, 100), reader.getDefaultReadLimit()) == offsets(200, 200)
    assert reader.reportLatestOffset() == offsets(1000, 1000)


def test_a_batch_never_ends_beyond_the_head(reader: Any) -> None:
    assert reader.latestOffset(offsets(950, 1000), datasource.ReadMaxRows(200)) == offsets(1000, 1000)


def test_without_a_limit_a_batch_ends_at_the_head(reader: Any) -> None:
    assert reader.latestOffset(offsets(0, 0), datasource.ReadAllAvailable()) == offsets(1000, 1000)


def test_what_was_promised_is_what_is_read(reader: Any) -> None:
    parts = reader.partitions(offsets(0, 10), offsets(3, 10))
    rows = [row for part in parts for row in reader.read(part)]
    assert [(row[0], row[1]) for row in rows] == [(0, 0), (0, 1), (0, 2)]
    assert rows == [row for part in parts for row in reader.read(part)]


def test_the_stream_keeps_its_beginning_over_a_new_driver(program: dict[str, Any], tmp_path: Any) -> None:
    assert program["first_start"](tmp_path) == program["first_start"](tmp_path)
