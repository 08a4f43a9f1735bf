"""Stores for tests: an SQLite file in a directory, or a database on a PostgreSQL server."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from controlplane.events import progress
from controlplane.events.window import Window
from controlplane.ingest.service import IngestResult, IngestService
from controlplane.model import ProgressSample
from controlplane.store import queries
from controlplane.store.engine import default_url, open_engine, upgrade
from controlplane.store.writer import Writer
from tests.drivers import BEGIN

POSTGRES_URL = "CONTROLPLANE_TEST_POSTGRES_URL"


@dataclass
class StoreHarness:
    """A store with everything that writes to it. `now` is the server's clock."""

    url: str
    engine: Engine
    writer: Writer
    window: Window
    ingest: IngestService
    now: float = BEGIN + 1000.0

    def accept(self, *lines: bytes, sent_at: float | None = None) -> IngestResult:
        return self.ingest.answer(self.ingest.receive(lines, sent_at, lambda event: None))

    def read(self, question: Callable[..., Any], *arguments: Any) -> Any:
        with self.engine.connect() as connection:
            return question(connection, *arguments)

    def progress(self, *arguments: Any) -> list[ProgressSample]:
        """The stored reports of a query, parsed: see `queries.read_progress`."""
        return progress.samples(self.read(queries.read_progress, *arguments))

    def write(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return self.writer.write(lambda connection: work(connection, *arguments))

    def reloaded(self) -> Window:
        """The window that a restart of the server would have."""
        window = Window(clock=lambda: self.now)
        self.read(window.load)
        return window


@contextlib.contextmanager
def open_harness(url: str) -> Iterator[StoreHarness]:
    """Open a store, migrate it, and close it again."""
    engine = open_engine(url)
    try:
        upgrade(engine)
        writer = Writer(engine)
        window = Window(clock=lambda: harness.now)
        writer.start()
        harness = StoreHarness(url, engine, writer, window, ingest=None)  # type: ignore[arg-type]
        harness.ingest = IngestService(writer, window, clock=lambda: harness.now)
        yield harness
        writer.stop()
    finally:
        engine.dispose()


@functools.cache
def _empty_sqlite_file() -> bytes:
    """A migrated store without a row: copying it is many times faster than making it."""
    with tempfile.TemporaryDirectory() as folder:
        with open_harness(default_url(folder)):
            pass
        return (Path(folder) / "controlplane.db").read_bytes()


@contextlib.contextmanager
def sqlite_harness(directory: Path) -> Iterator[StoreHarness]:
    (directory / "controlplane.db").write_bytes(_empty_sqlite_file())
    with open_harness(default_url(directory)) as harness:
        yield harness


@functools.cache
def _empty_postgres_database(server: str) -> str:
    """The name of a migrated database without a row: copying it is many times faster than migrating another."""
    name = f"template_{uuid.uuid4().hex}"
    with sa.create_engine(server, isolation_level="AUTOCOMMIT").connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    with open_harness(sa.make_url(server).set(database=name).render_as_string(hide_password=False)):
        pass
    return name


@contextlib.contextmanager
def postgres_harness(server: str) -> Iterator[StoreHarness]:
    """A new store on a PostgreSQL server."""
    with postgres_database(server, _empty_postgres_database(server)) as url, open_harness(url) as harness:
        yield harness


@contextlib.contextmanager
def postgres_database(server: str, template: str = "template1") -> Iterator[str]:
    """A new database on a server; its URL."""
    name = f"test_{uuid.uuid4().hex}"
    admin = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name} TEMPLATE {template}"))
    try:
        yield sa.make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        with admin.connect() as connection:
            connection.execute(sa.text(f"DROP DATABASE {name} WITH (FORCE)"))
        admin.dispose()


def skip_or_fail(program: str, remedy: str) -> NoReturn:
    """Skip what needs an outside program; fail where everything is required."""
    if os.environ.get("CONTROLPLANE_REQUIRE_ALL") == "1":
        pytest.fail(f"no {program}: {remedy}")
    pytest.skip(f"no {program}: {remedy}")


@contextlib.contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server: the given one, else a new one; skips, or fails where everything is required."""
    given = os.environ.get(POSTGRES_URL)
    if given:
        yield given
        return
    programs = _postgres_programs()
    if programs is None:
        skip_or_fail(
            "PostgreSQL", f"apt-get install -y postgresql, pip install 'psycopg[binary]'; or {POSTGRES_URL}"
        )
    with _new_postgres_server(programs) as url:
        yield url


def _postgres_programs() -> Path | None:
    with contextlib.suppress(ImportError):
        import psycopg  # noqa: F401

        found = [Path(p).parent for p in [shutil.which("initdb")] if p]
        found += sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        return next((folder for folder in found if (folder / "initdb").exists()), None)
    return None


@contextlib.contextmanager
def _new_postgres_server(programs: Path) -> Iterator[str]:
    """A PostgreSQL server on a Unix socket. It refuses to run as root, so root runs it as the user `postgres`.

    Its directory is not one of pytest's: another pytest that starts meanwhile closes those to other users.
    """
    user = "postgres"
    options: dict[str, Any] = {"user": user, "group": user} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        directory, data = Path(folder), Path(folder) / "data"
        directory.chmod(0o777)

        def run(*command: str) -> None:
            subprocess.run(command, check=True, capture_output=True, cwd=directory, timeout=60, **options)

        run(str(programs / "initdb"), "-D", str(data), "-U", user, "-A", "trust", "--no-sync")
        settings = f"-c listen_addresses='' -c unix_socket_directories='{directory}' -c fsync=off"
        control = str(programs / "pg_ctl")
        run(control, "-D", str(data), "-o", settings, "-l", str(directory / "log"), "-w", "start")
        try:
            yield f"postgresql+psycopg://{user}@/postgres?host={directory}"
        finally:
            run(control, "-D", str(data), "-m", "immediate", "stop")
