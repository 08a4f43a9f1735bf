"""What the demonstration prints of its fleet."""

from __future__ import annotations

from typing import Any

from controlplane.demo import report


def make_query(**changed: Any) -> dict[str, Any]:
    query = {
        "app": "demo-clicks",
        "name": "clicks_slow",
        "status": "lagging",
        "batch_id": 17,
        "input_rows_per_second": 100.4,
        "lag_rows": 12345.0,
        "reason": "12 345 rows behind",
        "last_event_at": "1970-01-01T00:16:40.000Z",
    }
    return {**query, **changed}


def test_the_headline_counts_by_status() -> None:
    assert report.headline({"failed": 1, "running": 2, "lost": 0}) == "3 queries: 1 failed, 2 running"
    assert report.headline({"idle": 1}) == "1 query: 1 idle"
    assert report.headline({}) == "0 queries"


def test_a_row_names_status_query_figures_and_reason() -> None:
    line = report.row(make_query(), 200)
    for part in (
        "lagging",
        "demo-clicks/clicks_slow",
        "batch 17",
        "100.4/s",
        "lag 12.3k",
        "12 345 rows behind",
    ):
        assert part in line


def test_what_is_not_known_is_a_dash_and_never_a_zero() -> None:
    line = report.row(make_query(batch_id=None, input_rows_per_second=None, lag_rows=None), 200)
    assert "lag -" in line
    assert "/s" not in line


def test_a_row_never_outgrows_the_terminal() -> None:
    line = report.row(make_query(reason="x" * 500), 80)
    assert len(line) == 80
    assert line.endswith("…")


def test_queries_of_other_programs_on_the_same_server_are_left_out() -> None:
    found = [make_query(name="mine"), make_query(), make_query(last_event_at=None)]
    assert report.of_fleet(found, ["clicks_slow"], since=1000.0) == [make_query()]
    assert report.of_fleet(found, ["clicks_slow"], since=1000.1) == []


def test_the_table_is_a_headline_and_a_line_for_each_query() -> None:
    lines = report.table([make_query(), make_query(status="running")], 120)
    assert lines[0] == "2 queries: 1 lagging, 1 running"
    assert len(lines) == 3


def test_the_headline_of_the_table_counts_the_alerts_that_fire() -> None:
    fleet = [make_query(alerts=1), make_query(alerts=0), make_query()]
    assert report.table(fleet[1:], 120)[0] == "2 queries: 2 lagging"
    assert report.table(fleet, 120)[0] == "3 queries: 3 lagging; 1 alert fires"
    assert report.table([*fleet, make_query(alerts=2)], 120)[0] == "4 queries: 4 lagging; 3 alerts fire"


def test_before_the_first_batch_the_report_names_what_it_waits_for() -> None:
    assert report.waiting(5.2, []) == "  5 s: Spark is starting"
    assert report.waiting(9.0, [make_query()]) == "  9 s: 1 query known, no batch finished yet"
