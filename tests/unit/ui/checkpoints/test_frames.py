"""Checkpoint tables: rows, marks, order of the state stores, growth."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.ui.checkpoint_factories import change, checkpoint, store
from tests.ui.factories import NOW, rfc3339
from ui.checkpoints import frames
from ui.checkpoints.frames import (
    MAX_STORES,
    changes,
    checkpoints,
    count_unloadable,
    growth_note,
    known_values,
    stores,
)


def test_a_row_holds_a_checkpoints_verdict_and_age() -> None:
    table = checkpoints(
        [checkpoint(verdict="broken", stale=True), checkpoint(collecting=True, stale=True)], NOW
    )
    assert table["verdict"].to_list() == [["Broken"], ["OK"]]
    assert table["mark"].to_list() == [["Stale"], ["Checking"]]
    assert table["age"][0] == pd.Timedelta(seconds=42)
    assert table["planned"].to_list() == [1233, 1233]


def test_an_unchecked_checkpoint_stays_empty_and_shows_the_reason() -> None:
    unchecked: dict[str, Any] = {
        "summary": "",
        "trouble": "no agent",
        "collected_at": None,
        "last_planned_batch": None,
        "bytes": None,
    }
    row = checkpoints([checkpoint(**unchecked), checkpoint()], NOW).iloc[0]
    assert row["summary"] == "No agent"
    assert pd.isna(row["age"])
    assert pd.isna(row["planned"])
    assert pd.isna(row["bytes"])


def test_no_checkpoints_make_an_empty_table() -> None:
    assert checkpoints([], NOW).empty


@pytest.mark.parametrize(
    ("newest", "expected", "mark"),
    [(5, 5, ""), (4, 5, "Behind"), (6, 5, "Ahead"), (None, 5, "Missing"), (None, 0, ""), (5, None, "")],
)
def test_a_store_is_marked_by_the_version_that_the_next_batch_loads(
    newest: int | None, expected: int | None, mark: str
) -> None:
    assert frames.store_mark(store(0, newest_version=newest, expected_version=expected)) == mark


def test_unloadable_stores_come_first_however_many_stores_there_are() -> None:
    many = [store(n) for n in range(2 * MAX_STORES)]
    many[-1] |= {"newest_version": 7}
    many[-2] |= {"newest_version": None}
    table = stores(many)
    assert len(table) == MAX_STORES
    assert table["mark"].to_list()[:3] == [["Missing"], ["Behind"], []]
    assert count_unloadable(many) == 2


def test_growth_ignores_unknown_values() -> None:
    points: list[dict[str, Any]] = [
        {"at": rfc3339(NOW - 7200), "bytes": 1000, "files": 5},
        {"at": rfc3339(NOW - 60), "bytes": None, "files": 5},
        {"at": rfc3339(NOW), "bytes": 4000, "files": 5},
    ]
    assert known_values(points, "bytes") == [1000, 4000]
    assert growth_note(points, "bytes", NOW) == "+3 kB in 2 h"
    assert growth_note(points, "files", NOW) == "±0 in 2 h"
    assert growth_note(points[:1], "bytes", NOW) == ""


def test_changes_between_runs_carry_their_rule() -> None:
    row = changes([change(remedy=["one", "two"])]).iloc[0]
    assert (row["severity"], row["rule"], row["remedy"]) == (["Warning"], "aggregation.keys", "one; two")
