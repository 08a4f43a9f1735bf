"""JSON as the server answers it, built by hand: `fleet_query`, `detail`, `point`, `run`, `action`.

Every builder takes overrides; the values are plausible for a live query of a ten-second trigger.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from ui.kit.statuses import STATUSES

NOW = 1_795_000_000.0  # 2026-11-18T11:06:40Z


def rfc3339(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def query_id(number: int) -> str:
    return f"{number:08x}-1111-4222-8333-444455556666"


def fleet_query(number: int = 1, now: float = NOW, **overrides: Any) -> dict[str, Any]:
    """One row of the fleet: a running query that reads 1 200 rows a second and lags by 40."""
    wave = [0.62 + 0.2 * math.sin(number + step / 3) for step in range(30)]
    return {
        "query_id": query_id(number),
        "app": "orders",
        "name": f"query-{number}",
        "status": "running",
        "reason": "batch 1233 took 0.6 s of a 10 s trigger, 40 rows behind",
        "since": rfc3339(now - 7200 - number),
        "run_id": f"{number:08x}-aaaa-4bbb-8ccc-ddddeeeeffff",
        "batch_id": 1233,
        "labels": {"team": "payments"},
        "alerts": 0,
        "agent": "5f0c8f6e-0000-4000-8000-000000000001",
        "spark_version": "4.3.0",
        "ui_url": "http://driver-1:4040",
        "trigger": "processing_time",
        "trigger_interval_seconds": 10.0,
        "last_progress_at": rfc3339(now - 4),
        "last_event_at": rfc3339(now - 2),
        "arrival_rows_per_second": 1740.0,
        "input_rows_per_second": 1210.0,
        "processed_rows_per_second": 1893.4,
        "batch_duration_seconds": 0.62,
        "lag_rows": 40,
        "lag_seconds": 0.8,
        "state_rows": 184_000,
        "state_bytes": 96_000_000,
        "watermark": rfc3339(now - 65),
        "starts": 2,
        "actions_allowed": "all",
        "restart": {"how": "reuse", "reason": "started by this driver with the same writer"},
        "action": None,
        "recent": {
            "batch_duration_seconds": [round(value, 3) for value in wave],
            "lag_rows": [round(abs(math.sin(number + step / 4)) * 60) for step in range(30)],
            "processed_rows_per_second": [1800 + 90 * math.sin(step / 2) for step in range(30)],
        },
        **overrides,
    }


def fleet(queries: list[dict[str, Any]], now: float = NOW) -> dict[str, Any]:
    """As the server answers: worst first."""
    worst = {name: place for place, name in enumerate(STATUSES)}
    queries = sorted(queries, key=lambda q: (worst[q["status"]], q["app"], q["name"] or "", q["query_id"]))
    counts: dict[str, int] = {}
    for query in queries:
        counts[query["status"]] = counts.get(query["status"], 0) + 1
    return {"as_of": rfc3339(now), "counts": counts, "queries": queries}


def detail(number: int = 1, now: float = NOW, **overrides: Any) -> dict[str, Any]:
    """Everything the Query page asks for, but the series."""
    return {
        **fleet_query(number, now),
        "runs": [run(2, now), run(1, now, ended=now - 7300, end="failed", failure=failure())],
        "sources": [source()],
        "sink": {"description": "DeltaSink[s3://lake/orders]", "numOutputRows": 6200},
        "operators": [
            {
                "operatorName": "stateStoreSave",
                "numRowsTotal": 184_000,
                "memoryUsedBytes": 96_000_000,
                "customMetrics": {"rocksdbSstFileSize": 340_000_000},
            }
        ],
        "facts": {
            "trigger": "processing_time",
            "trigger_interval": 10.0,
            "checkpoint": "s3://lake/checkpoints/orders",
            "output_mode": "append",
            "restart": "reuse",
        },
        "agent_info": {
            "agent": "5f0c8f6e-0000-4000-8000-000000000001",
            "app": "orders",
            "spark_version": "4.3.0",
            "master": "spark://master:7077",
            "ui_url": "http://driver-1:4040",
            "last_seen_at": rfc3339(now - 3),
            "host": {
                "at": rfc3339(now - 3),
                "of_client": False,
                "load": 2.53,
                "cpus": 8.0,
                "cpu_limit": 1.5,
                "throttled_ratio": 0.04,
                "memory_pressure": 0.0,
                "memory_total": 8e9,
                "memory_available": 3.4e9,
                "overload": None,
            },
        },
        "failure": None,
        "changes": [
            {
                "at": rfc3339(now - 7200),
                "status": "running",
                "reason": "batch 901 committed after the restart",
            },
            {"at": rfc3339(now - 7260), "status": "restarting", "reason": "restart requested by ada"},
            {"at": rfc3339(now - 7300), "status": "failed", "reason": "the run ended with STREAM_FAILED"},
        ],
        "actions": [action(1, now, state="succeeded", reason="resumed at batch 901", finished_at=now - 7180)],
        "latest_progress": {"id": query_id(number), "batchId": 1233, "sources": [], "numInputRows": 6200},
        "superseded_by": None,
        **overrides,
    }


def source(**overrides: Any) -> dict[str, Any]:
    return {
        "description": "KafkaV2[Subscribe[orders]]",
        "start_offset": {"orders": {"0": 90_100, "1": 90_020}},
        "end_offset": {"orders": {"0": 93_200, "1": 93_120}},
        "latest_offset": {"orders": {"0": 93_220, "1": 93_140}},
        "lag_rows": 40,
        "input_rows": 6200,
        "arrival_rows_per_second": 1740.0,
        "input_rows_per_second": 1210.0,
        "processed_rows_per_second": 1893.4,
        "metrics": {"avgOffsetsBehindLatest": "20.0"},
        **overrides,
    }


def failure(**overrides: Any) -> dict[str, Any]:
    return {
        "condition": "FAILED_READ_FILE.FILE_NOT_EXIST",
        "message": "Encountered error while reading file s3://lake/in/part-7.parquet. File does not exist.",
        "root_cause": "java.io.FileNotFoundException: No such file or directory: s3://lake/in/part-7.parquet",
        "retry": "once",
        "advice": "A file of the source vanished between listing and reading. Restart once; if it fails "
        "again find out which job deletes the source's files.",
        "text": "org.apache.spark.sql.streaming.StreamingQueryException: …\n\tat org.apache.spark…",
        **overrides,
    }


def run(number: int, now: float = NOW, ended: float | None = None, **overrides: Any) -> dict[str, Any]:
    return {
        "run_id": f"{number:08x}-aaaa-4bbb-8ccc-ddddeeeeffff",
        "started_at": rfc3339(now - 7200 if ended is None else ended - 9000),
        "ended_at": None if ended is None else rfc3339(ended),
        "end": None,
        "first_batch_id": 901 if ended is None else 0,
        "last_batch_id": 1233 if ended is None else 900,
        "batches": 333 if ended is None else 901,
        "agent": "5f0c8f6e-0000-4000-8000-000000000001",
        "failure": None,
        **overrides,
    }


def action(number: int = 1, now: float = NOW, **overrides: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": f"{number:08x}-act0-4000-8000-000000000000",
        "query_id": query_id(1),
        "app": "orders",
        "name": "query-1",
        "action": "restart",
        "drain": False,
        "overrides": {},
        "actor": "ada",
        "state": "requested",
        "reason": "",
        "request_reason": "memory grows",
        "evidence": {},
        "requested_at": now - 7260,
        "delivered_at": None,
        "finished_at": None,
        "deadline_at": now - 7140,
        "agent": "5f0c8f6e-0000-4000-8000-000000000001",
        **overrides,
    }
    times = ("requested_at", "delivered_at", "finished_at", "deadline_at")
    return {key: rfc3339(value) if key in times and value else value for key, value in fields.items()}


def point(at: float, batch_id: int, **overrides: Any) -> dict[str, Any]:
    """One point of a query's series."""
    add_batch = 420 + 160 * math.sin(batch_id / 9)
    return {
        "at": rfc3339(at),
        "trigger_at": rfc3339(at - 0.7),
        "run_id": "00000002-aaaa-4bbb-8ccc-ddddeeeeffff",
        "batch_id": batch_id,
        "batch_duration_seconds": (add_batch + 190) / 1000,
        "phases_ms": {
            "addBatch": round(add_batch),
            "queryPlanning": 34,
            "walCommit": 61,
            "commitOffsets": 48,
            "latestOffset": 22,
            "getBatch": 2,
            "triggerExecution": round(add_batch) + 190,
        },
        "input_rows": 12_000 + round(3000 * math.sin(batch_id / 14)),
        "arrival_rows_per_second": 1740.0,
        "input_rows_per_second": 1200 + 300 * math.sin(batch_id / 14),
        "processed_rows_per_second": 1900 + 240 * math.cos(batch_id / 11),
        "lag_rows": max(0, round(900 * math.sin(batch_id / 30))),
        "output_rows": 6000,
        "state_rows": 120_000 + batch_id * 50,
        "state_bytes": 60_000_000 + batch_id * 26_000,
        "watermark": rfc3339(at - 65),
        **overrides,
    }


