"""Database engine: opening, migrations, SQLite's connection settings and error classification.

SQLite runs in WAL mode with `synchronous=FULL`: a commit has reached the disk when it returns. Readers and the
writer never wait for each other, but there is one writer at a time (`store.writer`). PostgreSQL is used with its
defaults.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from controlplane.errors import SettingsError, StoreUnavailable
from controlplane.runtime import disk_reserve
from controlplane.store import blobs
from controlplane.store.tables import counters, dictionaries, events

BUSY_SECONDS = 5.0
WAL_PAGES = 2_000  # about 8 MiB between automatic checkpoints
VACUUM_PAGES = 500
ROW_BYTES = 250  # an event's columns, its row in `batches` and its index entries
MIGRATIONS = Path(__file__).parent / "migrations"

#: Prefixes of SQLite's result codes after a commit that may not be durable (`SQLITE_CORRUPT_INDEX` matches, too). A
#: retry on the same file may report success for pages that the kernel has already dropped, so the writer stops for
#: good.
FATAL_CODES = (
    "SQLITE_IOERR_FSYNC",
    "SQLITE_IOERR_DIR_FSYNC",
    "SQLITE_IOERR_CORRUPTFS",
    "SQLITE_CORRUPT",
    "SQLITE_NOTADB",
)


def default_url(data_dir: Path | str) -> str:
    """The database URL of the embedded store in a data directory."""
    return f"sqlite:///{Path(data_dir) / 'controlplane.db'}"


def open_engine(url: str) -> Engine:
    """An engine for `sqlite:///PATH` or `postgresql://…`; SettingsError for another URL or a missing driver."""
    parsed = _parse(url)
    if parsed.get_backend_name() != "sqlite":
        return _make(parsed, pool_size=16, max_overflow=32, pool_pre_ping=True)
    if not parsed.database or parsed.database == ":memory:":
        raise SettingsError("the database URL must name a file: sqlite:///path/to/controlplane.db")
    Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    # isolation_level None: sqlite3 begins no transaction by itself, `_begin` does.
    arguments = {"timeout": BUSY_SECONDS, "isolation_level": None, "check_same_thread": False}
    engine = _make(parsed, pool_size=16, max_overflow=32, connect_args=arguments)
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    return engine


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise SettingsError(
            "the database URL is invalid; write it like sqlite:///path/to/controlplane.db"
        ) from None
    if parsed.drivername == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise SettingsError(f"the database must be sqlite or postgresql, not {parsed.get_backend_name()}")
    return parsed


def _make(url: URL, **options: Any) -> Engine:
    try:
        return sa.create_engine(url, **options)
    except (NoSuchModuleError, ModuleNotFoundError):
        raise SettingsError(f"no driver for {url.drivername}: pip install 'psycopg[binary]'") from None


def _configure(connection: sqlite3.Connection, _record: Any) -> None:
    if connection.execute("PRAGMA page_count").fetchone()[0] == 0:
        # Takes effect only before the first write to the file; on a later connection it would wait for the writer.
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        f"wal_autocheckpoint={WAL_PAGES}",
        "foreign_keys=ON",
        "temp_store=MEMORY",
        "cache_size=-16000",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def is_sqlite(bind: Engine | Connection) -> bool:
    """Whether the store is an embedded SQLite file."""
    return bind.dialect.name == "sqlite"


def sqlite_path(url: str) -> Path | None:
    """The file of a SQLite URL; None for other databases."""
    parsed = _parse(url)
    return Path(parsed.database) if parsed.get_backend_name() == "sqlite" and parsed.database else None


def sqlite_file(engine: Engine) -> Path | None:
    """The file of an embedded store; None on PostgreSQL."""
    return Path(engine.url.database) if is_sqlite(engine) and engine.url.database else None


def used_bytes(connection: Connection) -> int:
    """Bytes in use, without empty pages. On PostgreSQL an estimate from the events alone."""
    if is_sqlite(connection):
        pragmas = ("page_count", "freelist_count", "page_size")
        pages, free, size = (connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in pragmas)
        return (int(pages or 0) - int(free or 0)) * int(size or 0)
    rows = connection.execute(sa.select(sa.func.count(), sa.func.sum(sa.func.length(events.c.data)))).one()
    return int(rows[0]) * ROW_BYTES + int(rows[1] or 0)


def checkpoint(engine: Engine) -> bool:
    """Write SQLite's WAL back to the database file and truncate it; False if readers prevented it."""
    if not is_sqlite(engine):
        return True
    raw = engine.raw_connection()
    try:
        busy, _, _ = raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return bool(busy == 0)
    except sqlite3.OperationalError:
        return False
    finally:
        raw.close()


