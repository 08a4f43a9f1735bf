"""Applications as the API shows them, and a fake of its routes."""

from __future__ import annotations

from typing import Any

from ui.kit.answers import ServerNotFound, ServerRefused

AT = "2026-11-22T14:00:00Z"


def app(name: str = "billing", state: str = "running", **changes: Any) -> dict[str, Any]:
    """An application whose driver is in this state."""
    driver = {"agent": "0123456789", "spark_version": "4.3.0", "ui_url": None, "first_seen_at": AT}
    return {
        "name": name,
        "launcher": "process",
        "version": "8",
        "running_version": "7" if state == "running" else None,
        "labels": {"team": "payments"},
        "env": ["DB_PASSWORD"],
        "restart_policy": None,
        "desired": "running",
        "desired_at": AT,
        "desired_by": "ada",
        "declared_at": AT,
        "declared_by": "ada",
        "state": state,
        "reason": "Process 7 runs.",
        "started_at": AT,
        "started_by": "ada",
        "ended_at": None,
        "action": None,
        "drivers": [{**driver, "last_seen_at": AT, "ended_at": None, "end_reason": None}],
        "queries": [{"query_id": "q-1", "name": "orders", "status": "running", "reason": "Keeping up."}],
    } | changes


def agent(
    app: str = "billing", state: str = "running", name: str = "0123456789abcdef", **changes: Any
) -> dict[str, Any]:
    """A driver in this state, as the API shows it."""
    gone = state in ("failed", "ended")
    return {
        "agent": name,
        "app": app,
        "labels": {"version": "7"},
        "spark_version": "4.3.0",
        "actions": "all",
        "state": state,
        "reason": "Ended 3 min ago: SIGTERM ended it." if gone else "Heartbeat 2 s ago.",
        "first_seen_at": AT,
        "last_seen_at": AT,
        "last_contact_at": AT,
        "ended_at": AT if gone else None,
        "dropped": {},
        "host": {"load": 3.0, "cpus": 2.0},
        "queries": 0 if gone else 2,
        "executors": 2,
        "heap_bytes": 4e8,
        "heap_max_bytes": 1e9,
    } | changes


class FakeApps:
    """`known`: None for a server without applications. `refusal`: of the next action."""

    def __init__(self) -> None:
        self.known: list[dict[str, Any]] | None = [app(), app("clicks", "ended")]
        self.drivers = [agent(), agent("clicks", "silent", "fedcba98765")]
        self.refusal: ServerRefused | None = None
        self.posted: list[tuple[str, dict[str, Any], str]] = []

    def list(self) -> dict[str, Any]:
        if self.known is None:
            raise ServerNotFound("there is no resource")
        return {"apps": self.known, "launchers": ["process"]}

    def agents(self) -> dict[str, Any]:
        return {"agents": self.drivers}

    def logs(self, name: str) -> dict[str, Any]:
        return {"app": name, "text": "the last line of :material/home: `x`"}

    def act(self, name: str, body: dict[str, Any], key: str) -> dict[str, Any]:
        self.posted.append((name, body, key))
        refusal, self.refusal = self.refusal, None
        if refusal is not None:
            raise refusal
        return {"action": {"id": "1", "app": name, "state": "succeeded", "reason": "Started."}}