def series(now: float = NOW, count: int = 120, every: float = 10.0, last_batch: int = 1233) -> dict[str, Any]:
    durations = range(count - 1, -1, -1)
    return {"progress": [point(now - 4 - age * every, last_batch - age) for age in durations]}


HOSTILE = (
    "![x](http://evil.example/p.png)<img src=x onerror=alert(1)> :red[x] "
    "[a](javascript:alert(1)) $y^2$ :smile:"
)


def troubled_fleet(now: float = NOW) -> list[dict[str, Any]]:
    """A fleet with every kind of trouble, worst first, as the server sorts it."""
    rows: list[dict[str, Any]] = [
        fleet_query(
            1,
            now,
            name="orders-enriched",
            status="failed",
            batch_id=4410,
            reason="the run ended with FAILED_READ_FILE.FILE_NOT_EXIST: a file of the source vanished",
            processed_rows_per_second=None,
            lag_rows=None,
            lag_seconds=None,
            last_progress_at=rfc3339(now - 312),
            since=rfc3339(now - 310),
        ),
        fleet_query(
            2,
            now,
            app="billing",
            name="invoices",
            status="lost",
            reason="Lost: no heartbeat from the driver for 2 min 11 s (expected every 10 s).",
            processed_rows_per_second=None,
            last_progress_at=rfc3339(now - 141),
            lag_seconds=None,
        ),
        fleet_query(
            3,
            now,
            app="clicks",
            name="sessions",
            status="stuck",
            reason="Stuck: batch 88 has run for 14 min 2 s and no task has finished for 9 min 40 s.",
            batch_duration_seconds=842.0,
            lag_rows=1_240_000,
            lag_seconds=880.0,
            state_rows=48_200_000,
            last_progress_at=rfc3339(now - 842),
        ),
        fleet_query(
            4,
            now,
            app="clicks",
            name="pageviews-to-lake",
            status="lagging",
            reason="84k rows behind and growing: 5.1k/s arrive, 3.2k/s are processed",
            lag_rows=84_300,
            lag_seconds=26.4,
            batch_duration_seconds=12.8,
            recent={
                "batch_duration_seconds": [4 + n * 0.3 for n in range(30)],
                "lag_rows": [n * n * 94 for n in range(30)],
                "processed_rows_per_second": [],
            },
        ),
        fleet_query(
            5,
            now,
            app="fraud",
            name="score-transactions",
            status="busy",
            reason="Busy: batch 310 has run for 48 s; the last task finished 1 s ago.",
            batch_duration_seconds=31.0,
        ),
        fleet_query(
            6,
            now,
            app="fraud",
            name="features",
            status="restarting",
            reason="Restarting: requested by ada 4 s ago, delivered to the driver.",
        ),
        fleet_query(
            7,
            now,
            app="billing",
            name="ledger",
            status="stopped",
            reason="stopped by grace: schema change",
            processed_rows_per_second=None,
            lag_rows=None,
            lag_seconds=None,
            batch_duration_seconds=None,
            last_progress_at=rfc3339(now - 90_000),
            recent={"batch_duration_seconds": [], "lag_rows": [], "processed_rows_per_second": []},
        ),
    ]
    apps = ("orders", "clicks", "fraud", "billing", "iot")
    names = ("dedup", "join-users", "aggregate-5m", "to-delta", "alerts-topic", "geo", "totals", "audit-log")
    rows += [
        fleet_query(10 + n, now, app=apps[n % 5], name=f"{names[n % 8]}-{n}", lag_rows=(n * 37) % 400,
                    processed_rows_per_second=400.0 * (n + 1), state_rows=None if n % 3 else 12_000 * n)
        for n in range(24)
    ]  # fmt: skip
    rows.append(
        fleet_query(
            50,
            now,
            app="iot",
            name=HOSTILE,
            status="idle",
            reason=f"Idle: no new data for 4 min 10 s. {HOSTILE}",
            processed_rows_per_second=0.0,
        )
    )
    return rows


