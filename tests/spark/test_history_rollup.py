"""The job over a lake: what it writes, that it writes nothing twice, and what makes it write again."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from controlplane.cli.main import run
from controlplane.lake.lake import Lake
from controlplane.lake.schema import arrow_schema
from controlplane.pipeline.rollup.baseline_documents import baselines_from_rows
from controlplane.pipeline.rollup.baseline_job import BaselineResult, refresh_baselines
from controlplane.pipeline.rollup.buckets import BUCKET_SECONDS
from controlplane.pipeline.rollup.rollup_job import RollupRequest, RollupSummary, refresh_rollups
from controlplane.pipeline.rollup.rollups import RawTables, compute_rollups
from controlplane.pipeline.runtime import lake_frames
from tests.spark import peer_rollups as peer

pytestmark = pytest.mark.spark
FIRST = date(2026, 3, 28)
ONE_DAY = timedelta(days=1)
NOW = datetime(2026, 4, 12, tzinfo=UTC).timestamp()
Rolls = Callable[..., RollupSummary]


def put(lake: Lake, batch: str, rows: peer.Lake) -> None:
    """As an import would."""
    staging = lake.stage("import", batch)
    parts = []
    for table, reported in vars(rows).items():
        columns = {name: [row.get(name) for row in reported] for name in arrow_schema(table).names}
        parts += staging.write(table, pa.table(columns, schema=arrow_schema(table)), "0")
    lake.commit(staging, parts)


def of_days(rows: peer.Lake, first: date, last: date) -> peer.Lake:
    def inside(row: peer.Row) -> bool:
        return first <= (row.get("trigger_at") or row["reported_at"]).date() <= last

    return peer.Lake(*([row for row in part if inside(row)] for part in vars(rows).values()))


def files(root: Path) -> dict[str, float]:
    """All but the locks, with the time of the last change."""
    held = (path for path in root.rglob("*") if path.is_file() and "_locks" not in path.parts)
    return {str(path.relative_to(root)): path.stat().st_mtime_ns for path in held}


@pytest.fixture(scope="module")
def data() -> peer.Lake:
    return peer.invented(11, FIRST, 3, queries=4)


@pytest.fixture
def lake(tmp_path: Path, data: peer.Lake) -> Lake:
    made = Lake.open(str(tmp_path / "lake"), create=True)
    put(made, "two-days", of_days(data, FIRST, FIRST + ONE_DAY))
    return made


def refuse() -> Any:
    raise AssertionError("there is nothing to do, so Spark need not start")


def rolls(lake: Lake, spark: Any, **asked: Any) -> RollupSummary:
    return refresh_rollups(lake, lambda: spark, RollupRequest(**asked), lambda _: None)


def test_a_lake_is_rolled_up_once_and_again_only_where_it_changed(
    spark: Any, lake: Lake, data: peer.Lake
) -> None:
    root = Path(lake.folder.root)
    done = rolls(lake, spark)
    assert done.days == (FIRST, FIRST + ONE_DAY) and min(done.rows.values()) > 0

    before = files(root)
    assert refresh_rollups(lake, refuse, RollupRequest(), lambda _: None) == RollupSummary(
        (), 2, dict.fromkeys(BUCKET_SECONDS, 0)
    )
    assert files(root) == before

    put(lake, "third-day", of_days(data, FIRST + 2 * ONE_DAY, FIRST + 2 * ONE_DAY))
    # The neighbour of the new day is done again: what was down at its end may have come back.
    assert rolls(lake, spark).days == (FIRST + ONE_DAY, FIRST + 2 * ONE_DAY)
    raw = RawTables(
        *(
            lake_frames.read_table(lake, spark, lake.manifest(), item)
            for item in ("progress", "sources", "lifecycle")
        )
    )
    whole = compute_rollups(raw, [FIRST + n * ONE_DAY for n in range(3)])
    for table in BUCKET_SECONDS:
        held = lake_frames.read_table(lake, spark, lake.manifest(), table)
        both = [sorted(map(repr, rows.collect())) for rows in (held, peer.of_width(whole, table))]
        assert both[0] == both[1] and len(both[0]) == len(set(both[0]))
        parquet = f"{root}/{table}/*/*.parquet"
        (count,) = duckdb.sql(f"select count(*) from read_parquet('{parquet}')").fetchall()
        assert count == (len(both[0]),)


def test_days_are_chosen_by_the_user(spark: Any, lake: Lake) -> None:
    assert rolls(lake, spark, since=FIRST + ONE_DAY).days == (FIRST + ONE_DAY,)
    assert rolls(lake, spark, until=FIRST).days == (FIRST,)
    assert rolls(lake, spark).days == ()
    assert rolls(lake, spark, until=FIRST, force=True).days == (FIRST,)


def test_the_command_computes_baselines_and_prints_a_summary(
    spark: Any, lake: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    assert run(["history", "rollup", "--lake", str(lake.folder), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["days"] == [str(FIRST), str(FIRST + ONE_DAY)] and printed["rows"]["rollup_1d"] > 0
    assert printed["baselines"] == {"values": 0, "changed": True}
    assert run(["history", "rollup", "--lake", str(lake.folder)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "0 days rolled up (0 rows of rollup_1m, 0 rows of rollup_1h, 0 rows of rollup_1d), 2 up to date",
        "baselines: 0 values, unchanged",
    ]


def hours(lake: Lake, batch: str, day: date, rate: float) -> None:
    """A day's rollup by the hour, as if made of raw rows."""
    begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
    rates = {f"input_rows_per_second_{item}": rate for item in ("p10", "p50", "p90")}
    rows = [
        {
            "app": "shop",
            "query": "orders",
            "query_id": "q",
            "bucket_at": begin + timedelta(hours=n),
            "batches": 360,
            "input_rows": int(rate * 3600),
            **rates,
        }
        for n in range(24)
    ]
    columns = {name: [row.get(name) for row in rows] for name in arrow_schema("rollup_1h").names}
    staging = lake.stage("rollup_1h", batch)
    lake.commit(staging, staging.write("rollup_1h", pa.table(columns, schema=arrow_schema("rollup_1h")), "0"))


