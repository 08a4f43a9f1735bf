"""What a report states of odd tables: applications without a name, new checkpoints, figures that nobody knows."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from controlplane.pipeline.report.report_job import ALERT_COLUMNS, DAY_COLUMNS
from controlplane.pipeline.report.report_stats import Json, ReportRequest, ReportTables, compute_report

BEGIN = pd.Timestamp("2026-03-01")
WISH = ReportRequest("lake", datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))
COUNTED = {
    "batches": 10,
    "input_rows": 50,
    "busy_seconds": 1.0,
    "starts": 0,
    "failures": 0,
    "downtime_seconds": 0.0,
}
TEXTS = ("app", "query", "query_id", "bucket_at")


def day(number: int, **more: Any) -> dict[str, Any]:
    whose = {
        "app": "shop",
        "query": "orders",
        "query_id": "q",
        "bucket_at": BEGIN + pd.Timedelta(days=number),
    }
    return {**dict.fromkeys(DAY_COLUMNS), **COUNTED, "slo_batches": 10, "slo_good": 9, **whose, **more}


def reported(*days: dict[str, Any], runs: Any = (), hours: Any = ()) -> Json:
    rows = pd.DataFrame(list(days))
    figures = {name: pd.to_numeric(rows[name]) for name in DAY_COLUMNS if name not in TEXTS}
    alerts, actions = pd.DataFrame(columns=ALERT_COLUMNS), pd.DataFrame(columns=["action", "state"])
    busy = pd.DataFrame(
        list(hours) or None, columns=["app", "query", "busy_p50", "busy_p95", "input_p90", "processed_p50"]
    )
    columns = "app query query_id first_at first_batch last_batch first_rows first_batch_seconds".split()
    of_runs = pd.DataFrame(list(runs) or None, columns=columns)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return compute_report(
            ReportTables(rows.assign(**figures), busy, of_runs, alerts, actions), WISH, WISH.until
        )


def test_a_query_of_an_application_without_a_name_is_in_the_report() -> None:
    run = [None, "orders", "q", BEGIN, 0, 5, 1, 2.0]
    found = reported(
        day(0, app=None), day(0, query_id="r"), runs=[run], hours=[[None, "orders", 0.1, 0.5, 1.0, 2.0]]
    )
    assert found["fleet"]["queries"] == 2 and found["fleet"]["apps"] == 2
    item = {query["app"]: query for query in found["queries"]}["unnamed"]
    assert item["restarts"]["runs"] == 1 and item["headroom"]["possible_load_factor"] == 2.0


def test_state_is_that_of_the_newest_checkpoint_also_on_the_day_it_was_made() -> None:
    for ids in (("a", "b"), ("b", "a")):
        old = [day(number, query_id=ids[0], state_rows_max=1e6) for number in range(9)]
        (item,) = reported(day(8, query_id=ids[1], state_rows_max=5.0), *old)["queries"]
        assert item["query_id"] == ids[1] and item["state_rows"]["last"] == 5.0


def test_unknown_values_are_null_without_a_warning() -> None:
    (item,) = reported(day(0))["queries"]
    assert item["lag_seconds_p95"] is None and item["state_rows"] is None and item["headroom"] is None
