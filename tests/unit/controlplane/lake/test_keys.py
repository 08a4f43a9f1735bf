"""Rows that the lake holds already are left out, whoever put them there; a batch done again replaces its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controlplane.lake.keys import new_only
from controlplane.lake.lake import Lake
from controlplane.lake.rows import Rows, Who
from tests.drivers import BEGIN, report

DAY = 86400.0
HERE = ("import", "new")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(str(tmp_path / "lake"), create=True)


def rows(*batches: int, run: str = "r", at: float = BEGIN) -> Rows:
    made = Rows()
    for batch in batches:
        made.progress(Who("shop", "4.3.0", "log"), report("q", run, batch, at + batch))
    return made


def put(lake: Lake, job: str, batch: str, tables: dict[str, Any]) -> None:
    staging = lake.stage(job, batch)
    parts = [part for name, table in tables.items() for part in staging.write(name, table, "0")]
    lake.commit(staging, parts)


def batches(tables: dict[str, Any]) -> dict[str, list[int]]:
    return {name: table["batch_id"].to_pylist() for name, table in tables.items() if name != "lifecycle"}


def test_an_empty_lake_holds_nothing(lake: Lake) -> None:
    tables = rows(1, 2).take()
    assert new_only(lake, tables, HERE) == (tables, 0)


def test_reports_that_another_job_brought_are_left_out_of_all_tables(lake: Lake) -> None:
    put(lake, "ingest", "1", rows(1, 2).take())
    kept, known = new_only(lake, rows(1, 2, 3).take(), HERE)
    assert known == 2
    assert batches(kept) == {"progress": [3], "sources": [3], "state_operators": [3]}


def test_what_the_same_batch_of_the_same_job_brought_before_is_no_reason_to_leave_it_out(lake: Lake) -> None:
    put(lake, *HERE, rows(1, 2).take())
    kept, known = new_only(lake, rows(1, 2, 3).take(), HERE)
    assert (known, batches(kept)["progress"]) == (0, [1, 2, 3])


@pytest.mark.parametrize("other", [{"run": "s"}, {"at": BEGIN + 0.001}, {"at": BEGIN + DAY}])
def test_another_run_another_trigger_or_another_day_is_another_report(lake: Lake, other: Any) -> None:
    put(lake, "ingest", "1", rows(1, **other).take())
    kept, known = new_only(lake, rows(1).take(), HERE)
    assert (known, batches(kept)["progress"]) == (0, [1])


def test_a_manifest_that_was_read_before_is_taken_as_it_is(lake: Lake) -> None:
    before = lake.manifest()
    put(lake, "ingest", "1", rows(1).take())
    assert new_only(lake, rows(1).take(), HERE, before)[1] == 0
    assert new_only(lake, rows(1).take(), HERE, lake.manifest())[1] == 1


def lives(*events: tuple[str, float], agent: str | None = None) -> Rows:
    made = Rows()
    for event, at in events:
        made.lifecycle(Who("shop", "4.3.0", "log"), event, at, "q", "r", "orders", agent=agent)
    return made


@pytest.mark.parametrize("moved", [0.0, 3.5, -40_000.0])
def test_a_run_starts_and_ends_once_whatever_the_clocks_say(lake: Lake, moved: float) -> None:
    put(lake, "ingest", "1", lives(("started", BEGIN), ("idle", BEGIN), agent="a").take())
    told = lives(("started", BEGIN + moved), ("idle", BEGIN + 60), ("terminated", BEGIN + 90)).take()
    kept, known = new_only(lake, told, HERE)
    assert kept["lifecycle"]["event"].to_pylist() == ["idle", "terminated"]
    assert known == 0


def test_an_idle_at_the_same_moment_is_the_same(lake: Lake) -> None:
    put(lake, "ingest", "1", lives(("idle", BEGIN)).take())
    assert new_only(lake, lives(("idle", BEGIN)).take(), HERE)[0]["lifecycle"].num_rows == 0


def test_many_runs_are_told_apart_without_naming_each_to_the_reader(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.lake.keys.NAMED_RUNS", 1)
    put(lake, "ingest", "1", rows(1, run="a").take())
    both = {
        name: [table, rows(1, run="b").take()[name]] for name, table in rows(1, 2, run="a").take().items()
    }
    import pyarrow as pa

    kept, known = new_only(lake, {name: pa.concat_tables(two) for name, two in both.items()}, HERE)
    assert known == 1
    assert sorted(zip(*(kept["progress"][c].to_pylist() for c in ("run_id", "batch_id")), strict=True)) == [
        ("a", 2),
        ("b", 1),
    ]
