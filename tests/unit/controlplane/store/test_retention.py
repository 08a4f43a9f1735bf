"""Retention beside a damaged store; the contract tests have what it deletes."""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path

import pytest
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DatabaseError

from controlplane.errors import StoreDamaged
from controlplane.runtime import disk_reserve
from controlplane.store.engine import checkpoint
from controlplane.store.retention import prune
from controlplane.store.shared.bounded_reads import BoundedReads
from tests.drivers import Driver
from tests.stores import sqlite_harness


def damage(engine: Engine, file: Path) -> None:
    """Overwrite all pages but the first; connections read them anew."""
    assert checkpoint(engine)
    with file.open("r+b") as pages:
        pages.seek(4096)
        pages.write(b"\xa5" * (file.stat().st_size - 4096))
    engine.dispose()


def test_a_writer_that_found_damage_keeps_the_reserve(tmp_path: Path) -> None:
    """The reserve is for a full disk, which this is not."""

    def damaged(connection: Connection) -> None:
        origin = sqlite3.DatabaseError("database disk image is malformed")
        origin.sqlite_errorname = "SQLITE_CORRUPT"  # type: ignore[misc]
        raise DatabaseError("statement", None, origin)

    file = tmp_path / "controlplane.db"
    with sqlite_harness(tmp_path) as harness:
        assert disk_reserve.ensure(file, 4096)
        with pytest.raises(StoreDamaged):
            harness.writer.write(damaged)
        with pytest.raises(StoreDamaged):
            prune(harness.writer, harness.now, 1.0, 1 << 30)
        assert disk_reserve.reserve_path(file).exists()


def test_damage_is_named_by_reads_and_by_retention(tmp_path: Path) -> None:
    file = tmp_path / "controlplane.db"
    with sqlite_harness(tmp_path) as harness:
        harness.accept(Driver().started(str(uuid.uuid4()), str(uuid.uuid4())))
        damage(harness.engine, file)
        reads = BoundedReads(harness.engine)
        with pytest.raises(StoreDamaged, match="damaged"), reads.open() as connection:
            connection.exec_driver_sql("SELECT * FROM events").all()
        assert "damaged" in reads.damage[0]
        with pytest.raises(StoreDamaged, match="damaged"):
            prune(harness.writer, harness.now, 1.0, 1 << 30)
