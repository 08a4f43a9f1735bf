"""Which change of a checkpoint the page offers to undo."""

from __future__ import annotations

from typing import Any

import pytest

from ui.query.repair_panel import refusal, undoable

DONE = "2026-11-24T10:00:00Z"
DONE_AT = 1795514400.0


def change(id: str, kind: str = "rewind", state: str = "succeeded", **more: Any) -> dict[str, Any]:
    evidence = {"backup": f"/ck.backup-{id}"}
    return {"id": id, "action": kind, "state": state, "finished_at": DONE, "evidence": evidence, **more}


UNDO = {"overrides": {"action_id": "2"}}


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ([], None),
        ([{"id": "1", "action": "restart", "state": "succeeded"}], None),
        ([change("2"), change("1", "repair")], "2"),
        ([change("3", "undo", **UNDO), change("2"), change("1", "repair")], "1"),
        ([change("3", "undo", "failed", **UNDO), change("2")], "2"),
        ([change("2", state="running"), change("1")], "1"),
        ([change("2", state="failed", evidence={"code": "in_use"}), change("1")], "1"),
        ([change("2", state="failed")], "2"),
    ],
)
def test_the_newest_change_with_a_backup_that_stands_is_undone(
    actions: list[dict[str, Any]], expected: str | None
) -> None:
    found = undoable(actions, DONE_AT - 100)
    assert (found or {}).get("id") == expected


def test_a_change_before_the_newest_start_is_not_offered() -> None:
    assert undoable([change("2")], DONE_AT + 1) is None


def test_a_refusal_begins_with_a_capital_letter() -> None:
    assert refusal({"refusal": {"code": "x", "reason": "the query is running"}}) == "The query is running"
    assert refusal({"refusal": None}) is None
