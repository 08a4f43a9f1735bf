"""A fresh look: when it has come, how long it is waited for, and what is said when it does not come."""

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

ASKED = InventoryRequestState(asked_at=NOW, before=NOW - 42, by="agent")


def test_a_look_has_come_when_what_is_known_is_newer_than_before() -> None:
    assert not has_arrived(ASKED, checkpoint(collected_at=rfc3339(NOW - 42)))
    assert has_arrived(
        ASKED, checkpoint(collected_at=rfc3339(NOW - 41))
    )  # another clock than ours: never compared
    assert has_arrived(InventoryRequestState(NOW, None), checkpoint(collected_at=rfc3339(NOW - 99)))
    assert not has_arrived(InventoryRequestState(NOW, None), checkpoint(collected_at=None))


def test_what_has_come_stays_come_whatever_an_older_answer_says() -> None:
    came = InventoryRequestState(NOW, NOW - 42, "agent", came=True)
    assert has_arrived(came, checkpoint(collected_at=rfc3339(NOW - 42)))
    assert not is_waiting(came, checkpoint(collected_at=rfc3339(NOW - 42)), NOW + 1)


def test_it_is_waited_for_with_an_end() -> None:
    old = checkpoint()
    assert is_waiting(ASKED, old, NOW + PANEL_WAIT_SECONDS - 1)
    assert not is_waiting(ASKED, old, NOW + PANEL_WAIT_SECONDS)
    assert not is_waiting(ASKED, checkpoint(collected_at=rfc3339(NOW)), NOW + 1)
    assert not is_waiting(None, old, NOW)
    assert not is_waiting(InventoryRequestState(NOW, None, refused="no"), old, NOW)


def test_a_look_that_does_not_come_is_told_with_what_is_known_of_why() -> None:
    old = checkpoint(trouble="the listing took too long")
    assert failure(ASKED, old, NOW + 1) == ""
    said = failure(ASKED, old, NOW + PANEL_WAIT_SECONDS + 1)
    assert said == "The driver's agent brought no newer look within 15 s: the listing took too long"
    assert failure(ASKED, old, NOW + PANEL_WAIT_SECONDS + SHOW_FAILURE_SECONDS + 1) == ""
    assert (
        failure(InventoryRequestState(NOW, NOW - 42, refused="the agent is gone"), old, NOW)
        == "Nobody can look now: the agent is gone"
    )
    assert failure(None, old, NOW) == ""
