"""The Server page's rows: what is slow, what was refused, and who delivers."""

from typing import Any

from tests.ui.factories import NOW, rfc3339
from ui.server import figures
from ui.server.figures import STAGES

FIGURES = {
    "controlplane_ingest_waiting_events": 12.0,
    "controlplane_rule_slot_lateness_seconds": 40.0,
    "controlplane_notifications_failed_total": 2.0,
    "controlplane_store_bytes": 3.4e9,
    "controlplane_agents": 495.0,
}
SERVER: dict[str, Any] = {
    "address": "http://a:8420",
    "role": "active",
    "since": NOW,
    "version": "1.2",
    "queries": 12,
    "figures": FIGURES,
    "limits": {"retention_bytes": 1e10, "max_agents": 500, "max_queries_per_app": 10, "max_queries": None},
    "refused": [{"quota": "max_queries_per_app", "app": "web", "count": 3}],
}


def by_key(rows: list[Any]) -> dict[str, list[Any]]:
    return {row.key: list(row.cells) for row in rows}


def test_a_stage_above_its_limit_is_slow_and_the_limit_is_stated() -> None:
    found = by_key(figures.stages(SERVER))
    assert len(found) == 3  # a server reports what it knows
    assert found["ingest_waiting_events"][1:] == [
        {"text": "OK", "pill": "green"},
        "Events received and not yet written to the store.",
        "12 events",
    ]
    assert found["rule_slot_lateness_seconds"][1]["text"] == "Slow"
    assert found["rule_slot_lateness_seconds"][2].endswith("The limit is 15 s.")
    assert found["notifications_failed_total"][1] == {"text": "Above 0", "pill": "orange"}


def test_the_server_metrics_of_the_stages_are_reported() -> None:
    from controlplane.metrics.series.service import OWN_METRICS

    assert {f"controlplane_{stage.metric}" for stage in STAGES} <= OWN_METRICS


def test_a_server_is_active_standby_or_away_in_a_sentence() -> None:
    away = {"address": "http://c", "error": "No connection to the server at http://c."}
    standby = {"address": "http://b", "role": "standby", "active": "http://a:8420"}
    found = by_key(figures.servers([SERVER, standby, away]))
    assert found["http://a:8420"][1:5] == [
        {"text": "Active", "pill": "green"}, "Slow: Slot lateness.", "12", "3.4 GB",
    ]  # fmt: skip
    assert found["http://b"][2] == "Standby of http://a:8420."
    assert found["http://c"][1:3] == [{"text": "No answer", "pill": "red"}, away["error"]]


def test_limits_name_the_applications_that_were_refused() -> None:
    found = by_key(figures.limits(SERVER))
    assert found["retention_bytes"][3:] == ["3.4 GB", "10 GB"]
    assert found["max_agents"][1]["text"] == "Near"
    assert found["max_queries_per_app"][1]["text"] == "Refusing"
    assert found["max_queries_per_app"][2].endswith("Refused since the start: web (3).")
    assert "max_queries" not in found


def test_a_receiver_fails_delivers_or_is_empty() -> None:
    webhook = {"name": "webhook 1", "failing_since": None, "error": None}
    broken = {"name": "webhook 2", "failing_since": rfc3339(NOW), "error": "HTTP 500"}
    sent = [{"receiver": "ops", "outcome": "sent", "at": rfc3339(NOW - age)} for age in (60, 5)]
    found = by_key(
        figures.receivers(
            [
                {"name": "ops", "routed": True, "integrations": [webhook]},
                {"name": "page", "routed": True, "integrations": [webhook, broken]},
                {"name": "null", "routed": False, "integrations": []},
            ],
            [*sent, {"receiver": "page", "outcome": "failed", "at": rfc3339(NOW)}],
        )
    )
    assert found["ops"][1:] == [{"text": "Delivers", "pill": "green"}, "webhook 1", {"at": round(NOW - 5)}]
    assert found["page"][1:3] == [{"text": "Failing", "pill": "red"}, "webhook 2 fails: HTTP 500; webhook 1"]
    assert found["null"][2] == "None: it delivers nothing. No route leads to it."
