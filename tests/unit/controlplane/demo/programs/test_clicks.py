"""The source of `clicks_slow` and `clicks_blocked`: it obeys its limit and reports its head."""

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


def offsets(zero: int, item: int) -> dict[str, dict[str, int]]:
    return {"clicks": {"0": zero, "1": item}}


def test_a_batch_ends_at_its_limit_while_the_head_runs_on(reader: Any) -> None:
    assert reader.latestOffset(offsets(100, 100), reader.getDefaultReadLimit()) == offsets(200, 200)
    assert reader.reportLatestOffset() == offsets(1000, 1000)


def test_a_batch_never_ends_beyond_the_head(reader: Any) -> None:
    assert reader.latestOffset(offsets(950, 1000), datasource.ReadMaxRows(200)) == offsets(1000, 1000)


def test_without_a_limit_a_batch_ends_at_the_head(reader: Any) -> None:
    assert reader.latestOffset(offsets(0, 0), datasource.ReadAllAvailable()) == offsets(1000, 1000)


def test_a_blocked_partition_stays_where_it_is_and_its_head_runs_on(
    program: dict[str, Any], reader: Any
) -> None:
    options = {"rows_per_second": "200", "max_rows_per_batch": "200", "since": "1000", "blocked": "1"}
    blocked = program["ClickReader"](options)
    for limit in (blocked.getDefaultReadLimit(), datasource.ReadAllAvailable()):
        assert blocked.latestOffset(offsets(900, 5), limit)["clicks"]["1"] == 5
    assert blocked.latestOffset(offsets(900, 5), blocked.getDefaultReadLimit()) == offsets(1000, 5)
    assert blocked.reportLatestOffset() == offsets(1000, 1000)


def test_what_was_promised_is_what_is_read(reader: Any) -> None:
    parts = reader.partitions(offsets(0, 10), offsets(3, 10))
    rows = [row for part in parts for row in reader.read(part)]
    assert [(row[0], row[1]) for row in rows] == [(0, 0), (0, 1), (0, 2)]
    assert rows == [row for part in parts for row in reader.read(part)]


def test_the_stream_keeps_its_beginning_over_a_new_driver(program: dict[str, Any], tmp_path: Any) -> None:
    began = program["first_start"](tmp_path, "clicks", 30.0)
    assert began == program["first_start"](tmp_path, "clicks", 0.0)
    assert began <= program["time"].time() - 30.0


def test_state_doubles_and_then_goes_on_evenly(program: dict[str, Any]) -> None:
    def visitors(second: int) -> int:
        text = program["known_visitors"](str(second * program["VISITS_PER_SECOND"]))
        expression = text.replace("CAST(", "int(").replace(" AS BIGINT", "")
        return int(eval(expression, {"pow": pow, "least": min, "greatest": max, "int": int}))

    doubling, last = program["DOUBLING_SECONDS"], program["DOUBLING_FOR_SECONDS"]
    assert [visitors(n * doubling) for n in range(3)] == [8000, 16000, 32000]
    before, after = visitors(last) - visitors(last - 10), visitors(last + 10) - visitors(last)
    assert before < after < 1.05 * before
    assert visitors(last + 20) - visitors(last + 10) == after
