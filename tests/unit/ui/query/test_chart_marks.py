"""Marks of the charts: what happened to the query within the window."""

from datetime import UTC, datetime

from tests.ui.factories import NOW
from ui.query import chart_marks

WINDOW = (NOW - 3600, NOW)


def stamp(ago: float) -> str:
    return datetime.fromtimestamp(NOW - ago, UTC).isoformat()


def made(runs: list[float], alerts: list[float], changes: list[tuple[float, str]]):  # type: ignore[no-untyped-def]
    return chart_marks.marks(
        {"runs": [{"started_at": stamp(ago)} for ago in runs]},
        [{"fired_at": stamp(ago), "severity": "critical"} for ago in alerts],
        [{"at": stamp(ago), "kind": kind} for ago, kind in changes],
        WINDOW,
    )


def test_starts_and_alerts_within_the_window_are_marked_in_their_order() -> None:
    marks, legend = made([60, 7200], [30], [])
    assert [round(NOW - mark.at) for mark in marks] == [60, 30]
    assert marks[0].color == chart_marks.START_COLOR
    assert "start of a run" in legend and "alert" in legend and "changed plan" not in legend


def test_a_start_with_another_plan_or_label_is_a_mark_of_its_own() -> None:
    marks, legend = made([600, 60], [], [(600, "label"), (600, "start"), (60, "driver"), (60, "start")])
    assert [mark.color for mark in marks] == [chart_marks.CHANGE_COLOR, chart_marks.START_COLOR]
    assert "changed plan" in legend


def test_of_very_many_marks_the_last_are_drawn() -> None:
    marks, _ = made([float(ago) for ago in range(1, 500)], [], [])
    assert len(marks) == chart_marks.MAX_MARKS
    assert round(NOW - marks[-1].at) == 1


def test_without_events_there_is_neither_mark_nor_legend() -> None:
    assert made([], [], []) == ([], "")


def test_times_that_are_none_are_left_out() -> None:
    assert chart_marks.marks({"runs": [{"started_at": None}]}, [{"fired_at": "x"}], [], WINDOW) == ([], "")
