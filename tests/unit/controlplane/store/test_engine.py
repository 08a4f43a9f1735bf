"""The database is opened the way its promises need, and states plainly when it cannot be."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from controlplane.errors import SettingsError, StoreUnavailable
from controlplane.store.engine import default_url, open_engine, sqlite_file, unavailable, upgrade
from tests.stores import sqlite_harness


def test_a_commit_is_on_the_disk_when_it_returns(tmp_path: Path) -> None:
    with sqlite_harness(tmp_path) as harness, harness.engine.connect() as connection:
        pragma = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "auto_vacuum", "foreign_keys")
        }
    assert pragma == {"journal_mode": "wal", "synchronous": 2, "auto_vacuum": 2, "foreign_keys": 1}


def test_the_embedded_store_lives_in_the_data_directory(tmp_path: Path) -> None:
    engine = open_engine(default_url(tmp_path / "new" / "dir"))
    assert sqlite_file(engine) == tmp_path / "new" / "dir" / "controlplane.db"
    engine.dispose()


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("nonsense", "is invalid"),
        ("", "is invalid"),
        ("mysql://host/db", "sqlite or postgresql, not mysql"),
        ("sqlite://", "must name a file"),
        ("sqlite:///:memory:", "must name a file"),
    ],
)
def test_a_url_that_cannot_be_a_store_is_refused_in_a_sentence(url: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        open_engine(url)


def test_a_store_of_a_newer_release_is_not_touched(tmp_path: Path) -> None:
    with sqlite_harness(tmp_path) as harness:
        with harness.engine.begin() as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
        with pytest.raises(SettingsError, match="written by a newer release"):
            upgrade(harness.engine)


def test_a_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "controlplane.db").write_bytes(b"this is a text file, not a database" * 100)
    engine = open_engine(default_url(tmp_path))
    with pytest.raises(StoreUnavailable, match="SQLITE_NOTADB"):
        upgrade(engine)
    engine.dispose()


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("SQLITE_FULL", "is full"),
        ("SQLITE_BUSY_SNAPSHOT", "locked by another process"),
        ("SQLITE_READONLY", "read-only"),
        ("SQLITE_CANTOPEN", "cannot be opened"),
        ("SQLITE_IOERR_FSYNC", "restart the server"),
        ("SQLITE_IOERR_READ", "cannot be used"),
    ],
)
def test_each_trouble_has_its_sentence(code: str, sentence: str) -> None:
    origin = sqlite3.OperationalError("x")
    origin.sqlite_errorname = code  # type: ignore[misc]
    assert sentence in str(unavailable(OperationalError("s", None, origin)))


def test_the_shipped_dictionary_is_there_from_the_start(tmp_path: Path) -> None:
    with sqlite_harness(tmp_path) as harness, harness.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM dictionaries").scalar() == 1


def test_a_reader_does_not_wait_for_the_writer_to_open_its_connection(tmp_path: Path) -> None:
    with sqlite_harness(tmp_path) as harness:
        other = sqlite3.connect(tmp_path / "controlplane.db", isolation_level=None, timeout=0)
        other.execute("BEGIN IMMEDIATE")
        harness.engine.dispose()  # the next connection is a new one
        with harness.engine.connect() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM events").scalar() == 0
        other.close()
