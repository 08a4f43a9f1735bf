"""Incidents as the API shows them: one that is open, of a sink, and one of a driver that has ended."""

from __future__ import annotations

from typing import Any

from tests.ui import factories
from tests.ui.alerting_factories import alert
from tests.ui.factories import rfc3339
from ui.kit.answers import ServerNotFound

Json = dict[str, Any]
SINK, DRIVER = "5111aaaa-0000-4000-8000-000000000001", "d717bbbb-0000-4000-8000-000000000002"


def member(number: int, now: float, app: str = "orders", **changes: Any) -> Json:
    """A query that is down since five minutes."""
    times = {"began_at": rfc3339(now - 300), "since": rfc3339(now - 300), "until": None}
    known = {"query_id": factories.query_id(number), "app": app, "name": f"query-{number}", "run_id": "r"}
    return {**known, "status": "failed", "driver": f"driver of {app}", **times, **changes}


def incident(now: float, **changes: Any) -> Json:
    """Three queries of two applications whose sink is away."""
    members = [member(1, now), member(2, now), member(3, now, "payments", until=rfc3339(now - 20))]
    trial = {"query_id": factories.query_id(1), "entry_id": "e1", "acted": True, "state": "trying"}
    return {
        "id": SINK,
        "kind": "sink",
        "cause": "s3a://lake/orders",
        "sentence": "3 queries of 2 applications that write to s3a://lake/orders failed within 2 s.",
        "began_at": rfc3339(now - 300),
        "ended_at": None,
        "down": 2,
        "members": members,
        "trial": {**trial, "at": rfc3339(now - 60)},
        "receivers": ["on-call"],
        "acknowledged": None,
        **changes,
    }


def of_driver(now: float, **changes: Any) -> Json:
    """Two queries whose driver died an hour ago, for ten minutes."""
    up = rfc3339(now - 3000)
    members = [member(number, now - 3300, "billing", until=up) for number in (4, 5)]
    driver = {"id": DRIVER, "kind": "driver", "cause": "app-1", "members": members, "down": 0, "trial": None}
    text = "The driver of billing died; 2 queries with it. All run again."
    taken = {"by": "ada", "at": rfc3339(now - 3400), "comment": "on it"}
    times = {"began_at": rfc3339(now - 3600), "ended_at": up}
    return incident(now) | driver | times | {"sentence": text, "acknowledged": taken} | changes


def detail(found: Json, now: float, **changes: Any) -> Json:
    """The incident with what is stored about it."""
    name, query_id = found["members"][0]["name"], found["members"][0]["query_id"]
    status = {"kind": "status", "query_id": query_id, "text": f"{name}: failed. Connection refused."}
    labels = {"alertname": "FleetIncident", "incident": found["id"]}
    own = alert("FleetIncident", now=now, query=None, query_id=None, app=None, labels=labels)
    note = {"at": rfc3339(now - 290), "receiver": "on-call", "outcome": "sent", "reason": "1 alert fires"}
    held = {**note, "outcome": "not_sent", "reason": "all alerts are muted"}
    decision = {"query_id": query_id, "name": name, "app": "orders", "policy": "all", "mode": "act"}
    at = {"at": rfc3339(now - 280), "outcome": None, "action_id": None}
    return {
        "incident": found,
        "alerts": [] if found["ended_at"] else [own],
        "notifications": [held, note],
        "actions": [factories.action(1, now, query_id=query_id, name=name, action="start", actor="ada")],
        "decisions": [
            {**decision, **at, "decision": "hold", "why": "One query was restarted as a trial."},
            {**decision, **at, "decision": "page", "why": "The budget is spent."},
        ],
        "timeline": [{"at": rfc3339(now - 300), **status}],
        **changes,
    }


class FakeIncidents:
    """`known`: None for a server without incidents."""

    def __init__(self) -> None:
        self.known: list[Json] | None = []

    def list(self) -> Json:
        if self.known is None:
            raise ServerNotFound("there is no resource")
        return {"incidents": self.known}

    def get(self, incident_id: str, now: float) -> Json:
        for found in self.known or ():
            if found["id"] == incident_id:
                return detail(found, now)
        raise ServerNotFound(f"there is no incident {incident_id}")

    def bundle(self, incident_id: str) -> Json:
        return {"html": f"<h1>{incident_id}</h1>"}
