"""Which days are rolled up again, and how many at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

import pytest

from controlplane.lake.manifest import Commit, LakeManifest, Part
from controlplane.pipeline.rollup.day_planning import RawDays, is_stale, split_portions

MONDAY = date(2026, 3, 2)
JOBS = ("rollup_1m", "rollup_1h")


def part(day: date, name: str, rows: int = 10, table: str = "progress") -> Part:
    return Part(table, day, f"{table}/date={day}/{name}.parquet", rows, 100)


def commit(
    job: str, batch: str, at: float, *parts: Part, replaces: Sequence[str] = (), **facts: object
) -> Commit:
    return Commit(job, batch, at, parts, tuple(replaces), facts)


def manifest(*commits: Commit) -> LakeManifest:
    return LakeManifest({item.key: item for item in commits})


def rolled_up(day: date, at: float, *before: Commit) -> list[Commit]:
    """These commits, and the rollups that were made of them."""
    facts = RawDays.of(manifest(*before)).facts(day, 300.0)
    return [*before, *(commit(job, day.isoformat(), at, **facts) for job in JOBS)]


def stale(*commits: Commit, day: date = MONDAY, objective: float = 300.0) -> bool:
    held = manifest(*commits)
    return is_stale(held, JOBS, day, RawDays.of(held).facts(day, objective))


RAW = commit("ingest", "1", 1.0, part(MONDAY, "a"), part(MONDAY, "a", table="sources"))
ONE_DAY = timedelta(days=1)
NEWS = {
    "more rows of the day": commit("ingest", "2", 2.0, part(MONDAY, "b")),
    "more rows of the day before": commit("ingest", "2", 2.0, part(MONDAY - ONE_DAY, "b")),
    "more rows of the day after": commit("ingest", "2", 2.0, part(MONDAY + ONE_DAY, "b")),
    "the same batch once more": commit("ingest", "1", 2.0, *RAW.parts),
    "fewer rows of it": commit("ingest", "1", 2.0, RAW.parts[0]),
}
NO_NEWS = {
    "rows of another day": commit("ingest", "2", 2.0, part(MONDAY + 2 * ONE_DAY, "b")),
    "rows of a table that no rollup reads": commit("ingest", "2", 2.0, part(MONDAY, "b", table="alerts")),
    "files that were merged": commit(
        "compact", "x", 2.0, part(MONDAY, "merged"), replaces=[RAW.parts[0].path]
    ),
}


def test_a_day_that_was_never_rolled_up_is_stale() -> None:
    assert stale(RAW)


def test_a_day_of_which_one_width_is_missing_is_stale() -> None:
    assert stale(*rolled_up(MONDAY, 1.5, RAW)[:-1])


def test_a_day_that_did_not_change_is_not_stale() -> None:
    assert not stale(*rolled_up(MONDAY, 1.5, RAW))


@pytest.mark.parametrize("case", NEWS)
def test_a_day_with_news_is_stale(case: str) -> None:
    assert stale(*rolled_up(MONDAY, 1.5, RAW), NEWS[case])


@pytest.mark.parametrize("case", NO_NEWS)
def test_what_is_no_news_makes_nothing_stale(case: str) -> None:
    assert not stale(*rolled_up(MONDAY, 1.5, RAW), NO_NEWS[case])


def test_another_objective_makes_a_day_stale() -> None:
    assert stale(*rolled_up(MONDAY, 1.5, RAW), objective=60.0)


def test_days_are_those_with_rows_within_what_is_asked_for() -> None:
    days = RawDays.of(
        manifest(commit("import", "1", 1.0, *(part(MONDAY + n * ONE_DAY, "a") for n in range(4))))
    )
    assert days.known(MONDAY + ONE_DAY, MONDAY + 2 * ONE_DAY) == [MONDAY + ONE_DAY, MONDAY + 2 * ONE_DAY]
    assert len(days.known(None, None)) == 4


def test_a_single_day_without_rows_between_two_is_a_day_of_the_query_too() -> None:
    reported = commit("import", "1", 1.0, *(part(MONDAY + n * ONE_DAY, "a") for n in (0, 2, 5)))
    days = RawDays.of(manifest(reported))
    assert [(day - MONDAY).days for day in days.known(None, None)] == [0, 1, 2, 5]
    assert days.known(MONDAY + ONE_DAY, MONDAY + ONE_DAY) == [MONDAY + ONE_DAY]


@pytest.mark.parametrize("day", [date.min, date(1970, 1, 1), date.max], ids=str)
def test_a_day_from_a_broken_clock_is_excluded_and_named(day: date) -> None:
    days = RawDays.of(manifest(RAW, commit("import", "1", 1.0, part(day, "a"))))
    assert days.known(None, None) == days.known(date.min, date.max) == [MONDAY]
    assert days.beyond() == [day]
    for item in days.known(None, None):
        days.facts(item, 300.0)


@pytest.mark.parametrize("gone", [-1, 0, 1])
def test_a_day_that_was_put_away_makes_nothing_stale(gone: int) -> None:
    around = [commit("import", str(n), 1.0, part(MONDAY + n * ONE_DAY, "a")) for n in (-1, 0, 1)]
    left = [item for item in rolled_up(MONDAY, 1.5, *around) if item.batch != str(gone)]
    assert not stale(*left)


def test_portions_hold_days_in_a_row_and_no_more_rows_than_are_allowed() -> None:
    all_days = [MONDAY + n * ONE_DAY for n in (0, 1, 2, 3, 5)]
    days = RawDays.of(manifest(commit("import", "1", 1.0, *(part(day, "a") for day in all_days))))
    found = [[(day - MONDAY).days for day in item] for item in split_portions(days, all_days, most=25)]
    assert found == [[0, 1], [2, 3], [5]]
