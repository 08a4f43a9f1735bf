"""A unit of work from the cache equals the one that the store would give."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import Connection

from controlplane.records import References, UnitOfWork
from controlplane.store import queries, retention
from controlplane.store.writing import unit_of_work
from controlplane.store.writing.row_cache import RowCache
from tests.drivers import Driver
from tests.random_histories import Fault, random_history
from tests.stores import StoreHarness, sqlite_harness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path) as opened:
        yield opened


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[References]:
    """What was loaded. Every unit of work from the cache is compared with the store's."""
    real, plain, found = RowCache.load, unit_of_work.load, list[References]()

    def checked(self: RowCache, connection: Connection, references: References) -> UnitOfWork:
        work, expected = real(self, connection, references), plain(connection, references)
        assert (work.agents, work.queries, work.runs) == (expected.agents, expected.queries, expected.runs)
        found.append(references)
        return work

    monkeypatch.setattr(RowCache, "load", checked)
    return found


@pytest.mark.parametrize(
    ("seed", "fault"), [(1, Fault.NONE), (4, Fault.NONE), (9, Fault.FAILS), (12, Fault.DIES)]
)
def test_every_unit_of_work_of_a_random_history_is_that_of_the_store(
    harness: StoreHarness, loads: list[References], seed: int, fault: Fault
) -> None:
    for request in random_history(seed, fault).requests()[:100]:
        harness.now = request.arrives_at
        harness.accept(*request.lines, sent_at=request.sent_at)
    assert len(loads) > 20


def test_events_of_known_queries_are_stored_without_a_select(
    harness: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver()
    harness.accept(driver.line("started", {"id": "q1", "runId": "r1", "name": "orders"}))
    monkeypatch.setattr(unit_of_work, "load", None)
    monkeypatch.setattr(unit_of_work, "load_agents", None)
    assert harness.accept(driver.line("idle", {"id": "q1", "runId": "r1"})).stored == 1


def test_a_retired_query_is_loaded_again(harness: StoreHarness, loads: list[References]) -> None:
    driver = Driver()
    harness.accept(driver.line("started", {"id": "q1", "runId": "r1", "name": "orders"}))
    work, then = harness.writer.rows.changing(lambda connection: queries.retire(connection, "q1", 5e9))
    harness.writer.write(work, then)
    harness.accept(driver.line("idle", {"id": "q1", "runId": "r1"}))
    assert harness.read(queries.query_rows)[0].retired_at == 5e9
    assert len(loads) == 2


def test_retention_leaves_nothing_outdated(harness: StoreHarness, loads: list[References]) -> None:
    driver = Driver()
    harness.accept(driver.line("started", {"id": "q1", "runId": "r1", "name": "orders"}, 1000.0))
    retention.prune(harness.writer, harness.now, 1.0, 2**40)
    assert harness.accept(driver.line("started", {"id": "q1", "runId": "r2", "name": "orders"})).stored == 1
    assert len(loads) == 2


def test_a_transaction_that_fails_leaves_the_rows_of_the_store(
    harness: StoreHarness, loads: list[References], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver()
    harness.accept(driver.line("started", {"id": "q1", "runId": "r1", "name": "orders"}))
    with monkeypatch.context() as broken:
        broken.setattr("controlplane.store.events.append_batches", None)
        assert harness.accept(driver.line("idle", {"id": "q1", "runId": "r1"})).rejected
    assert harness.accept(driver.line("idle", {"id": "q1", "runId": "r1"})).stored == 1
    assert len(loads) >= 4
