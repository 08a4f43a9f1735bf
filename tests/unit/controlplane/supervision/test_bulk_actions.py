"""Bulk actions on a real store: another server carries on, a cancel ends it, and who asked is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.actions.outbox import Outbox
from controlplane.actions.service import ActionService
from controlplane.bulk_model import BulkAction, BulkState
from controlplane.errors import NotFound
from controlplane.model import Action, ActionState
from controlplane.store import actions as action_rows
from controlplane.store.shared.bounded_reads import BoundedReads
from controlplane.store.supervision import bulk_actions as rows
from controlplane.supervision.bulk_actions import BulkActions
from tests.drivers import Driver
from tests.stores import StoreHarness, sqlite_harness

IDS = ("q1", "q2", "q3")


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StoreHarness]:
    with sqlite_harness(tmp_path) as opened:
        driver = Driver()
        for query_id in IDS:
            opened.accept(driver.started(query_id, f"r-{query_id}", at=opened.now - 20))
        yield opened


def server(harness: StoreHarness) -> BulkActions:
    actions = ActionService(harness.writer, harness.window, Outbox(), lambda: harness.now)
    made = BulkActions(
        harness.writer, harness.window, actions, BoundedReads(harness.engine).open, lambda: harness.now
    )
    made.load()
    return made


def bulk(harness: StoreHarness) -> BulkAction:
    return BulkAction("b1", "stop", IDS, "ada", "ui", "maintenance", harness.now)


def requested(harness: StoreHarness) -> dict[str, Action]:
    return harness.read(rows.actions_of, bulk(harness))


def end(harness: StoreHarness, query_id: str, state: ActionState) -> None:
    action = requested(harness)[query_id]
    assert harness.write(action_rows.update, replace(action, state=state, reason="why"), action.state)


def test_another_server_carries_on_and_requests_nothing_twice(harness: StoreHarness) -> None:
    first = server(harness)
    first.add(bulk(harness))
    first.tick()
    assert list(requested(harness)) == ["q1"]
    other = server(harness)
    for each in (first, other):
        each.tick()
    assert list(requested(harness)) == ["q1"]
    end(harness, "q1", ActionState.SUCCEEDED)
    for each in (first, other):
        each.tick()
    found = requested(harness)
    assert list(found) == ["q1", "q2"]
    assert {(a.actor, a.request_reason) for a in found.values()} == {("ada", "maintenance")}
    end(harness, "q2", ActionState.FAILED)
    for each in (other, first):
        each.tick()
    halted = harness.read(rows.get, "b1")
    assert halted is not None and halted.state is BulkState.HALTED and halted.why.startswith("stop of shop")
    assert list(requested(harness)) == ["q1", "q2"] and not harness.read(rows.running)


def test_after_a_cancel_no_query_is_acted_on(harness: StoreHarness) -> None:
    service = server(harness)
    service.add(bulk(harness))
    assert service.cancel("b1", "bob", "cli").why == "cancelled by bob"
    service.tick()
    assert not requested(harness) and service.cancel("b1", "eve", "cli").why == "cancelled by bob"
    with pytest.raises(NotFound, match="b9"):
        service.cancel("b9", "bob", "cli")
