"""Looks at checkpoints: one at a time a query, each with an end."""

from __future__ import annotations

import pytest

from controlplane.actions import transitions
from controlplane.checkpoints.inventory_requests import (
    AGENT_COLLECT_SECONDS,
    REQUEST_TIMEOUT_SECONDS,
    InventoryRequest,
    InventoryRequests,
)

AT = 1000.0


@pytest.fixture
def ended() -> list[str]:
    return []


@pytest.fixture
def looks(ended: list[str]) -> InventoryRequests:
    return InventoryRequests(lambda look: ended.append(look.id))


def look(id: str = "l1", query_id: str = "q1", by: str = "agent") -> InventoryRequest:
    return InventoryRequest(id, query_id, by, AT, "a1", "shop")


def test_second_request_of_a_query_returns_the_open_one(looks: InventoryRequests) -> None:
    first = looks.begin(look("l1"))
    assert looks.begin(look("l2")) is first
    assert (looks.by_id("l1"), looks.by_id("l2")) == (first, None)
    assert looks.of("q1") is first


def test_an_inventory_taken_since_ends_it_and_an_older_one_does_not(
    looks: InventoryRequests, ended: list[str]
) -> None:
    looks.begin(look())
    looks.completed("q1", AT - 60)
    assert ended == []
    looks.completed("q1", AT + 1)
    assert (ended, looks.of("q1"), looks.trouble("q1")) == (["l1"], None, None)
    assert looks.by_id("l1") is not None, "its result may come after its inventory"


def test_a_failure_is_remembered_until_an_inventory_comes(looks: InventoryRequests, ended: list[str]) -> None:
    looks.begin(look())
    looks.failed("q1", "no storage")
    assert (ended, looks.trouble("q1")) == (["l1"], "no storage")
    looks.completed("q1", AT + 99)
    assert (ended, looks.trouble("q1")) == (["l1"], None)


@pytest.mark.parametrize(
    ("by", "text"), [("agent", "its agent delivered no"), ("server", "this server delivered no")]
)
def test_what_takes_too_long_ends(looks: InventoryRequests, ended: list[str], by: str, text: str) -> None:
    looks.begin(look(by=by))
    looks.tick(AT + REQUEST_TIMEOUT_SECONDS)
    assert ended == []
    looks.tick(AT + REQUEST_TIMEOUT_SECONDS + 0.1)
    assert ended == ["l1"]
    assert text in str(looks.trouble("q1"))


def test_an_agent_that_never_answers_is_mute_until_it_speaks(looks: InventoryRequests) -> None:
    looks.begin(look())
    looks.tick(AT + REQUEST_TIMEOUT_SECONDS + 1)
    assert looks.is_unresponsive("a1")
    looks.agent_answered("a1")
    assert not looks.is_unresponsive("a1")


def test_agent_collect_time_is_below_start_wait_and_request_timeout() -> None:
    assert AGENT_COLLECT_SECONDS + 2 <= transitions.INVENTORY_WAIT_SECONDS < REQUEST_TIMEOUT_SECONDS