def capacity() -> dict[str, Any]:
    """The capacity of a query that has everything."""
    return {
        "as_of": "2026-11-22T10:00:00Z",
        "unknown": None,
        "throughput": {
            "busy_ratio": 0.42,
            "headroom_rows_per_second": 180.0,
            "capacity_is_lower_bound": True,
            "catch_up_seconds": 90.0,
            "sentence": "Busy 42% of the last 15 min; 120 rows a second arrive.",
        },
        "bottleneck": {
            "part": "tasks",
            "ratio": 0.75,
            "sentence": "Most of a batch is tasks.",
            "parts": [
                {"part": "tasks", "seconds": 1.5, "ratio": 0.75},
                {"part": "logs", "seconds": 0.5, "ratio": 0.25},
            ],
        },
        "retention": {"left_seconds": 18_000.0, "sentence": "Unread rows are deleted in 5 h."},
        "state": [{"unit": "rows", "earliest_seconds": 6600.0, "sentence": "The state reaches its limit."}],
        "advice": [
            {
                "setting": "spark.sql.shuffle.partitions",
                "now": "200",
                "advice": "Set it to 2 to 4.",
                "reason": "Each batch runs 200 state tasks on 2 cores.",
                "needs_new_checkpoint": True,
            }
        ],
    }


