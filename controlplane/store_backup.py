"""Backup, restore and check of the store: SQLite by its own copy, PostgreSQL by `postgres_backup`.

A backup is taken online and is one consistent state. Called by the command line; prints nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from controlplane import postgres_backup
from controlplane.errors import SettingsError, StoreUnavailable
from controlplane.store import tables
from controlplane.store.engine import (
    is_current,
    is_newer,
    is_sqlite,
    open_engine,
    sqlite_path,
    unavailable,
)

MAX_PROBLEMS = 20
#: Seconds for the database to answer a statement of the check.
CHECK_SECONDS = 3600.0
OLD_SCHEMA = "the schema is older than this release: run `controlplane db upgrade`"
#: Of the files of an SQLite store, the main file last.
_SUFFIXES = ("-shm", "-wal", "")


def backup(url: str, target: Path) -> int:
    """Copy the store to a new file that only its owner reads; returns its size in bytes. SettingsError if it exists."""
    if target.exists():
        raise SettingsError(f"{target} exists; give another file")
    draft = target.with_name(target.name + ".part")
    try:
        _create(draft)
        if source := sqlite_path(url):
            _copy_sqlite(source, draft)
        else:
            postgres_backup.dump(url, draft)
        _sync(draft)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
    return target.stat().st_size


def _create(draft: Path) -> None:
    """Create the empty file. The store holds digests of tokens and the texts of exceptions."""
    try:
        draft.unlink(missing_ok=True)
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise SettingsError(f"{draft} cannot be written: {error.strerror}") from None


def restore(url: str, source: Path) -> Path | None:
    """Replace the store by a backup of this or an older release; the next start upgrades its schema.

    Returns where the store was moved to (SQLite). No server may run on it: SettingsError if one is connected to
    PostgreSQL, or if the file is no backup. The store is unchanged unless the whole backup could be read.
    """
    if not source.is_file():
        raise SettingsError(f"there is no file {source}")
    file = sqlite_path(url)
    if file is None:
        postgres_backup.restore(url, source)
        return None
    draft = file.with_name(file.name + ".part")
    try:
        # The copy is checked: opening a file as a store changes it, and a backup may be read-only.
        _create(draft)
        shutil.copyfile(source, draft)
        if problems := [text for text in check(f"sqlite:///{draft}") if text != OLD_SCHEMA]:
            raise SettingsError(f"{source} is no intact backup: {problems[0]}")
        _sync(draft)
        return _swap(file, draft)
    finally:
        for suffix in _SUFFIXES:
            draft.with_name(draft.name + suffix).unlink(missing_ok=True)


def _swap(file: Path, draft: Path) -> Path | None:
    """Put the draft in the place of the store, and the store, with its write-ahead log, beside it."""
    kept = file.with_name(f"{file.name}.before-restore-{int(time.time())}") if file.exists() else None
    owner = (file if kept is not None else file.parent).stat()
    os.chown(draft, owner.st_uid, owner.st_gid)  # root may restore what another user's server opens
    for suffix in _SUFFIXES:
        part = file.with_name(file.name + suffix)
        if kept is not None and part.exists():
            os.replace(part, kept.with_name(kept.name + suffix))
    os.replace(draft, file)
    return kept


def check(url: str) -> list[str]:
    """What is wrong with a store, at most MAX_PROBLEMS sentences; empty if it is intact."""
    path = sqlite_path(url)
    if path is not None and not path.is_file():
        return [f"there is no store at {path}"]
    engine = open_engine(url)
    try:
        return _problems(engine)[:MAX_PROBLEMS]
    except DBAPIError as error:
        return [str(unavailable(error))]
    finally:
        engine.dispose()


def _problems(engine: Engine) -> list[str]:
    with engine.connect().execution_options(answer_seconds=CHECK_SECONDS) as connection:
        found: list[str] = []
        if is_sqlite(connection):
            rows = connection.exec_driver_sql(f"PRAGMA integrity_check({MAX_PROBLEMS})").scalars()
            found += [f"integrity: {row}" for row in rows if row != "ok"]
            broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
            found += [f"row {row[1]} of {row[0]} refers to no row of {row[2]}" for row in broken]
        if not sa.inspect(connection).has_table(postgres_backup.VERSION_TABLE):
            return [*found, "it is no store of a control plane"]
        if is_newer(connection):
            return [*found, "a newer release has written the store"]
        if not is_current(connection):
            return [*found, OLD_SCHEMA]
        for table in tables.metadata.sorted_tables:
            connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
    return found


def _copy_sqlite(source: Path, draft: Path) -> None:
    """Copy in one read transaction, while the server writes: pages of the write-ahead log are included."""
    if not source.is_file():
        raise SettingsError(f"there is no store at {source}")
    try:
        with contextlib.closing(
            sqlite3.connect(f"file:{source}?mode=ro", uri=True, timeout=30)
        ) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master")  # names damage, which VACUUM does not
            connection.execute("VACUUM INTO ?", (str(draft),))
    except sqlite3.Error as error:
        raise StoreUnavailable(f"the store cannot be copied: {error}") from None


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