def vacuum_step(connection: Connection, keep: float) -> bool:
    """Return some of SQLite's empty pages to the disk; True while more than the share `keep` of the file is empty."""
    pages, free = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar() or 0)
        for name in ("page_count", "freelist_count")
    )
    surplus = free - int(pages * keep)
    for _ in range(min(surplus, VACUUM_PAGES)):
        # sqlite3 executes one step of a statement without columns, and one step frees one page.
        connection.exec_driver_sql("PRAGMA incremental_vacuum(1)")
    return surplus > VACUUM_PAGES


def upgrade(engine: Engine) -> None:
    """Migrate the schema to this release.

    SettingsError if a newer release has written the store, StoreUnavailable if the database fails.
    """
    try:
        _migrate(engine)
    except CommandError as error:
        raise SettingsError(f"the store was written by a newer release: {error}") from error
    except DBAPIError as error:
        file = sqlite_file(engine)
        if file is None or not disk_reserve.release(file):  # opening a store needs a little disk space
            raise unavailable(error) from error
        _retry(engine)


def _retry(engine: Engine) -> None:
    try:
        _migrate(engine)
    except DBAPIError as error:
        raise unavailable(error) from error


def _migrate(engine: Engine) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        _add_built_in_dictionary(connection)


def _add_built_in_dictionary(connection: Connection) -> None:
    if connection.execute(sa.select(sa.func.count()).select_from(dictionaries)).scalar() == 0:
        blobs.add_dictionary(connection, blobs.BUILT_IN_DICTIONARY.read_bytes(), at=0.0)


def unavailable(error: DBAPIError) -> StoreUnavailable:
    """A database error as a StoreUnavailable with a message for people."""
    name = sqlite_code(error)
    messages = {
        "SQLITE_FULL": "the disk of the store is full",
        "SQLITE_BUSY": "the store is locked by another process",
        "SQLITE_READONLY": "the store's file is read-only",
        "SQLITE_CANTOPEN": "the store's file cannot be opened",
    }
    for prefix, message in messages.items():
        if name.startswith(prefix):
            return StoreUnavailable(message)
    if is_fatal(error):
        return StoreUnavailable(f"the disk of the store failed ({name}); repair it, then restart the server")
    # The first line is the error; the following lines of PostgreSQL show the statement and its values.
    cause = str(error.orig).strip().partition("\n")[0] if error.orig is not None else "the database failed"
    return StoreUnavailable(f"the store cannot be used: {cause}")


def is_fatal(error: DBAPIError) -> bool:
    """Whether the database file or its disk is damaged, so that later successes cannot be trusted."""
    return sqlite_code(error).startswith(FATAL_CODES)


def sqlite_code(error: DBAPIError) -> str:
    """SQLite's extended result code, e.g. `SQLITE_IOERR_FSYNC`; empty for other databases."""
    return str(getattr(error.orig, "sqlite_errorname", "") or "")


def probe_write(connection: Connection, now: int) -> None:
    """Write `now` (Unix seconds) to the store: on a full disk an empty transaction would still commit."""
    row = counters.c.name == "readiness_probe"
    if connection.execute(sa.update(counters).where(row).values(value=now)).rowcount == 0:
        connection.execute(sa.insert(counters).values(name="readiness_probe", value=now))
