"""Inventory requests: when the inventory has arrived, how long it is waited for, how a failure reads."""

from __future__ import annotations

from tests.ui.checkpoint_factories import checkpoint
from tests.ui.factories import NOW, rfc3339
from ui.checkpoints.inventory_request import (
    PANEL_WAIT_SECONDS,
    SHOW_FAILURE_SECONDS,
    InventoryRequestState,
    failure,
    has_arrived,
    is_waiting,
)

SENT = InventoryRequestState(requested_at=NOW, previous_at=NOW - 42, collector="agent")


def test_an_inventory_has_arrived_if_the_known_one_is_newer_than_before() -> None:
    assert not has_arrived(SENT, checkpoint(collected_at=rfc3339(NOW - 42)))
    assert has_arrived(
        SENT, checkpoint(collected_at=rfc3339(NOW - 41))
    )  # the driver's clock is not compared with this one
    assert has_arrived(InventoryRequestState(NOW, None), checkpoint(collected_at=rfc3339(NOW - 99)))
    assert not has_arrived(InventoryRequestState(NOW, None), checkpoint(collected_at=None))


def test_an_older_answer_does_not_undo_an_arrival() -> None:
    state = InventoryRequestState(NOW, NOW - 42, "agent", arrived=True)
    assert has_arrived(state, checkpoint(collected_at=rfc3339(NOW - 42)))
    assert not is_waiting(state, checkpoint(collected_at=rfc3339(NOW - 42)), NOW + 1)


def test_the_wait_for_an_inventory_is_bounded() -> None:
    old = checkpoint()
    assert is_waiting(SENT, old, NOW + PANEL_WAIT_SECONDS - 1)
    assert not is_waiting(SENT, old, NOW + PANEL_WAIT_SECONDS)
    assert not is_waiting(SENT, checkpoint(collected_at=rfc3339(NOW)), NOW + 1)
    assert not is_waiting(None, old, NOW)
    assert not is_waiting(InventoryRequestState(NOW, None, refused="no"), old, NOW)


def test_an_inventory_that_does_not_arrive_is_reported_with_its_reason() -> None:
    old = checkpoint(trouble="the listing took too long")
    assert failure(SENT, old, NOW + 1) == ""
    reported = failure(SENT, old, NOW + PANEL_WAIT_SECONDS + 1)
    assert reported == "The driver's agent returned no newer inventory within 15 s: the listing took too long"
    assert failure(SENT, old, NOW + PANEL_WAIT_SECONDS + SHOW_FAILURE_SECONDS + 1) == ""
    assert (
        failure(InventoryRequestState(NOW, NOW - 42, refused="the agent is gone"), old, NOW)
        == "The checkpoint cannot be checked now: the agent is gone"
    )
    assert failure(None, old, NOW) == ""
