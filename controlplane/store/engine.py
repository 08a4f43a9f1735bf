"""Database engine: opening, migrations, SQLite's connection settings and error classification.

SQLite runs in WAL mode with `synchronous=FULL`: a commit has reached the disk when it returns. Readers and the
writer never wait for each other, but there is one writer at a time (`store.writer`). PostgreSQL is used with its
defaults.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from controlplane.errors import SettingsError, StoreDamaged, StoreUnavailable
from controlplane.runtime import disk_reserve
from controlplane.store import blobs
from controlplane.store.tables import counters, dictionaries, events

BUSY_SECONDS = 5.0
MIGRATION_SECONDS = 3600.0  # for a statement of a migration, on a large table
WAL_PAGES = 2_000  # about 8 MiB between automatic checkpoints
VACUUM_PAGES = 500
ROW_BYTES = 250  # an event's columns, its row in `batches` and its index entries
MIGRATIONS = Path(__file__).parent / "migrations"
MIGRATION_LOCK = 0x5350_4B43  # any number that other programs on the database do not use

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


def open_engine(url: str, name: str = "controlplane", connections: int = 16) -> Engine:
    """An engine for `sqlite:///PATH` or `postgresql://…`; SettingsError for another URL or a missing driver.

    On PostgreSQL, `name` is the application name of its connections, of which it keeps up to `connections` open.
    """
    parsed = _parse(url)
    if parsed.get_backend_name() != "sqlite":
        return _open_postgres(parsed, name, connections)
    if not parsed.database or parsed.database == ":memory:":
        raise SettingsError("the database URL must name a file: sqlite:///path/to/controlplane.db")
    Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    # isolation_level None: sqlite3 begins no transaction by itself, `_begin` does.
    arguments = {"timeout": BUSY_SECONDS, "isolation_level": None, "check_same_thread": False}
    # The newest connection first: each keeps a cache of pages, which is worth nothing once another one has written.
    engine = _make(parsed, pool_size=16, max_overflow=32, pool_use_lifo=True, connect_args=arguments)
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    return engine


def _open_postgres(url: URL, name: str, connections: int) -> Engine:
    try:
        from controlplane.store import answer_deadline
    except ModuleNotFoundError:
        raise _no_driver(url) from None
    engine = _make(
        url,
        connect_args={"application_name": name, **answer_deadline.TCP_OPTIONS},
        pool_size=connections,
        max_overflow=2 * connections,
        pool_timeout=answer_deadline.POOL_SECONDS,
        pool_pre_ping=True,
    )
    answer_deadline.bound_answers(engine)
    return engine


def _no_driver(url: URL) -> SettingsError:
    return SettingsError(f"no driver for {url.drivername}: pip install 'psycopg[binary]'")


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
        raise _no_driver(url) from None


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
        "cache_size=-8000",
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


def is_current(connection: Connection) -> bool:
    """Whether the schema is that of this release."""
    heads = set(ScriptDirectory.from_config(_migrations()).get_heads())
    return set(MigrationContext.configure(connection).get_current_heads()) == heads


def known_revisions() -> set[str]:
    """The revisions of the schema up to that of this release."""
    return {script.revision for script in ScriptDirectory.from_config(_migrations()).walk_revisions()}


def is_newer(connection: Connection) -> bool:
    """Whether a newer release has written the store."""
    return not set(MigrationContext.configure(connection).get_current_heads()) <= known_revisions()


def upgrade(engine: Engine, fence: Callable[[Connection], None] = lambda connection: None) -> None:
    """Migrate the schema to this release. `fence` is called first in the transaction, as by the writer.

    SettingsError if a newer release has written the store, StoreUnavailable if the database fails.
    """
    try:
        _migrate(engine, fence)
    except CommandError as error:
        raise SettingsError(f"the store was written by a newer release: {error}") from error
    except DBAPIError as error:
        file = sqlite_file(engine)
        # Opening a store needs a little disk space. A damaged one needs its reserve later.
        if file is None or is_fatal(error) or not disk_reserve.release(file):
            raise unavailable(error) from error
        _retry(engine, fence)


def prepare(engine: Engine) -> None:
    """Migrate the schema unless another server may be active on it: then the next active server does, by `migrate`.

    SettingsError if a newer release has written the store.
    """
    if is_sqlite(engine) or not sa.inspect(engine).has_table("lease"):
        upgrade(engine)
        return
    with engine.connect() as connection:
        if is_newer(connection):
            raise SettingsError("the store was written by a newer release")


def migrate(engine: Engine, fence: Callable[[Connection], None]) -> None:
    """Migrate the schema of the active server where `prepare` did not."""
    with engine.connect() as connection:
        current = is_current(connection)
    if not current:
        upgrade(engine, fence)


def snapshots(engine: Engine) -> Engine:
    """The engine for transactions whose statements all see one state of the store."""
    return engine if is_sqlite(engine) else engine.execution_options(isolation_level="REPEATABLE READ")


def _retry(engine: Engine, fence: Callable[[Connection], None]) -> None:
    try:
        _migrate(engine, fence)
    except DBAPIError as error:
        raise unavailable(error) from error


def _migrations() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _migrate(engine: Engine, fence: Callable[[Connection], None]) -> None:
    config = _migrations()
    options = {"writes": True, "answer_seconds": MIGRATION_SECONDS}
    with engine.connect().execution_options(**options) as connection, connection.begin():
        if not is_sqlite(connection):  # two servers may start on an empty database at the same time
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")
        fence(connection)
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
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StoreDamaged(
            f"the store's file is damaged ({name}): stop the server and restore a backup (`controlplane db restore`)"
        )
    if is_fatal(error):
        return StoreDamaged(f"the disk of the store failed ({name}); repair it, then restart the server")
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
