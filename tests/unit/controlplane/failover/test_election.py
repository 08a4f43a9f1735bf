"""The election of one server; the lease in the store is tested in tests/contract/test_store_lease.py."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from controlplane.errors import LeaseLost, NotActive
from controlplane.failover import election as module
from controlplane.failover.election import Election, OnlyServer, ServerRole
from controlplane.store.shared import lease
from tests.stores import StoreHarness, postgres_harness


@pytest.fixture
def store(postgres: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreHarness]:
    for name in ("READ_SECONDS", "RENEW_SECONDS"):
        monkeypatch.setattr(module, name, 0.02)
    with postgres_harness(postgres) as harness:
        yield harness


def end_of_the_lease(store: StoreHarness) -> None:
    store.write(lambda connection: connection.execute(sa.update(lease.lease).values(expires_at=1.0)))


def test_the_only_server_is_active_without_a_lease() -> None:
    only = OnlyServer()
    assert only.role is ServerRole.STANDBY
    assert only.start(lambda: None)
    only.active_since = 1.0
    assert only.role is ServerRole.ACTIVE
    assert only.holds()
    only.resign()
    assert only.lost


def test_the_second_server_takes_over_after_a_release(store: StoreHarness) -> None:
    first, second, elected = (
        Election(store.url, "http://a"),
        Election(store.url, "http://b"),
        threading.Event(),
    )
    assert first.start(lambda: None)
    assert not second.start(elected.set)
    assert second.active_address == "http://a"
    with pytest.raises(NotActive, match="http://a"):
        store.read(second.fence)
    store.write(first.fence)
    first.stop()
    assert elected.wait(20)
    assert second.holds()
    assert (second.number, second.active_address) == (2, "http://b")
    second.stop()


def test_a_lease_that_was_not_renewed_holds_no_longer(
    store: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RENEW_SECONDS", 1000.0)
    now = [100.0]
    first = Election(store.url, "http://a", lambda: now[0])
    assert first.start(lambda: None)
    assert first.holds()
    now[0] += module.LEASE_SECONDS
    assert not first.holds()
    end_of_the_lease(store)
    second = Election(store.url, "http://b")
    assert second.start(lambda: None)
    with pytest.raises(LeaseLost):
        store.read(first.fence)
    first._step()
    assert first.lost
    first.stop()
    second.stop()


def test_a_candidate_that_stops_becomes_active_no_more(store: StoreHarness) -> None:
    first, second = Election(store.url, "http://a"), Election(store.url, "http://b")
    assert first.start(lambda: None)
    assert not second.start(lambda: pytest.fail("it was stopping"))
    second.settle()
    first.stop()
    second.stop()
    assert second.number is None
