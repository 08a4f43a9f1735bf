"""JSON of the alerting API, built by hand: `alert`, `silence`, `note`, `rule`, `group`, and a troubled set.

As in `factories` every builder takes overrides. Hostile texts are among them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from tests.ui.factories import HOSTILE, NOW, query_id, rfc3339

Json = dict[str, Any]

RTL = "\u202eexe.gpj\u202c"
HUGE = "x" * 10_000


def fingerprint(labels: Mapping[str, str]) -> str:
    return hashlib.sha256(repr(sorted(labels.items())).encode()).hexdigest()[:16]


def alert(name: str = "LagGrowing", now: float = NOW, **overrides: Any) -> Json:
    """A firing alert of query 4, active for seven minutes, notified two minutes ago."""
    severity = overrides.get("severity", "warning")
    app, query = overrides.get("app", "clicks"), overrides.get("query", "pageviews-to-lake")
    identity = overrides.pop("query_id", query_id(4))
    extra = overrides.pop("extra", {})
    known = {"alertname": name, "app": app, "query": query, "query_id": identity, "severity": severity}
    labels = {**{key: value for key, value in known.items() if value}, "layer": "lag", **extra}
    fields: Json = {
        "fingerprint": fingerprint(labels),
        "name": name,
        "state": "firing",
        "severity": severity,
        "labels": labels,
        "annotations": {
            "summary": f"{query} falls behind its source",
            "description": f"84.2k rows of orders wait for {query} of {app}, and they become more.",
            "runbook_url": f"https://runbooks.example/{name}.md",
        },
        "value": 84_213.0,
        "app": app,
        "query": query,
        "query_id": identity,
        "group": "streaming-progress",
        "rule": name,
        "active_at": rfc3339(now - 540),
        "fired_at": rfc3339(now - 420),
        "resolved_at": None,
        "reason": "the condition holds for 540 s, 120 s are asked for",
        "silenced_by": [],
        "inhibited_by": [],
        "acknowledged": None,
        "receivers": ["on-call"],
        "notified": {
            "at": rfc3339(now - 120),
            "receiver": "on-call",
            "reason": "1 alert fires. First notification.",
        },
    }
    return {**fields, **overrides}


def silence(number: int = 1, now: float = NOW, **overrides: Any) -> Json:
    fields: Json = {
        "id": f"{number:08x}-51le-4000-8000-000000000000",
        "matchers": [{"name": "app", "operator": "=", "value": "billing"}],
        "text": '{app="billing"}',
        "starts_at": rfc3339(now - 1800),
        "ends_at": rfc3339(now + 5400),
        "created_by": "grace@example.com",
        "comment": "upgrade of the billing brokers",
        "state": "active",
        "updated_at": rfc3339(now - 1800),
        "alerts": 0,
    }
    return {**fields, **overrides}


def note(now: float = NOW, **overrides: Any) -> Json:
    fields: Json = {
        "at": rfc3339(now - 120),
        "receiver": "on-call",
        "group_key": '{}/{severity="critical"}:{alertname="LagGrowing", app="clicks"}',
        "outcome": "sent",
        "reason": "1 alert fires. First notification.",
        "alerts": 1,
        "fingerprints": [],
    }
    return {**fields, **overrides}


def rule(name: str = "LagGrowing", now: float = NOW, **overrides: Any) -> Json:
    fields: Json = {
        "name": name,
        "kind": "alert",
        "meaning": "Warning. The backlog has grown for 10 minutes." if name == "LagGrowing" else "",
        "expr": (
            "spark_streaming_source_lag_rows > spark_streaming_source_lag_rows offset 10m\n  and\n"
            "deriv(spark_streaming_source_lag_rows[10m]) > 0\n  and\nspark_streaming_source_lag_seconds > 60"
        ),
        "for_seconds": 600.0,
        "keep_firing_for_seconds": 1200.0,
        "labels": {"severity": "warning", "layer": "lag"},
        "annotations": {"summary": "{{ $labels.query }} falls behind its source"},
        "line": 131,
        "state": "inactive",
        "firing": 0,
        "pending": 0,
        "health": "ok",
        "error": None,
        "evaluated_at": rfc3339(now - 4),
        "evaluation_seconds": 0.0021,
    }
    return {**fields, **overrides}


def group(name: str, rules: Sequence[Json], now: float = NOW, **overrides: Any) -> Json:
    fields: Json = {
        "name": name,
        "key": f"streaming.yaml;{name}",
        "file": "streaming.yaml",
        "interval_seconds": 15.0,
        "evaluated_at": rfc3339(now - 4),
        "evaluation_seconds": 0.0094,
        "missed": 0,
        "rules": list(rules),
    }
    return {**fields, **overrides}


def troubled_alerts(now: float = NOW) -> list[Json]:
    """Alerts of every state and kind of muting, hostile ones among them."""
    failed = alert(
        "QueryFailed",
        now,
        severity="critical",
        app="orders",
        query="orders-enriched",
        query_id=query_id(1),
        fired_at=rfc3339(now - 95),
        active_at=rfc3339(now - 95),
        value=1.0,
        group="streaming-availability",
        annotations={
            "summary": "orders-enriched of orders has failed",
            "description": "orders-enriched ended with an exception and nothing starts it again by itself.",
            "runbook_url": "alerts/rules/runbooks/QueryFailed.md",
        },
        reason="the condition holds",
    )
    stuck = alert(
        "Stuck",
        now,
        severity="critical",
        app="clicks",
        query="sessions",
        query_id=query_id(3),
        fired_at=rfc3339(now - 580),
        acknowledged={
            "by": "ada@example.com",
            "at": rfc3339(now - 300),
            "comment": "looking at the executors",
        },
        annotations={"summary": "sessions of clicks hangs", "description": "No task has finished for 9 min."},
    )
    lag = alert(now=now)
    silenced = alert(
        "LagSecondsHigh",
        now,
        app="billing",
        query="invoices",
        query_id=query_id(7),
        silenced_by=[silence(1, now)["id"]],
        notified=None,
        annotations={"summary": "invoices is 22 min behind"},
    )
    inhibited = alert(
        "Overrun",
        now,
        app="orders",
        query="orders-enriched",
        query_id=query_id(1),
        inhibited_by=[{"fingerprint": failed["fingerprint"], "name": "QueryFailed"}],
        notified=None,
        annotations={"summary": "Batches of orders-enriched take longer than its trigger interval"},
    )
    pending = alert(
        "LongBatch",
        now,
        state="pending",
        app="orders",
        query="dedup-16",
        query_id=query_id(16),
        active_at=rfc3339(now - 45),
        fired_at=None,
        notified=None,
        reason="the condition holds for 45 s of 120 s",
        annotations={"summary": "A batch of dedup-16 takes long"},
    )
    resolved = alert(
        "WatermarkStuck",
        now,
        state="resolved",
        query="windows-9",
        query_id=query_id(9),
        resolved_at=rfc3339(now - 240),
        fired_at=rfc3339(now - 1500),
        active_at=rfc3339(now - 1800),
        annotations={"summary": "The watermark of windows-9 stands still"},
        reason="the condition holds no more",
    )
    return [failed, stuck, lag, hostile_alert(now), silenced, inhibited, pending, resolved]


def hostile_alert(now: float = NOW, **overrides: Any) -> Json:
    """One whose every text wants to be more than text."""
    fields: Json = {
        "severity": "info",
        "app": f"app {RTL}",
        "query": HOSTILE,
        "query_id": query_id(50),
        "extra": {"team": f"<script>alert('label')</script>{HOSTILE}", "huge": HUGE},
        "annotations": {
            "summary": f"<script>alert('summary')</script> {HOSTILE} {RTL}",
            "description": f"# not a heading {HOSTILE} <iframe src=http://evil.example></iframe>",
            "runbook_url": "javascript:alert('runbook')",
        },
        "reason": HOSTILE,
        "receivers": [HOSTILE],
        "notified": {"at": rfc3339(now - 60), "receiver": HOSTILE, "reason": HOSTILE},
        "fired_at": rfc3339(now - 3900),
    }
    return alert(":material/delete: [Evil](http://evil.example)", now, **{**fields, **overrides})


def shipped_groups(now: float = NOW) -> list[Json]:
    lifecycle = [
        rule(
            "QueryFailed",
            now,
            expr='spark_streaming_query_status{status="failed"} == 1',
            for_seconds=0.0,
            keep_firing_for_seconds=0.0,
            labels={"severity": "critical", "layer": "query"},
            annotations={"summary": "{{ $labels.query }} of {{ $labels.app }} has failed"},
            state="firing",
            firing=1,
            line=41,
        ),
        rule(
            "Stuck",
            now,
            expr='spark_streaming_query_status{status="stuck"} == 1',
            for_seconds=0.0,
            keep_firing_for_seconds=0.0,
            labels={"severity": "critical", "layer": "stuck"},
            annotations={"summary": "{{ $labels.query }} of {{ $labels.app }} hangs"},
            state="firing",
            firing=1,
            line=88,
        ),
    ]
    progress = [
        rule("LongBatch", now, state="pending", pending=1, for_seconds=120.0),
        rule("LagGrowing", now, state="firing", firing=1),
        rule(
            "Overrun",
            now,
            health="err",
            error=f"many-to-many matching not allowed: {HOSTILE}",
            evaluated_at=rfc3339(now - 34),
        ),
        rule(
            "app:spark_streaming_input_rows:rate5m",
            now,
            kind="record",
            expr="sum by (app) (rate(spark_streaming_input_rows_total[5m]))",
            for_seconds=0.0,
            keep_firing_for_seconds=0.0,
            labels={},
            annotations={},
        ),
    ]
    slow = {"interval_seconds": 30.0, "missed": 3, "evaluation_seconds": 1.27}
    return [
        group("streaming-availability", lifecycle, now),
        group("streaming-progress", progress, now, **slow),
    ]
