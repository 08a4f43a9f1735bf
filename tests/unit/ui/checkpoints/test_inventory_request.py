"""A fresh look: when it has come, how long it is waited for, and what is said when it does not come."""

from __future__ import annotations

from tests.ui.checkpoint_factories import checkpoint
from tests.ui.factories import NOW, rfc3339
from ui.checkpoints.inventory_request import KEEP, PATIENCE, InventoryRequestState, arrived, trouble, waiting

ASKED = InventoryRequestState(asked_at=NOW, before=NOW - 42, by="agent")


def test_a_look_has_come_when_what_is_known_is_newer_than_before() -> None:
    assert not arrived(ASKED, checkpoint(collected_at=rfc3339(NOW - 42)))
    assert arrived(
        ASKED, checkpoint(collected_at=rfc3339(NOW - 41))
    )  # another clock than ours: never compared
    assert arrived(InventoryRequestState(NOW, None), checkpoint(collected_at=rfc3339(NOW - 99)))
    assert not arrived(InventoryRequestState(NOW, None), checkpoint(collected_at=None))


def test_what_has_come_stays_come_whatever_an_older_answer_says() -> None:
    came = InventoryRequestState(NOW, NOW - 42, "agent", came=True)
    assert arrived(came, checkpoint(collected_at=rfc3339(NOW - 42)))
    assert not waiting(came, checkpoint(collected_at=rfc3339(NOW - 42)), NOW + 1)


def test_it_is_waited_for_with_an_end() -> None:
    old = checkpoint()
    assert waiting(ASKED, old, NOW + PATIENCE - 1)
    assert not waiting(ASKED, old, NOW + PATIENCE)
    assert not waiting(ASKED, checkpoint(collected_at=rfc3339(NOW)), NOW + 1)
    assert not waiting(None, old, NOW)
    assert not waiting(InventoryRequestState(NOW, None, refused="no"), old, NOW)


def test_a_look_that_does_not_come_is_told_with_what_is_known_of_why() -> None:
    old = checkpoint(trouble="the listing took too long")
    assert trouble(ASKED, old, NOW + 1) == ""
    said = trouble(ASKED, old, NOW + PATIENCE + 1)
    assert said == "The driver's agent brought no newer look within 15 s: the listing took too long"
    assert trouble(ASKED, old, NOW + PATIENCE + KEEP + 1) == ""
    assert (
        trouble(InventoryRequestState(NOW, NOW - 42, refused="the agent is gone"), old, NOW)
        == "Nobody can look now: the agent is gone"
    )
    assert trouble(None, old, NOW) == ""
