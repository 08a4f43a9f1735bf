"""The plan of a rewind in words."""

from __future__ import annotations

from ui.query.rewind_panel import facts, frame


def test_rows_that_are_not_all_known_are_not_counted() -> None:
    plan = {"title": "batch 2 runs next", "files_removed": 4, "files_written": 1, "rows_again": None}
    rows = dict(facts(plan))
    assert rows["Read again"].startswith("Unknown")
    assert rows["Files"] == "4 removed, 1 written, after a backup"
    assert dict(facts({**plan, "rows_again": 0}))["Read again"] == "0 rows"


def test_a_batch_without_time_or_report_has_neither() -> None:
    made = frame(
        [{"batch": 3, "committed_at": None, "input_rows": None, "possible": False, "reason": "x\ny"}]
    )
    assert made["committed"].isna().all() and made["rows"].isna().all()
    assert made["next"].to_list() == ["no: x y"]
