"""Opens the database and brings its schema up to date; all that is special to SQLite's connections.

SQLite runs in WAL mode with `synchronous=FULL`: a commit has reached the disk when it returns. Reads
and writes never wait for each other, but there is one writer at a time (`store.writer`). PostgreSQL
is used as it is.
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
ROW_BYTES = 250  # an event's columns, its row in `batches` and its places in the indexes
MIGRATIONS = Path(__file__).parent / "migrations"

#: What a commit that could not be made durable looks like. Trying again on the same file might
#: report success for pages that the kernel has already given up, so the writer stops for good.
#: SQLite's codes by their beginnings: `SQLITE_CORRUPT_INDEX` is one, too.
FATAL_CODES = (
    "SQLITE_IOERR_FSYNC",
    "SQLITE_IOERR_DIR_FSYNC",
    "SQLITE_IOERR_CORRUPTFS",
    "SQLITE_CORRUPT",
    "SQLITE_NOTADB",
)


def default_url(data_dir: Path | str) -> str:
    """The embedded store of a data directory, as a database URL."""
    return f"sqlite:///{Path(data_dir) / 'controlplane.db'}"


def open_engine(url: str) -> Engine:
    """An engine for `sqlite:///PATH` or `postgresql://…`; SettingsError says what is wrong with `url`."""
    parsed = _parse(url)
    if parsed.get_backend_name() != "sqlite":
        return _make(parsed, pool_size=16, max_overflow=32, pool_pre_ping=True)
    if not parsed.database or parsed.database == ":memory:":
        raise SettingsError("the database URL must name a file: sqlite:///path/to/controlplane.db")
    Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    # isolation_level None: sqlite3 begins nothing by itself, `_begin` below does.
    arguments = {"timeout": BUSY_SECONDS, "isolation_level": None, "check_same_thread": False}
    engine = _make(parsed, pool_size=16, max_overflow=32, connect_args=arguments)
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    return engine


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise SettingsError("the database URL is not one, e.g. sqlite:///path/to/controlplane.db") from None
    if parsed.drivername == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise SettingsError(f"the store can be sqlite or postgresql, not {parsed.get_backend_name()}")
    return parsed


def _make(url: URL, **options: Any) -> Engine:
    try:
        return sa.create_engine(url, **options)
    except (NoSuchModuleError, ModuleNotFoundError):
        raise SettingsError(f"no driver for {url.drivername}: pip install 'psycopg[binary]'") from None


def _configure(connection: sqlite3.Connection, _record: Any) -> None:
    if connection.execute("PRAGMA page_count").fetchone()[0] == 0:
        # Counts only before the file is first written; on a later connection it would wait for the writer.
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
    return bind.dialect.name == "sqlite"


def sqlite_path(url: str) -> Path | None:
    """The file that a database URL names; None where it is no embedded store."""
    parsed = _parse(url)
    return Path(parsed.database) if parsed.get_backend_name() == "sqlite" and parsed.database else None


def sqlite_file(engine: Engine) -> Path | None:
    """The file of an embedded store; None on PostgreSQL."""
    return Path(engine.url.database) if is_sqlite(engine) and engine.url.database else None


def used_bytes(connection: Connection) -> int:
    """What the store holds, without empty pages. On PostgreSQL an estimate from the events alone."""
    if is_sqlite(connection):
        pragmas = ("page_count", "freelist_count", "page_size")
        pages, free, size = (connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in pragmas)
        return (int(pages or 0) - int(free or 0)) * int(size or 0)
    rows = connection.execute(sa.select(sa.func.count(), sa.func.sum(sa.func.length(events.c.data)))).one()
    return int(rows[0]) * ROW_BYTES + int(rows[1] or 0)


def checkpoint(engine: Engine) -> bool:
    """Move SQLite's log into its file and empty it; False when readers were in the way."""
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
    """Give some of SQLite's empty pages back; True while more than `keep` of the file is still empty."""
    pages, free = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar() or 0)
        for name in ("page_count", "freelist_count")
    )
    surplus = free - int(pages * keep)
    for _ in range(min(surplus, VACUUM_PAGES)):
        # Python's sqlite3 takes one step of a statement without columns, and one step frees one page.
        connection.exec_driver_sql("PRAGMA incremental_vacuum(1)")
    return surplus > VACUUM_PAGES


def upgrade(engine: Engine) -> None:
    """Bring the schema to this release's. SettingsError when a newer release has written the store."""
    try:
        _migrate(engine)
    except CommandError as error:
        raise SettingsError(f"the store was written by a newer release: {error}") from error
    except DBAPIError as error:
        file = sqlite_file(engine)
        if file is None or not disk_reserve.give_up(file):  # opening a store takes a little space, too
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
        _ship_dictionary(connection)


def _ship_dictionary(connection: Connection) -> None:
    if connection.execute(sa.select(sa.func.count()).select_from(dictionaries)).scalar() == 0:
        blobs.add_dictionary(connection, blobs.BUILT_IN_DICTIONARY.read_bytes(), at=0.0)


def unavailable(error: DBAPIError) -> StoreUnavailable:
    """A database's error as ours, in words for people."""
    name = sqlite_code(error)
    words = {
        "SQLITE_FULL": "the disk of the store is full",
        "SQLITE_BUSY": "the store is locked by another process",
        "SQLITE_READONLY": "the store's file is read-only",
        "SQLITE_CANTOPEN": "the store's file cannot be opened",
    }
    for prefix, sentence in words.items():
        if name.startswith(prefix):
            return StoreUnavailable(sentence)
    if is_fatal(error):
        return StoreUnavailable(f"the disk of the store failed ({name}); restart the server once it is sound")
    # The first line is what went wrong; on the next PostgreSQL shows the statement and its values.
    said = str(error.orig).strip().partition("\n")[0] if error.orig is not None else "the database failed"
    return StoreUnavailable(f"the store cannot be used: {said}")


def is_fatal(error: DBAPIError) -> bool:
    """Is the file or its disk damaged, so that nothing it says can be trusted any more?"""
    return sqlite_code(error).startswith(FATAL_CODES)


def sqlite_code(error: DBAPIError) -> str:
    """SQLite's extended result code, e.g. `SQLITE_IOERR_FSYNC`; empty for other databases."""
    return str(getattr(error.orig, "sqlite_errorname", "") or "")


def probe_write(connection: Connection, now: int) -> None:
    """A real write, `now` in Unix seconds: on a full disk an empty transaction still commits."""
    proof = counters.c.name == "readiness_probe"
    if connection.execute(sa.update(counters).where(proof).values(value=now)).rowcount == 0:
        connection.execute(sa.insert(counters).values(name="readiness_probe", value=now))
