"""When the source deletes rows that the query has not read."""

from __future__ import annotations

import pytest

from controlplane.capacity.retention import RetentionRunway, retention_runway
from controlplane.health.context import context_at
from controlplane.health.thresholds import DEFAULTS
from tests.unit.controlplane.situations import NOW, batches, ended, view, without_latest_offset

#: 100 rows a second arrive in each of these; rows in the backlog are so many seconds old, by a hundredth.
ARRIVING = {"every": 10.0, "duration": 1.0}


def of(retention: str = "1h", **changes) -> RetentionRunway | None:
    seen = view(labels={"retention": retention}, **changes)
    return retention_runway(context_at(seen, NOW, DEFAULTS))


def falling_behind(ageing: float) -> tuple:
    """1 000 rows arrive between two batches; each reads so many fewer that the oldest unread row ages at this rate."""
    read = 1000 * (1 - ageing)
    return batches([5000 + n * (1000 - read) for n in range(30)], rows=read, **ARRIVING)


def test_unread_rows_are_deleted_once_they_are_as_old_as_the_retention() -> None:
    """The oldest ages by half a second a second: half an hour is left for an hour's retention less an age, twice."""
    found = of(progress=falling_behind(0.5))
    assert found.left == pytest.approx((3600 - found.oldest_unread) / 0.5, rel=0.05)
    assert "unread rows are deleted in" in found.sentence


def test_a_query_that_reads_nothing_has_the_rest_of_the_retention() -> None:
    """The run has ended: the oldest unread row ages by a second a second."""
    found = of(progress=falling_behind(0.5), run=ended(None))
    assert found.left == pytest.approx(3600 - found.oldest_unread)


def test_a_backlog_that_does_not_grow_older_is_not_deleted() -> None:
    found = of(progress=batches([5000.0] * 30, rows=1000.0, **ARRIVING))
    assert found.left is None
    assert "none is deleted unread" in found.sentence


def test_rows_older_than_the_retention_may_be_gone() -> None:
    found = of("10s", progress=falling_behind(0.5))
    assert found.left == 0.0
    assert "may have been deleted" in found.sentence


def test_all_read_is_never_deleted() -> None:
    found = of(progress=batches([0.0] * 12), idle_at=NOW - 1)
    assert (found.left, found.oldest_unread) == (None, 0.0)


def test_an_unknown_age_is_stated() -> None:
    found = of(progress=without_latest_offset(12))
    assert found.left is None
    assert "unknown" in found.sentence


@pytest.mark.parametrize("label", ["", "a week", "0"])
def test_without_a_declared_retention_there_is_none(label: str) -> None:
    assert of(label) is None
