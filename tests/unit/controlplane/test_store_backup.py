"""Backups are taken while events arrive, restored, and checked; older schemas are upgraded with their rows."""

from __future__ import annotations

import functools
import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory

from controlplane.cli.main import run
from controlplane.errors import SettingsError, StoreUnavailable
from controlplane.store.engine import _migrations, default_url, open_engine, upgrade
from controlplane.store_backup import OLD_SCHEMA, backup, check, restore
from tests.drivers import Driver
from tests.stores import StoreHarness, open_harness, postgres_database, sqlite_harness

QUERY, RUN = str(uuid.uuid4()), str(uuid.uuid4())
REVISIONS = [script.revision for script in ScriptDirectory.from_config(_migrations()).walk_revisions()][1:]


@pytest.fixture(params=["sqlite", "postgres"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreHarness]:
    if request.param == "sqlite":
        with sqlite_harness(tmp_path) as opened:
            yield opened
        return
    with postgres_database(request.getfixturevalue("postgres")) as url, open_harness(url) as opened:
        yield opened


@pytest.fixture
def empty(harness: StoreHarness, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of another store of the same kind."""
    if harness.url.startswith("sqlite"):
        (tmp_path / "other").mkdir()
        yield default_url(tmp_path / "other")
        return
    with postgres_database(request.getfixturevalue("postgres")) as url:
        yield url


def batches(url: str) -> list[int]:
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            return list(connection.execute(sa.text("SELECT batch_id FROM batches ORDER BY 1")).scalars())
    finally:
        engine.dispose()


def test_a_backup_taken_while_events_arrive_holds_what_was_acknowledged_before(
    harness: StoreHarness, empty: str, tmp_path: Path
) -> None:
    driver, stop, acknowledged = Driver(), threading.Event(), [0]
    harness.accept(driver.started(QUERY, RUN))

    def send() -> None:
        while not stop.is_set():
            harness.accept(driver.progress(QUERY, RUN, acknowledged[0]))
            acknowledged[0] += 1

    sender = threading.Thread(target=send)
    sender.start()
    try:
        while acknowledged[0] < 20:
            stop.wait(0.01)
        before = acknowledged[0]
        size = backup(harness.url, tmp_path / "copy")
    finally:
        stop.set()
        sender.join()
    assert size == (tmp_path / "copy").stat().st_size
    restore(empty, tmp_path / "copy")
    assert check(empty) == []
    restored = batches(empty)
    assert len(restored) >= before
    assert restored == list(range(len(restored)))
    assert len(batches(harness.url)) == acknowledged[0]


def at_revision(url: str, revision: str) -> None:
    """Make the store of an older release, with the rows that this one writes and one in each other table."""
    engine, config = open_engine(url), _migrations()
    with engine.connect().execution_options(writes=True) as connection, connection.begin():
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        _fill(connection)
    engine.dispose()


def test_a_backup_of_an_older_release_is_restored(harness: StoreHarness, empty: str, tmp_path: Path) -> None:
    at_revision(empty, "0006")
    backup(empty, tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600
    content = (tmp_path / "copy").read_bytes()
    restore(harness.url, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == content
    assert check(harness.url) == [OLD_SCHEMA]
    with open_harness(harness.url) as restored:
        assert [view.query_id for view in restored.reloaded().views()] == [QUERY]
        assert check(harness.url) == []


def test_a_file_that_is_no_whole_backup_leaves_the_store_as_it_is(
    harness: StoreHarness, empty: str, tmp_path: Path
) -> None:
    harness.accept(Driver().started(QUERY, RUN))
    backup(harness.url, tmp_path / "copy")
    whole = (tmp_path / "copy").read_bytes()
    newer = open_engine(empty)
    upgrade(newer)
    with newer.connect().execution_options(writes=True) as connection, connection.begin():
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    newer.dispose()
    backup(empty, tmp_path / "newer")
    files = {
        "newer": (tmp_path / "newer").read_bytes(),
        "cut": whole[: len(whole) // 2],
        "empty": b"",
        "text": b"text",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises((SettingsError, StoreUnavailable)):
            restore(harness.url, tmp_path / name)
    assert check(harness.url) == []
    assert len(harness.reloaded().views()) == 1


def test_a_restore_keeps_the_store_that_it_replaces(tmp_path: Path) -> None:
    with sqlite_harness(tmp_path) as harness:
        backup(harness.url, tmp_path / "copy")
        harness.accept(Driver().started(QUERY, RUN))
        url = harness.url
    kept = restore(url, tmp_path / "copy")
    with open_harness(url) as harness:
        assert harness.reloaded().views() == []
    assert kept is not None
    with open_harness(f"sqlite:///{kept}") as harness:
        assert len(harness.reloaded().views()) == 1


def test_a_backup_replaces_no_file(tmp_path: Path) -> None:
    with sqlite_harness(tmp_path) as harness:
        backup(harness.url, tmp_path / "copy")
        with pytest.raises(SettingsError, match="exists"):
            backup(harness.url, tmp_path / "copy")
        with pytest.raises(SettingsError, match="cannot be written"):
            backup(harness.url, tmp_path / "none" / "copy")


def test_a_damaged_store_is_named_and_keeps_its_reserve(tmp_path: Path) -> None:
    from controlplane.runtime import disk_reserve

    file = tmp_path / "controlplane.db"
    with sqlite_harness(tmp_path) as harness:
        url = harness.url
    pages = bytearray(file.read_bytes())
    pages[100:4096] = b"\xff" * 3996  # the schema
    file.write_bytes(bytes(pages))
    assert disk_reserve.ensure(file, 4096)
    assert check(url)
    engine = open_engine(url)
    with pytest.raises(StoreUnavailable, match="damaged"):
        upgrade(engine)
    engine.dispose()
    assert disk_reserve.reserve_path(file).exists()


def test_the_commands_copy_check_and_restore(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite_harness(tmp_path) as harness:
        harness.accept(Driver().started(QUERY, RUN))
    monkeypatch.setenv("CONTROLPLANE_DATA_DIR", str(tmp_path))
    copy = str(tmp_path / "copy")
    assert [run(["db", *arguments]) for arguments in (["backup", copy], ["check"], ["restore", copy])] == [
        0,
        0,
        0,
    ]
    assert "the store is intact" in capsys.readouterr().out
    assert run(["db", "restore", str(tmp_path / "none")]) == 2


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_older_schema_is_upgraded_with_its_rows(tmp_path: Path, revision: str) -> None:
    at_revision(default_url(tmp_path), revision)
    _check_upgrade(default_url(tmp_path))


def test_the_first_schema_is_upgraded_with_its_rows_on_postgresql(postgres: str) -> None:
    with postgres_database(postgres) as url:
        at_revision(url, REVISIONS[-1])
        _check_upgrade(url)


def _check_upgrade(url: str) -> None:
    """Upgrade a store of `at_revision`: the rows are kept, and the server reads them."""
    before = _tables(url)
    with open_harness(url) as harness:
        after = _tables(url)
        for name, rows in before.items():
            kept = [{key: row[key] for key in rows[0] if key in row} for row in after[name]]
            for row in rows:
                assert {key: value for key, value in row.items() if key in after[name][0]} in kept, name
        view = harness.reloaded().views()[0]
        assert (view.query_id, view.name) == (QUERY, "orders")
        assert [report.batch_id for report in view.progress] == [0, 1, 2]
    assert check(url) == []


def _tables(url: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of all tables but that of the schema's revision."""
    engine, known = open_engine(url), sa.MetaData()
    known.reflect(engine)
    with engine.connect() as connection:
        rows = {
            table.name: [dict(row) for row in connection.execute(sa.select(table)).mappings()]
            for table in known.sorted_tables
            if table.name != "alembic_version"
        }
    engine.dispose()
    return {name: found for name, found in rows.items() if found}


@functools.cache
def _written_rows() -> dict[str, list[dict[str, Any]]]:
    """The rows that this release writes for a query with three batches."""
    with tempfile.TemporaryDirectory() as folder, sqlite_harness(Path(folder)) as harness:
        driver = Driver()
        harness.accept(driver.started(QUERY, RUN, name="orders"))
        harness.accept(*(driver.progress(QUERY, RUN, batch) for batch in range(3)))
        return _tables(harness.url)


def _fill(connection: sa.Connection) -> None:
    known = sa.MetaData()
    known.reflect(connection)
    for table in known.sorted_tables:
        if table.name == "alembic_version" or connection.execute(sa.select(table)).first():
            continue
        defaults = {column.name: _value(column) for column in table.columns if not column.nullable}
        for row in _written_rows().get(table.name, [defaults]):
            values = {key: value for key, value in (defaults | row).items() if key in table.columns}
            connection.execute(table.insert().values(values))


def _value(column: sa.Column[Any]) -> Any:
    return {bool: True, int: 1, float: 1.0, bytes: b"x"}.get(column.type.python_type, "{}")
