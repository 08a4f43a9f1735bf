"""A lake of a fleet over weeks, grown from a seed: rollups, runs, alerts and actions, as a report reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from controlplane.lake.lake import Lake
from controlplane.lake.schema import TABLES, arrow_schema

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
HOSTILE = "<script>document.title='owned'</script> & \"orders\" $x^2$ {{ 7*7 }}"
APPS = ("checkout", "search", "billing", "fraud")
KINDS = (
    "orders",
    "clicks",
    "sessions",
    "payments",
    "refunds",
    "stock",
    "prices",
    "emails",
    "carts",
    "visits",
)


def names(queries: int) -> list[tuple[str, str, str]]:
    """Application, name and id of each query; the first is hostile."""
    made = [
        (
            APPS[n % 4],
            f"{KINDS[n % 10]}-{'by-region' if n % 3 else 'enriched'}-{n}",
            f"{n:08}-aaaa-bbbb-cccc-1234",
        )
        for n in range(queries)
    ]
    return [("<b>shop</b>", HOSTILE, made[0][2]), *made[1:]]


def grow(url: str, queries: int = 40, days: int = 30, seed: int = 7) -> Lake:
    """Queries 1 and 2 grow in state, 3 in lag, 4 misses much, 5 restarts often, 6 has no space left."""
    chance, lake = np.random.default_rng(seed), Lake.open(url, create=True)
    for day in range(days):
        at = BEGIN + timedelta(days=day)
        hours = [
            _bucket(n, ids, day, hour, chance) for n, ids in enumerate(names(queries)) for hour in range(24)
        ]
        for row in hours:
            row["bucket_at"] = at + timedelta(hours=row.pop("hour"))
        put(lake, "rollup_1h", f"{at:%Y-%m-%d}", "rollup_1h", hours)
        put(lake, "rollup_1d", f"{at:%Y-%m-%d}", "rollup_1d", _days(hours, at))
    put(lake, "offload", "alerts", "alerts", list(_alerts(queries, days, chance)))
    put(lake, "offload", "actions", "actions", list(_actions(queries, days, chance)))
    _runs(lake, queries, days)
    return lake


def put(lake: Lake, job: str, batch: str, table: str, rows: list[dict[str, Any]]) -> None:
    staging = lake.stage(job, batch)
    lake.commit(staging, staging.write(table, pa.Table.from_pylist(rows, schema=arrow_schema(table)), "0"))


def _bucket(n: int, ids: tuple[str, str, str], day: int, hour: int, chance: Any) -> dict[str, Any]:
    busy = {6: 0.97}.get(n, 0.08 + 0.5 * ((n * 37) % 40) / 40) * (0.7 + 0.3 * np.sin((hour - 6) / 24 * 6.283))
    lag = (2 + n % 9) * chance.lognormal(0, 0.3) + (12.0 * (day + hour / 24) if n == 3 else 0)
    missed = {4: 0.08, 3: 0.01}.get(n, 0.0004)
    down = 900.0 if n == 5 and hour in (3, 15) else 240.0 if chance.random() < 0.002 else 0.0
    state = {1: 2e6 + 90_000 * (day + hour / 24), 2: 4e5 + 12_000 * (day + hour / 24)}.get(
        n, 1e5 + 3e4 * (n % 5)
    )
    stateful = n % 2 == 0 or n in (1, 3)
    return {
        "hour": hour, "app": ids[0], "query": ids[1], "query_id": ids[2], "batches": 360, "input_rows": 360 * 500,
        "busy_seconds": 3600 * busy, "slo_batches": 360, "slo_good": 360 - int(chance.binomial(360, missed)),
        "lag_seconds_p95": lag, "lag_seconds_max": lag * 3, "lag_rows_p95": lag * 500, "lag_rows_max": lag * 900,
        "state_rows_max": state * chance.normal(1, 0.02) if stateful else None,
        "state_bytes_max": state * 240 * chance.normal(1, 0.02) if stateful else None,
        "starts": int(down > 0), "failures": int(down > 300), "downtime_seconds": down,
        "input_rows_per_second_p90": 60.0, "processed_rows_per_second_p50": 60 / max(busy, 0.01),
    }  # fmt: skip


def _days(hours: list[dict[str, Any]], at: datetime) -> list[dict[str, Any]]:
    days: dict[str, dict[str, Any]] = {}
    for row in hours:
        day = days.setdefault(row["query_id"], {**row, "bucket_at": at})
        if day["bucket_at"] == at and row["bucket_at"] != at:
            for name, value in row.items():
                if name in ("batches", "input_rows", "busy_seconds", "starts", "failures", "downtime_seconds",
                            "slo_batches", "slo_good"):  # fmt: skip
                    day[name] += value
                elif name.endswith(("_max", "_p95")) and value is not None:
                    day[name] = max(day[name], value)
    return list(days.values())


def _alerts(queries: int, days: int, chance: Any) -> Any:
    rules = [("QueryLagging", 40, 4000, "warning"), ("QueryRestartLoop", 14, 120, "critical"),
             ("BatchSlow", 130, 200, "info"), ("QueryFailed", 9, 1500, "critical")]  # fmt: skip
    known = names(queries)
    for name, count, seconds, severity in rules:
        for number in range(count):
            app, query, query_id = known[3 + number % 5]
            fired = BEGIN + timedelta(seconds=float(chance.uniform(0, days * 86400)))
            lasted = timedelta(seconds=float(seconds * chance.lognormal(0, 0.5)))
            yield {
                "key": hash((name, number)) % 10**9, "name": name, "severity": severity, "app": app, "query": query,
                "query_id": query_id, "fingerprint": f"{name}-{query_id}", "fired_at": fired,
                "resolved_at": fired + lasted, "notified": 1 + int(seconds > 1000),
            }  # fmt: skip


def _actions(queries: int, days: int, chance: Any) -> Any:
    for number in range(25):
        app, query, query_id = names(queries)[5]
        yield {
            "id": str(number), "app": app, "query": query, "query_id": query_id, "actor": "ada",
            "action": ("restart", "stop", "start")[number % 3], "state": "verified" if number % 5 else "failed",
            "requested_at": BEGIN + timedelta(seconds=float(chance.uniform(0, days * 86400))),
        }  # fmt: skip


def _runs(lake: Lake, queries: int, days: int) -> None:
    """Two runs a day of query 5, each of which does the last batch of the one before again."""
    app, query, query_id = names(queries)[5]
    reports, starts, batch = [], [], 0
    for number in range(days * 2):
        run, at = f"run-{number}", BEGIN + timedelta(hours=12 * number + 3, minutes=15)
        base = {"app": app, "query_id": query_id, "run_id": run, "name": query, "origin": "agent"}
        starts.append({**base, "event": "started", "reported_at": at})
        for step in range(4):
            begun = at + timedelta(seconds=8 + 10 * step)
            reports.append({**base, "batch_id": batch + step, "trigger_at": begun, "input_rows": 500,
                            "reported_at": begun + timedelta(seconds=4)})  # fmt: skip
        batch += 3
    for table, rows in (("progress", reports), ("lifecycle", starts)):
        known = set(TABLES[table].names)
        put(
            lake,
            "ingest",
            f"q-{table}",
            table,
            [{k: v for k, v in row.items() if k in known} for row in rows],
        )
