"""The report's figures by hand-made tables, and its page: whatever a query is called is text in it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest

from controlplane.pipeline.report.page import duration, percent, render_html, sparkline
from controlplane.pipeline.report.report_stats import (
    Json,
    ReportRequest,
    ReportTables,
    alert_noise,
    compute_report,
    restart_costs,
)

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>'\"{{ 7*7 }}{% raw %}$x^2$"


def day(number: int, query: str = "orders", **figures: Any) -> Json:
    return {
        "app": "shop", "query": query, "query_id": "id-" + query, "bucket_at": BEGIN + timedelta(days=number),
        "batches": 10, "input_rows": 100, "busy_seconds": 60.0, "starts": 0, "failures": 0,
        "downtime_seconds": 0.0, "slo_batches": 10, "slo_good": 10, "lag_seconds_p95": 5.0,
        "lag_seconds_max": 9.0, "lag_rows_p95": 50.0, "lag_rows_max": 90.0, "state_rows_max": None,
        "state_bytes_max": None, **figures,
    }  # fmt: skip


def made(days: list[Json], **limits: Any) -> Json:
    rows = pd.DataFrame(days)
    for name in ("state_rows_max", "state_bytes_max", "lag_seconds_p95", "lag_seconds_max"):
        rows[name] = rows[name].astype("float64")
    hours = pd.DataFrame(
        {"app": "shop", "query": rows["query"].unique(), "busy_p50": 0.5, "busy_p95": 0.8, "input_p90": 10.0,
         "processed_p50": 20.0}
    )  # fmt: skip
    tables = ReportTables(rows, hours, runs([]), alerts([]), pd.DataFrame(columns=["action", "state"]))
    wish = ReportRequest("file:///lake", BEGIN, BEGIN + timedelta(days=30), **limits)
    return compute_report(tables, wish, BEGIN + timedelta(days=30))


def runs(rows: list[Json]) -> pd.DataFrame:
    names = "app query query_id run_id first_at first_batch last_batch first_rows first_batch_seconds"
    return pd.DataFrame(rows, columns=names.split())


def alerts(rows: list[tuple[float, float | None]], name: str = "Lag") -> pd.DataFrame:
    """Episodes of one alert: minutes of begin and end."""
    return pd.DataFrame(
        {
            "name": name,
            "severity": "warning",
            "query_id": "q",
            "fingerprint": "f",
            "fired_at": pd.to_datetime([BEGIN + timedelta(minutes=begin) for begin, _ in rows], utc=True),
            "resolved_at": pd.to_datetime(
                [None if end is None else BEGIN + timedelta(minutes=end) for _, end in rows], utc=True
            ),
            "notified": 1,
        },
    )


def test_queries_that_miss_their_objective_come_first() -> None:
    days = [day(n, query, slo_good=good) for n in range(3) for query, good in (("a", 10), ("b", 7), ("c", 9))]
    reported = made(days)
    assert [item["query"] for item in reported["queries"]] == ["b", "c", "a"]
    assert reported["queries"][0]["attainment"] == pytest.approx(0.7)
    assert reported["fleet"]["attainment"] == pytest.approx(78 / 90)
    assert [item["attainment"] for item in reported["fleet"]["days"]] == [pytest.approx(26 / 30)] * 3


def test_a_query_that_cannot_be_judged_is_not_called_perfect() -> None:
    reported = made([day(0, "a", slo_batches=0, slo_good=0), day(0, "b", slo_good=9)])
    assert [(item["query"], item["attainment"]) for item in reported["queries"]] == [("b", 0.9), ("a", None)]


def test_growing_state_has_the_time_it_reaches_its_limit() -> None:
    reported = made([day(n, state_rows_max=1000.0 + 100 * n) for n in range(20)], state_rows=3900.0)
    state = reported["queries"][0]["state_rows"]
    assert state["trend"]["direction"] == "up" and state["last"] == 2900
    assert state["reached_in_days"]["days"] == pytest.approx(10)
    assert "Reaches 3.9 k in 10 days" in render_html(reported)


def test_state_before_a_new_checkpoint_predicts_nothing() -> None:
    old = [day(n, query_id="old", state_rows_max=1000.0 * n) for n in range(15)]
    reported = made(old + [day(15 + n, query_id="new", state_rows_max=10.0) for n in range(10)])
    assert reported["queries"][0]["query_id"] == "new"
    assert reported["queries"][0]["state_rows"]["trend"]["direction"] == "none"


def test_a_week_too_short_is_reported_as_unknown_not_as_steady() -> None:
    reported = made([day(n, state_rows_max=10.0 * n) for n in range(3)])
    assert reported["queries"][0]["state_rows"]["trend"] is None
    assert "1 have too few days" in render_html(reported)


def test_a_batch_done_again_by_the_next_run_is_counted_with_its_rows() -> None:
    rows = [("r1", 0, 5), ("r2", 5, 9), ("r3", 10, 12), ("r4", 0, 3)]
    frame = runs(
        [
            {"app": "shop", "query": "q", "query_id": "new" if run == "r4" else "old", "run_id": run,
             "first_at": BEGIN + timedelta(hours=n), "first_batch": first, "last_batch": last,
             "first_rows": 7, "first_batch_seconds": float(n)}
            for n, (run, first, last) in enumerate(rows)
        ]
    )  # fmt: skip
    cost = restart_costs(frame)[("shop", "q")]
    assert (cost["runs"], cost["batches_repeated"], cost["rows_repeated"]) == (4, 1, 7)
    assert (cost["first_batch_seconds_median"], cost["first_batch_seconds_max"]) == (1.5, 3)


def test_alerts_that_are_short_or_come_back_at_once_are_noisy() -> None:
    quiet = alert_noise(alerts([(0, 60), (500, 560), (1000, 1060), (1500, 1560), (2000, None)]))[0]
    assert (quiet["short_lived"], quiet["flapping"], quiet["firing"], quiet["noisy"]) == (0, 0, 1, False)
    loud = alert_noise(alerts([(0, 60), (70, 130), (140, 141), (500, 560), (1000, 1060)]))[0]
    assert (loud["episodes"], loud["short_lived"], loud["flapping"], loud["noise"]) == (5, 1, 2, 2)
    assert loud["noisy"]


def test_a_hostile_name_is_text_in_the_page() -> None:
    days = [day(n, HOSTILE, app=HOSTILE, slo_good=5, state_rows_max=100.0 + n * 50) for n in range(20)]
    page = render_html(made(days, queries=(HOSTILE,), app=HOSTILE, state_rows=1e6))
    assert "<script" not in page and "alert(1)&lt;/script&gt;" in page
    assert "{{ 7*7 }}" in page  # written as it is, evaluated by nobody


def test_the_page_needs_nothing_of_the_network() -> None:
    page = render_html(made([day(n, state_rows_max=100.0 + n * 50) for n in range(20)]))
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!#)""", page.replace('xlink:href="#', 'href="#'))
    assert "@import" not in page and "url(http" not in page
    assert page.count("<svg role") == 3


def test_a_lake_without_rollups_is_an_error_that_names_the_command() -> None:
    empty = made([day(0)])
    frame = pd.DataFrame([day(0)]).iloc[:0].assign(bucket_at=pd.to_datetime([], utc=True))
    none = ReportTables(frame, pd.DataFrame(), runs([]), alerts([]), pd.DataFrame())
    reported = compute_report(none, ReportRequest("l", BEGIN, BEGIN + timedelta(days=1)), BEGIN)
    assert reported["fleet"].keys() == empty["fleet"].keys()
    assert "controlplane history rollup" in render_html(reported)


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (1.0, "100.00 %"), (0.999999, "99.99 %"), (0.5, "50.00 %")]
)
def test_a_share_is_never_rounded_up_to_all(value: float | None, text: str) -> None:
    assert percent(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.0, "0 s"), (0.25, "0.25 s"), (59.6, "1 min"), (93784.0, "1 d 2 h")],
)
def test_durations_are_reported_in_two_units(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_a_line_of_unknown_figures_has_gaps() -> None:
    assert sparkline([1.0, 2.0, None, 3.0, 4.0]).count("<polyline") == 2
    assert sparkline([None, 1.0]) == "" and "nan" not in sparkline([0.0, 0.0])
