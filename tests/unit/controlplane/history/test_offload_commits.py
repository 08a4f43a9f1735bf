"""Commits of moves: in their order, up to the first hole, and whether their numbers add up."""

from __future__ import annotations

from datetime import date

import pytest

from controlplane.history import offload_commits
from controlplane.history.offload_commits import JOB, EventRange, OffloadCounts
from controlplane.lake.manifest import Commit, LakeManifest, Part

DAY = date(2026, 11, 20)


def commit(
    after: int, until: int, store: str = "s", rows: int = 0, account: OffloadCounts | None = None
) -> Commit:
    stretch = EventRange(store, after, until)
    parts = (Part("progress", DAY, f"progress/date={DAY}/{stretch.batch}.parquet", rows, 1),)
    return Commit(
        JOB, stretch.batch, 0.0, parts, (), offload_commits.commit_facts(stretch, account or OffloadCounts())
    )


def untils(mark: int, *commits: Commit) -> list[int]:
    manifest = LakeManifest({item.key: item for item in commits})
    return [stretch.until for stretch, _ in offload_commits.contiguous_commits(manifest, "s", mark)]


def test_commits_are_followed_up_to_the_first_hole() -> None:
    assert untils(0, commit(10, 20), commit(0, 10), commit(25, 30)) == [10, 20]
    assert untils(10, commit(10, 20), commit(0, 10)) == [20]
    assert untils(5, commit(0, 10), commit(10, 20)) == []


def test_of_two_that_begin_alike_the_longer_counts() -> None:
    assert untils(0, commit(0, 10), commit(0, 15), commit(15, 16)) == [15, 16]


def test_another_stores_commits_and_those_of_alerts_are_not_followed() -> None:
    reported = Commit(JOB, "s-records-2026-11-20", 0.0, (), (), {"store": "s", "digest": "x"})
    assert untils(0, commit(0, 10, store="another"), reported) == []


@pytest.mark.parametrize(
    ("account", "rows", "held", "states"),
    [
        pytest.param(OffloadCounts(10, 9, 1, 2), 7, 10, None, id="all adds up"),
        pytest.param(OffloadCounts(10, 9, 1, 2), 7, 4, None, id="some were deleted meanwhile"),
        pytest.param(OffloadCounts(10, 9, 1, 2), 7, 11, "the store has 11", id="it has not seen all"),
        pytest.param(
            OffloadCounts(10, 8, 1, 0), 8, 10, "counted 8 stored and 1 malformed", id="one vanished"
        ),
        pytest.param(OffloadCounts(10, 10, 0, 2), 7, 10, "wrote 7 rows", id="a row is missing"),
    ],
)
def test_a_commit_whose_numbers_do_not_add_up_is_not_believed(
    account: OffloadCounts, rows: int, held: int, states: str | None
) -> None:
    found = offload_commits.find_mismatch(commit(0, 10, rows=rows, account=account), held)
    assert found is None if states is None else states in (found or "")
