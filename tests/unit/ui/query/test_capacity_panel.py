"""The figures of the capacity panel in short and in full."""

from __future__ import annotations

from typing import Any

from tests.ui.factories import capacity
from ui.query import capacity_panel


def of(**changes: Any) -> dict[str, Any]:
    return {**capacity(), **changes}


def test_the_headline_names_load_headroom_bottleneck_and_what_runs_out() -> None:
    assert capacity_panel.headline(of()) == [
        "busy 42 %",
        "headroom at least 180/s",
        "bottleneck: tasks",
        "backlog read in 1 min 30 s",
        "unread rows deleted in 5 h",
        "state limit (rows) reached in 1 h 50 min",
    ]


def test_a_query_that_falls_behind_is_too_slow() -> None:
    load = {**capacity()["throughput"], "headroom_rows_per_second": -50.0}
    assert "50/s short of the demand" in capacity_panel.headline(of(throughput=load))


def test_why_nothing_is_known_is_stated() -> None:
    nothing = dict.fromkeys(capacity()) | {"state": [], "advice": [], "unknown": "The query does not run."}
    assert not capacity_panel.has_figures(nothing)
    assert capacity_panel.headline(nothing) == ["The query does not run."]
    kept = {**nothing, "retention": capacity()["retention"]}
    assert capacity_panel.has_figures(kept)
    assert [label for label, _ in capacity_panel.sentences(kept)] == ["Load", "Retention"]


def test_parts_of_a_batch_have_names_and_shares() -> None:
    table = capacity_panel.part_rows(capacity()["bottleneck"]["parts"])
    assert table.to_dict("records")[0] == {"Part": "Tasks", "Mean": "1.5 s", "Of the batch": "75 %"}
