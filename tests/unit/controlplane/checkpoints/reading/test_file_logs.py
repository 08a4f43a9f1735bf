"""The compacting logs: intervals as Spark derives them, what is needed, what is missing."""

from __future__ import annotations

import pytest

from controlplane.checkpoints.inventory.model import FileEntry, Inventory
from controlplane.checkpoints.reading.file_logs import derived_interval, file_log

GOOD = b'v1\n{"path":"file:///in/a","timestamp":1,"batchId":0}'


def inventory(*names: str) -> Inventory:
    paths = [f"sources/0/{name}" for name in names]
    return Inventory("/c", {path: FileEntry(len(GOOD)) for path in paths}, dict.fromkeys(paths, GOOD))


@pytest.mark.parametrize(("only", "interval"), [(4, 5), (9, 10), (19, 20), (23, 12), (28, 29), (99, 10)])
def test_the_interval_is_inferred_from_a_single_compaction(only: int, interval: int) -> None:
    assert derived_interval(only) == interval


def test_two_compactions_give_the_interval() -> None:
    log = file_log(inventory("2.compact", "5.compact", "6", "7"), "sources/0")
    assert (log.interval, list(log.needed), log.missing) == (3, [5, 6, 7], [])


def test_without_any_compaction_the_default_holds_and_the_hole_shows() -> None:
    log = file_log(inventory(*map(str, range(9)), "10", "11"), "sources/0")
    assert log.missing == [9]
    assert log.name_of(9) == "sources/0/9.compact"


def test_longer_configured_interval_is_no_gap() -> None:
    log = file_log(inventory(*map(str, range(14))), "sources/0")
    assert (log.missing, list(log.needed)) == ([], list(range(14)))


def test_the_next_compaction_is_where_a_damaged_log_is_fallen_into() -> None:
    log = file_log(inventory(*map(str, range(5))), "sources/0")
    assert [log.next_compaction(n) for n in (4, 8, 9, 10)] == [9, 9, 19, 19]


def test_an_absurd_number_is_answered_at_once() -> None:
    log = file_log(inventory("999999999999988.compact", "9999999999999990"), "sources/0")
    assert len(log.missing) <= 10_001
