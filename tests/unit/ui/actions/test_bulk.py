"""Texts and refusals of an action on many queries."""

from __future__ import annotations

import pytest

from ui.actions import bulk


@pytest.mark.parametrize(
    ("accepted", "refused", "left_out", "reason", "refusal"),
    [
        (3, 0, False, "deploy", None),
        (3, 1, True, "deploy", None),
        (3, 1, False, "deploy", "Some queries would refuse"),
        (0, 2, True, "deploy", "No query can take"),
        (3, 0, False, "  ", "Give a reason."),
    ],
)
def test_what_is_missing_before_the_request(
    accepted: int, refused: int, left_out: bool, reason: str, refusal: str | None
) -> None:
    found = bulk.send_refusal(accepted, refused, left_out, reason)
    assert found == refusal or (refusal and found and found.startswith(refusal))


def test_too_many_queries_and_several_servers_are_refused() -> None:
    assert bulk.refusal_of(bulk.MAX_QUERIES, (), "operator") is None
    assert "500" in (bulk.refusal_of(bulk.MAX_QUERIES + 1, (), "operator") or "")
    assert "--server" in (bulk.refusal_of(2, ("eu", "us"), "operator") or "")


def test_the_sentence_counts_and_gives_the_reason_of_the_end() -> None:
    running = {
        "action": "restart",
        "state": "running",
        "actor": "ada",
        "reason": "",
        "queries": [{}] * 3,
        "counts": {"succeeded": 1, "not_requested": 2},
    }
    assert bulk.sentence(running) == "Restart of 3 queries by ada: 1 succeeded, 2 not requested."
    halted = {**running, "state": "halted", "reason": "restart of a/b failed: x"}
    assert bulk.sentence(halted).endswith("Halted: restart of a/b failed: x")