def what_changed() -> dict[str, Any]:
    """What changed before the trouble of a query."""
    started = {"at": "2026-11-22T09:57:30Z", "kind": "start", "sentence": "Run 5c8f03aa started."}
    return {"before": "2026-11-22T10:00:00Z", "searched_seconds": 21_600.0, "changes": [started]}


def tokens() -> list[dict[str, Any]]:
    """A token of each kind: valid, bound and expiring, revoked."""
    plain = {"app": None, "may_impersonate": False, "created_at": rfc3339(NOW - 864_000)}
    rest: dict[str, Any] = {"expires_at": None, "revoked_at": None}
    agent = {"app": "orders", "expires_at": rfc3339(9e9)}
    return [
        {"id": "1", "name": "old", "role": "admin", "prefix": "cp_admin_aaaaaa", **plain, **rest}
        | {"revoked_at": rfc3339(NOW - 60)},
        {"id": "2", "name": "local admin", "role": "admin", "prefix": "cp_admin_bbbbbb", **plain, **rest},
        {"id": "3", "name": "orders agent", "role": "agent", "prefix": "cp_agent_cccccc", **plain, **rest}
        | agent,
    ]


def policies() -> dict[str, Any]:
    """The built-in policies."""
    text = "policies:\n  - name: default\n    mode: observe\n"
    return {
        "version": 0,
        "applied_at": None,
        "applied_by": "",
        "reason": "",
        "text": text,
        "policies": [{"name": "default", "match": [], "mode": "observe", "restart": {}, "queries": 7}],
        "conditions": {},
        "history": [],
    }
