"""Compute the report from small tables: attainment, worst queries, trends, restarts, alerts, headroom. Pure.

Called by `controlplane.pipeline.report.report_job` with pandas frames that have the lake's columns. The
result is the JSON of `history report --json`; docs/history.md describes its keys.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from controlplane.pipeline.report.trends import FORECAST_DAYS, DailyTrend, fit_trend, forecast_limit

Json = dict[str, Any]
#: Shorter episodes count as noise.
SHORT_EPISODE_SECONDS = 300.0
#: An alert that fires again so soon after its end flaps.
FLAP_SECONDS = 1800.0
UNNAMED = "unnamed"
MIN_NOISY_SHARE, MIN_NOISY_EPISODES = 0.3, 5
#: Busy share from which a query has little headroom: the share of its busiest hours with a running trigger.
TIGHT_BUSY_SHARE = 0.7
SUMMED_COLUMNS = (
    "batches",
    "input_rows",
    "starts",
    "failures",
    "downtime_seconds",
    "slo_batches",
    "slo_good",
    "busy_seconds",
)


@dataclass(frozen=True)
class ReportTables:
    """Rows of `rollup_1d`, of busy hours and of runs (one per query or run), of alerts and of actions."""

    days: pd.DataFrame
    hours: pd.DataFrame
    runs: pd.DataFrame
    alerts: pd.DataFrame
    actions: pd.DataFrame


@dataclass(frozen=True)
class ReportRequest:
    """Scope of the report. Times are UTC; limits are for the state of one query."""

    lake: str
    since: datetime
    until: datetime
    queries: tuple[str, ...] = ()
    app: str | None = None
    state_rows: float | None = None
    state_bytes: float | None = None


def compute_report(tables: ReportTables, request: ReportRequest, made_at: datetime) -> Json:
    """The whole report; queries are sorted, the worst first."""
    tables = replace(
        tables, days=_fill_app(tables.days), hours=_fill_app(tables.hours), runs=_fill_app(tables.runs)
    )
    costs = restart_costs(tables.runs)
    busy = {(row["app"], row["query"]): row for row in tables.hours.to_dict("records")}
    queries = [
        _query(str(app), str(name), rows.sort_values("bucket_at"), request, costs, busy.get((app, name)))
        for (app, name), rows in tables.days.groupby(["app", "query"], sort=True)
    ]
    return {
        "made_at": made_at.isoformat(),
        "lake": request.lake,
        "since": request.since.isoformat(),
        "until": request.until.isoformat(),
        "selection": {"queries": list(request.queries), "app": request.app},
        "limits": {"state_rows": request.state_rows, "state_bytes": request.state_bytes},
        "fleet": fleet_summary(tables),
        "queries": sorted(queries, key=_severity_key),
        "alerts": alert_noise(tables.alerts),
        "actions": _actions(tables.actions),
    }


def _fill_app(rows: pd.DataFrame) -> pd.DataFrame:
    """Name applications that no log named: pandas drops rows without a group key."""
    return rows if rows.empty else rows.assign(app=rows["app"].fillna(UNNAMED))


def fleet_summary(tables: ReportTables) -> Json:
    """Sums over all queries, in total and by day."""
    days = tables.days
    by_day = (
        days.groupby(days["bucket_at"].dt.strftime("%Y-%m-%d"))[list(SUMMED_COLUMNS)].sum()
        if len(days)
        else None
    )
    return {
        "queries": len(days[["app", "query"]].drop_duplicates()),
        "apps": int(days["app"].nunique()),
        **_sums(days),
        "attainment": ratio(days["slo_good"].sum(), days["slo_batches"].sum()),
        "alerts": len(tables.alerts),
        "actions": len(tables.actions),
        "days": []
        if by_day is None
        else [
            {
                "day": day,
                "attainment": ratio(row["slo_good"], row["slo_batches"]),
                "downtime_seconds": float(row["downtime_seconds"]),
                "starts": int(row["starts"]),
                "failures": int(row["failures"]),
            }
            for day, row in by_day.to_dict("index").items()
        ],
    }


def _sums(rows: pd.DataFrame) -> Json:
    return {
        name: float(rows[name].sum()) if name.endswith("_seconds") else int(rows[name].sum())
        for name in SUMMED_COLUMNS
    }


def ratio(part: float, whole: float) -> float | None:
    """The ratio; None where the whole is 0."""
    return float(part) / float(whole) if whole > 0 else None


def _query(
    app: str,
    name: str,
    rows: pd.DataFrame,
    request: ReportRequest,
    costs: Mapping[tuple[str, str], Json],
    busy: Mapping[str, Any] | None,
) -> Json:
    newest = _newest_query_id(rows)
    lag = "lag_seconds_p95" if rows["lag_seconds_p95"].notna().any() else "lag_rows_p95"
    # State belongs to a checkpoint: figures from before the newest one do not predict the future.
    own = rows[rows["query_id"] == newest]
    by_day = rows.groupby("bucket_at", as_index=False)[[lag, "slo_good", "slo_batches"]].agg(
        {lag: "max", "slo_good": "sum", "slo_batches": "sum"}
    )
    return {
        "app": app,
        "query": name,
        "query_id": newest,
        **_sums(rows),
        "attainment": ratio(rows["slo_good"].sum(), rows["slo_batches"].sum()),
        "lag_seconds_p95": _median(rows["lag_seconds_p95"]),
        "lag_seconds_max": finite_or_none(rows["lag_seconds_max"].max()),
        "lag_rows_max": finite_or_none(rows["lag_rows_max"].max()),
        "days": [
            {
                "day": f"{row['bucket_at']:%Y-%m-%d}",
                "lag": finite_or_none(row[lag]),
                "attainment": ratio(row["slo_good"], row["slo_batches"]),
            }
            for row in by_day.to_dict("records")
        ],
        "lag_unit": "seconds" if lag == "lag_seconds_p95" else "rows",
        "lag_trend": _trend(by_day["bucket_at"], by_day[lag]),
        "state_rows": _state(own, "state_rows_max", request.state_rows),
        "state_bytes": _state(own, "state_bytes_max", request.state_bytes),
        "restarts": costs.get((app, name)),
        "headroom": headroom(busy),
    }


def _newest_query_id(rows: pd.DataFrame) -> str:
    """The newest id; of two on the last day the one that appeared later."""
    lives = rows.groupby("query_id")["bucket_at"].agg(["max", "min"])
    return str(lives.sort_values(["max", "min"]).index[-1])


def _severity_key(query: Json) -> tuple[float, float, float, str, str]:
    attained = query["attainment"]
    return (
        1.0 if attained is None else attained,
        -query["downtime_seconds"],
        -(query["lag_seconds_p95"] or 0.0),
        query["app"],
        query["query"],
    )


def _trend(at: pd.Series, values: pd.Series) -> Json | None:
    """A trend as JSON; None where there are too few days."""
    found = _fit(at, values)
    return None if found is None else _trend_json(found)


def _fit(at: pd.Series, values: pd.Series) -> DailyTrend | None:
    days = at.to_numpy("datetime64[ns]").astype("int64") / 86_400e9
    return fit_trend(days, values.to_numpy(np.float64, na_value=np.nan))


def _trend_json(found: DailyTrend) -> Json:
    expected, low, high = found.ahead(FORECAST_DAYS)
    return {
        "direction": found.direction,
        "per_day": found.slope,
        "per_day_low": found.low,
        "per_day_high": found.high,
        "level": found.level,
        "days": found.days,
        "in_30_days": expected,
        "in_30_days_low": low,
        "in_30_days_high": high,
    }


def _state(rows: pd.DataFrame, name: str, limit: float | None) -> Json | None:
    """Last value, trend and forecast; None for a query without state."""
    if not rows[name].notna().any():
        return None
    found = _fit(rows["bucket_at"], rows[name])
    until = None if limit is None else forecast_limit(found, limit)
    known = rows[rows[name].notna()]
    return {
        "last": finite_or_none(known[name].iloc[-1]),
        "trend": None if found is None else _trend_json(found),
        "limit": limit,
        "reached_in_days": None if until is None else asdict(until),
        "series": [
            {"day": f"{at:%Y-%m-%d}", "value": finite_or_none(value)}
            for at, value in zip(known["bucket_at"], known[name], strict=True)
        ],
    }


def restart_costs(runs: pd.DataFrame) -> dict[tuple[str, str], Json]:
    """Costs of restarts per query, from its runs in the order of their first trigger.

    A run whose first batch is not after the last batch of the previous run repeats it: its rows are read
    twice.
    """
    found: dict[tuple[str, str], Json] = {}
    for (app, name), rows in runs.sort_values("first_at").groupby(["app", "query"], sort=True):
        before, same = rows["last_batch"].shift(), rows["query_id"].eq(rows["query_id"].shift())
        repeated = same & rows["first_batch"].le(before)
        waits = rows["first_batch_seconds"].dropna()
        found[(str(app), str(name))] = {
            "runs": len(rows),
            "batches_repeated": int(repeated.sum()),
            "rows_repeated": int(rows.loc[repeated, "first_rows"].fillna(0).sum()),
            "first_batch_seconds_median": _median(waits),
            "first_batch_seconds_max": finite_or_none(waits.max()),
        }
    return found


def headroom(busy: Mapping[str, Any] | None) -> Json | None:
    """Share of time with a running trigger in the busiest hours, and the load factor left.

    Computed from durations alone: Spark's input and processing rates are over the same rows, so they are
    equal for a saturated query.
    """
    if busy is None or not np.isfinite(busy["busy_p95"]):
        return None
    used = float(busy["busy_p95"])
    return {
        "busy_share_p95": used,
        "busy_share_median": float(busy["busy_p50"]),
        "possible_load_factor": None if used <= 0 else 1 / min(used, 1.0),
        "tight": used >= TIGHT_BUSY_SHARE,
        "input_rows_per_second_p90": finite_or_none(busy["input_p90"]),
        "processed_rows_per_second_p50": finite_or_none(busy["processed_p50"]),
    }


def alert_noise(alerts: pd.DataFrame) -> list[Json]:
    """Per rule: how often it fired, and how much of that was short-lived or flapping. The noisiest first."""
    if alerts.empty:
        return []
    rows = alerts.sort_values(["fingerprint", "fired_at"]).copy()
    rows["seconds"] = (rows["resolved_at"] - rows["fired_at"]).dt.total_seconds()
    since_previous = (
        rows["fired_at"] - rows.groupby("fingerprint")["resolved_at"].shift()
    ).dt.total_seconds()
    rows["short"], rows["flaps"] = rows["seconds"] < SHORT_EPISODE_SECONDS, since_previous < FLAP_SECONDS
    found = [_rule(str(name), item) for name, item in rows.groupby("name", sort=True)]
    return sorted(found, key=lambda item: (-item["noise"], -item["episodes"], item["name"]))


def _rule(name: str, rows: pd.DataFrame) -> Json:
    episodes, noisy = len(rows), int((rows["short"] | rows["flaps"]).sum())
    return {
        "name": name,
        "severity": next((str(row) for row in rows["severity"] if isinstance(row, str)), None),
        "episodes": episodes,
        "queries": int(rows["query_id"].nunique()),
        "notified": int(rows["notified"].sum()),
        "firing": int(rows["resolved_at"].isna().sum()),
        "seconds_median": _median(rows["seconds"]),
        "short_lived": int(rows["short"].sum()),
        "flapping": int(rows["flaps"].sum()),
        "noise": noisy,
        "noisy": episodes >= MIN_NOISY_EPISODES and noisy >= MIN_NOISY_SHARE * episodes,
    }


def _actions(actions: pd.DataFrame) -> list[Json]:
    if actions.empty:
        return []
    counted = actions.groupby(["action", "state"]).size()
    return [{"action": a, "state": s, "count": int(n)} for (a, s), n in counted.items()]


def _median(values: pd.Series) -> float | None:
    """The median of the known values; numpy warns where there is none."""
    known = values.dropna()
    return finite_or_none(known.median()) if len(known) else None


def finite_or_none(value: Any) -> float | None:
    """The value for JSON; None where it is unknown or not finite."""
    return None if value is None or pd.isna(value) or not math.isfinite(value) else float(value)
