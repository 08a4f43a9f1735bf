"""Backup and restore of a store in PostgreSQL, by the programs of its client: pg_dump, pg_restore and psql.

Called by `store_backup`. The database is the control plane's own: a backup holds all of it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from controlplane.errors import SettingsError, StoreUnavailable
from controlplane.store import tables
from controlplane.store.engine import known_revisions, open_engine, unavailable
from controlplane.store.shared.lease import application_name

VERSION_TABLE = "alembic_version"


def dump(url: str, target: Path) -> None:
    """Write one consistent state of the database to a file, while the server writes."""
    _run("pg_dump", *_where(url), "--format=custom", "--no-owner", f"--file={target}", url=url)


def restore(url: str, source: Path) -> None:
    """Replace the tables by those of a backup, in one transaction.

    SettingsError if the file is no backup of this or an older release, or if a server is connected to the database.
    """
    _check_revision(source)
    _refuse_beside_servers(url)
    # Tables that are newer than the backup would make the next upgrade of the schema fail.
    names = (VERSION_TABLE, *tables.metadata.tables)
    dropped = "".join(f'DROP TABLE IF EXISTS "{name}" CASCADE; ' for name in names)
    with tempfile.TemporaryDirectory() as folder:
        script = f"--file={folder}/restore.sql"
        _run("pg_restore", script, "--clean", "--if-exists", "--no-owner", str(source))
        once = ("--single-transaction", "--set=ON_ERROR_STOP=1", "--no-psqlrc", "--quiet")
        _run("psql", *_where(url), *once, f"--command={dropped}", script, url=url)


def _check_revision(source: Path) -> None:
    rows = _run("pg_restore", "--data-only", f"--table={VERSION_TABLE}", "--file=-", str(source))
    _, copied, data = rows.partition(" FROM stdin;\n")
    if not copied:
        raise SettingsError(f"{source} is no backup of a control plane")
    if data.split("\n")[0] not in known_revisions():
        raise SettingsError(f"{source} was written by a newer release")


def _refuse_beside_servers(url: str) -> None:
    """SettingsError if a server, active or standby, is connected: it would go on with what it has in memory."""
    query = (
        "SELECT application_name FROM pg_stat_activity"
        " WHERE datname = current_database() AND starts_with(application_name, :prefix)"
    )
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            server = connection.execute(sa.text(query), {"prefix": application_name("")}).scalar()
    except DBAPIError as error:
        raise unavailable(error) from None
    finally:
        engine.dispose()
    if server:
        raise SettingsError(f"the server {server!r} is connected to the database; stop it first")


def _where(url: str) -> tuple[str, ...]:
    given = make_url(url).set(drivername="postgresql", password=None)
    return (f"--dbname={given.render_as_string(hide_password=False)}",)


def _run(program: str, *arguments: str, url: str = "postgresql://") -> str:
    """The output of a program; StoreUnavailable if it fails.

    The password of `url` is in its environment: other users see the arguments.
    """
    if shutil.which(program) is None:
        raise SettingsError(f"{program} is needed: apt-get install postgresql-client")
    given = {"PGCONNECT_TIMEOUT": "5", "PGOPTIONS": "-c client_min_messages=error"}
    if password := make_url(url).password:
        given["PGPASSWORD"] = password
    done = subprocess.run(
        [program, *arguments], env=os.environ | given, capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error:" in line.lower()]
        raise StoreUnavailable(f"{program} failed: {(lines or [done.stderr.strip()])[0]}")
    return done.stdout
