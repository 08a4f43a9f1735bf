"""Ranges of stored samples, on every store."""

from __future__ import annotations

from controlplane.store import series as rows
from tests.stores import StoreHarness


def test_ranges_are_read_by_name_and_time_and_a_range_is_stored_once(harness: StoreHarness) -> None:
    assert harness.read(rows.stored_until) is None
    harness.write(rows.insert, 0.0, 60.0, {"a": b"0", "b": b"x"})
    harness.write(rows.insert, 60.0, 120.0, {"a": b"1"})
    harness.write(rows.insert, 60.0, 120.0, {"a": b"2"})
    harness.write(rows.insert, 120.0, 180.0, {})
    assert harness.read(lambda conn: rows.ranges(conn, "a", 60.0, 500.0)) == [(60.0, 120.0, b"2")]
    assert [r[:2] for r in harness.read(lambda conn: rows.ranges(conn, "a", 59.0, 61.0))] == [
        (0, 60),
        (60, 120),
    ]
    assert len(harness.read(lambda conn: rows.ranges(conn, rows.COVERED, 0.0, 500.0))) == 3
    assert harness.read(rows.stored_until) == 180.0
    assert harness.read(lambda conn: rows.first_stored(conn, "b")) == 0.0
    assert harness.read(lambda conn: rows.first_stored(conn, "c")) is None
    harness.write(rows.prune, 61.0)
    assert harness.read(lambda conn: rows.first_stored(conn, "a")) == 60.0