def test_baselines_are_learned_when_rollups_changed(spark: Any, tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    assert refresh_baselines(lake, refuse, NOW) == BaselineResult(0, False)
    for weeks in range(3):
        hours(lake, f"day-{weeks}", FIRST + weeks * 7 * ONE_DAY, 10.0 * (weeks + 1))
    assert refresh_baselines(lake, lambda: spark, NOW) == BaselineResult(24 * 3, True)
    before = files(Path(lake.folder.root))
    assert (
        refresh_baselines(lake, refuse, NOW + 1000.0) == BaselineResult(24 * 3, False)
        and files(Path(lake.folder.root)) == before
    )
    (item,) = baselines_from_rows(lake.read("baselines"))
    saturday = slice(5 * 24, 6 * 24)
    assert (item.query_id, item.made_at) == ("q", NOW)
    assert item.values[0, saturday].tolist() == [[20.0] * 3] * 24 and np.isnan(item.values[0, : 5 * 24]).all()

    hours(lake, "day-2", FIRST + 14 * ONE_DAY, 12.0)
    assert refresh_baselines(lake, lambda: spark, NOW + 2000.0).changed
    (item,) = baselines_from_rows(lake.read("baselines"))
    assert item.values[0, 5 * 24, 1] == 12.0 and len(lake.manifest().parts("baselines")) == 1


def test_a_day_of_the_future_does_not_make_the_lake_forget_what_is_typical(
    spark: Any, tmp_path: Path
) -> None:
    lake = Lake.open(str(tmp_path / "lake"), create=True)
    for weeks in range(3):
        hours(lake, f"day-{weeks}", FIRST + weeks * 7 * ONE_DAY, 10.0)
    hours(lake, "day-far", date(2099, 1, 1), 10.0)
    assert refresh_baselines(lake, lambda: spark, NOW) == BaselineResult(24 * 3, True)


def test_a_query_that_was_down_all_day_was_down_on_a_day_without_rows(spark: Any, lake: Lake) -> None:
    whose = {"app": "a", "query_id": "0123456789", "name": "n", "event": "started"}
    ends = datetime(2026, 5, 1, 12, tzinfo=UTC), datetime(2026, 5, 3, 12, tzinfo=UTC)
    put(lake, "far", peer.Lake(lifecycle=[{**whose, "run_id": str(at), "reported_at": at} for at in ends]))
    assert len(rolls(lake, spark, since=date(2026, 5, 1)).days) == 3
    found = {row["bucket_at"].day: row for row in lake.read("rollup_1d").to_pylist() if row["query"] == "n"}
    # The days beside it have their signs of life too far apart: see the column.
    assert found[2]["downtime_seconds"] == 86400
    assert refresh_rollups(lake, refuse, RollupRequest(since=date(2026, 5, 1)), lambda _: None).days == ()


MISTAKES = {
    "no lake": (["--lake", "{none}"], "there is no lake at"),
    "a day that is none": (["--lake", "{lake}", "--since", "yesterday"], "--since: 'yesterday' is not a day"),
    "days the wrong way round": (
        ["--lake", "{lake}", "--since", "2026-03-02", "--until", "2026-03-01"],
        "--until 2026-03-01 is before --since 2026-03-02",
    ),
    "nothing to publish": (["--lake", "{lake}", "--publish", "--no-baselines"], "remove one of them"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    arguments, text = MISTAKES[case]
    named = [argument.format(lake=lake.folder, none=tmp_path / "none") for argument in arguments]
    assert run(["history", "rollup", *named]) == 2
    printed = capsys.readouterr().err
    assert text in printed and len(printed.splitlines()) == 1
