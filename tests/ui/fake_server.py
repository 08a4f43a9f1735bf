"""A server of scripted JSON over real HTTP: what the browser tests put behind the real Streamlit app.

`World` holds what it answers; a test changes it while the app looks on. An action that is asked for goes
through its states as the clock passes, as `World.script` states.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.ui import (
    app_factories,
    factories,
    fake_alerting,
    fake_bulk_actions,
    fake_checkpoints,
    fake_series,
    incident_factories,
)
from ui.kit.fleet_page import EVERYTHING, FleetPage, merged


class World:
    """What the fake server knows. `posted`: (query_id, body, idempotency key) of each action asked for."""

    def __init__(self, queries: list[dict[str, Any]] | None = None):
        self.queries = factories.troubled_fleet(time.time()) if queries is None else queries
        self.details: dict[str, dict[str, Any]] = {}
        self.posted: list[tuple[str, dict[str, Any], str]] = []
        self.actions: list[dict[str, Any]] = []
        self.script = (
            (0.4, "delivered", ""),
            (0.8, "running", ""),
            (1.6, "succeeded", "resumed at batch 1234"),
        )
        self.about_query = {"capacity": factories.capacity(), "what-changed": factories.what_changed()}
        self.ledger: dict[str, Any] = {"entries": [], "figures": {}}
        self.role = "operator"
        self.token = "cp_admin_test"
        self.reads = 0
        self.alerting = fake_alerting.FakeAlerting(time.time())
        self.checkpoints = fake_checkpoints.FakeCheckpoints(self.queries, time.time())
        self.apps = app_factories.FakeApps()
        self.incidents = incident_factories.FakeIncidents()
        self.bulk = fake_bulk_actions.FakeBulkActions(self.queries)
        self.saved_views: dict[str, str] = {}
        self.batch_age: float | None = 48.0
        self.series_labels: dict[str, str] = {}

    def fleet(self, now: float, page: FleetPage = EVERYTHING) -> dict[str, Any]:
        """The page of the fleet, as the server filters it."""
        self.reads += 1
        whole = factories.fleet([query for query in self.queries if _found(query, page)], now)
        statuses = page.statuses or list(whole["counts"])
        rows = [query for query in whole["queries"] if query["status"] in statuses]
        return {**whole, "total": len(rows), "queries": merged(rows, page)}

    def choices(self) -> dict[str, Any]:
        """Applications and labels of the fleet."""
        labels = {f"{k}={v}" for query in self.queries for k, v in query["labels"].items()}
        apps = {query["app"] for query in self.queries}
        return {"choices": {"apps": sorted(apps), "labels": sorted(labels)}}

    def views(self) -> dict[str, Any]:
        """The saved views, by name."""
        kept = {"saved_by": "ada", "saved_at": "2026-03-01T09:00:00.000Z"}
        return {"views": [{"name": n, "parameters": p, **kept} for n, p in sorted(self.saved_views.items())]}

    def about(self) -> dict[str, Any]:
        """Role and figures of the server."""
        figures = {
            "ingest_waiting_events": 3,
            "rule_slot_lateness_seconds": 40,
            "store_bytes": 3.4e9,
            "agents": 4,
        }
        return {
            "role": "active",
            "since": time.time() - 90_000,
            "version": "0.1.0",
            "queries": len(self.queries),
            "figures": {f"controlplane_{name}": value for name, value in figures.items()},
            "limits": {"retention_days": 14, "retention_bytes": 1e10, "max_queries_per_app": 1000},
            "refused": [{"quota": "max_queries_per_app", "app": "clicks", "count": 12}],
        }

    def detail(self, query_id: str, now: float) -> dict[str, Any] | None:
        row = next((query for query in self.queries if query["query_id"] == query_id), None)
        if row is None:
            return None
        whole = {**factories.detail(1, now), **row, **self.details.get(query_id, {})}
        if row["status"] == "failed":
            whole["failure"] = factories.failure()
        mine = [self.seen(action, now) for action in self.actions if action["query_id"] == query_id]
        still = next((a for a in mine if a["state"] in ("requested", "delivered", "running")), None)
        return {**whole, "actions": mine or whole["actions"], "action": still or whole["action"]}

    def series(self, query: str, start: float, end: float, step: float) -> dict[str, Any]:
        return fake_series.matrix(query, start, end, step, self.series_labels)

    def fired(self, query_id: str) -> dict[str, Any]:
        alerts = self.alerting.history()["alerts"]
        return {"alerts": [alert for alert in alerts if alert["query_id"] == query_id]}

    def ask(self, query_id: str, body: dict[str, Any], key: str, now: float) -> dict[str, Any]:
        self.posted.append((query_id, body, key))
        known = next((action for action in self.actions if action["key"] == key), None)
        if known:
            return self.seen(known, now)
        row = next(query for query in self.queries if query["query_id"] == query_id)
        action = factories.action(
            len(self.actions) + 100,
            now,
            query_id=query_id,
            app=row["app"],
            name=row["name"],
            action=body["action"],
            drain=body.get("drain", False),
            actor=body.get("actor") or "admin",
            request_reason=body.get("reason", ""),
            requested_at=now,
            deadline_at=now + 120,
        )
        self.actions.insert(0, {**action, "key": key, "asked": now})
        return self.seen(self.actions[0], now)

    def desire(self, query_id: str, body: dict[str, Any], now: float) -> dict[str, Any]:
        """Set the desired state, and request the stop or start that it needs."""
        row = next(query for query in self.queries if query["query_id"] == query_id)
        row["desired"] = body["state"]
        asked = {**body, "action": "stop" if body["state"] == "suspended" else "start"}
        action = self.ask(query_id, asked, uuid.uuid4().hex, now) if body["act"] else None
        return {"desired": {"state": body["state"]}, "action": action}

    def seen(self, action: dict[str, Any], now: float) -> dict[str, Any]:
        """The action as it stands at `now`, by the script."""
        shown = {name: value for name, value in action.items() if name not in ("key", "asked")}
        for after, state, reason in self.script if "asked" in action else ():
            if now - action["asked"] >= after:
                shown |= {"state": state, "reason": reason}
                shown["finished_at"] = factories.rfc3339(now) if state == "succeeded" else None
        return shown


def _found(query: dict[str, Any], page: FleetPage) -> bool:
    labels = [f"{name}={value}" for name, value in query["labels"].items()]
    names = [str(query[name]) for name in ("name", "app", "query_id", "reason")]
    text = " ".join([*names, *labels]).lower()
    return (
        (not page.apps or query["app"] in page.apps)
        and (not page.labels or bool(set(labels) & set(page.labels)))
        and all(word in text for word in page.search.lower().split())
    )


def page_of(params: dict[str, list[str]]) -> FleetPage:
    """The page that a request's parameters ask for."""
    labels = tuple(re.sub(r'"', "", text) for text in params.get("label", []))
    return FleetPage(
        search=params.get("search", [""])[0],
        apps=tuple(params.get("app", [])),
        statuses=tuple(params.get("status", [])),
        labels=labels,
        sort=params.get("sort", ["status"])[0],
        offset=int(params.get("offset", ["0"])[0]),
        limit=int(params.get("limit", ["100000"])[0]),
    )


class _Handler(BaseHTTPRequestHandler):
    world: World

    def do_GET(self) -> None:
        url, now = urlsplit(self.path), time.time()
        match url.path.split("/")[3:]:
            case _ if self.headers.get("Authorization") != f"Bearer {self.world.token}":
                self._error(401, "unauthorized", "no such token")
            case ["v1", "query_range"]:
                asked = {name: values[0] for name, values in parse_qs(url.query).items()}
                bounds = (float(asked[name]) for name in ("start", "end", "step"))
                self._send(200, self.world.series(asked["query"], *bounds))
            case ["v1", "query"]:
                self._send(200, fake_series.vector(now, self.world.batch_age))
            case ["alerts", "history"] if "query_id" in parse_qs(url.query):
                self._send(200, self.world.fired(parse_qs(url.query)["query_id"][0]))
            case _ if self._alerting("GET") or self._checkpoints("GET"):
                pass
            case ["queries"] if "choices" in parse_qs(url.query):
                self._send(200, self.world.choices())
            case ["queries"]:
                self._send(200, self.world.fleet(now, page_of(parse_qs(url.query))))
            case ["queries", query_id]:
                found = self.world.detail(unquote(query_id), now)
                self._send(200, found) if found else self._error(404, "not_found", "no such query")
            case ["queries", _, "progress"]:
                self._send(200, self._progress(parse_qs(url.query), now))
            case ["queries", _, part] if part in self.world.about_query:
                self._send(200, self.world.about_query[part])
            case ["queries", _, "timeline"]:
                self._send(200, {"runs": [], "alerts": [], "actions": [], "notes": []})
            case ["actions"]:
                self._send(200, {"actions": [self.world.seen(action, now) for action in self.world.actions]})
            case ["actions", action_id]:
                found = next((a for a in self.world.actions if a["id"] == action_id), None)
                self._send(200, {"action": self.world.seen(found, now)}) if found else self._error(
                    404, "", "no"
                )
            case ["tokens"]:
                self._send(200, {"tokens": factories.tokens()})
            case ["policies"]:
                self._send(200, factories.policies())
            case ["saved-views"]:
                self._send(200, self.world.views())
            case ["apps"]:
                self._send(200, self.world.apps.list())
            case ["agents"]:
                self._send(200, self.world.apps.agents())
            case ["incidents"]:
                self._send(200, self.world.incidents.list())
            case ["incidents", incident_id]:
                self._send(200, self.world.incidents.get(incident_id, now))
            case ["ledger"]:
                self._send(200, self.world.ledger)
            case ["server"]:
                self._send(200, self.world.about())
            case ["whoami"]:
                self._send(200, {"name": "test", "role": self.world.role})
            case _:
                self._error(404, "not_found", "no such path")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if self._alerting("POST", body) or self._checkpoints("POST"):
            return
        query_id = unquote(self.path.split("/")[4])
        action = self.world.ask(query_id, body, self.headers.get("Idempotency-Key", ""), time.time())
        self._send(202, {"action": action})

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        kind, name = self.path.split("/")[3], unquote(self.path.split("/")[4])
        if kind == "saved-views":
            self.world.saved_views[name] = body["parameters"]
            self._send(200, self.world.views()["views"][-1])
        else:
            self._send(200, self.world.desire(name, body, time.time()))

    def do_DELETE(self) -> None:
        if self.path.startswith("/api/v1/saved-views/"):
            del self.world.saved_views[unquote(self.path.split("/")[4])]
            self._send(200, self.world.views())
        elif not self._alerting("DELETE"):
            self._error(404, "not_found", "no such path")

    def _alerting(self, method: str, body: dict[str, Any] | None = None) -> bool:
        """Answer it where it is about alerting."""
        url = urlsplit(self.path)
        fake, params = self.world.alerting, parse_qs(url.query)
        found = fake_alerting.respond(fake, method, unquote(url.path), params, body or {}, time.time())
        if found:
            self._send(*found)
        return found is not None

    def _checkpoints(self, method: str) -> bool:
        """Answer it where it is about checkpoints."""
        url = urlsplit(self.path)
        path = [unquote(part) for part in url.path.split("/")[3:]]
        params = parse_qs(url.query)
        found = fake_checkpoints.respond(self.world.checkpoints, method, path, time.time(), params)
        if found:
            self._send(*found)
        return found is not None

    def _progress(self, params: dict[str, list[str]], now: float) -> dict[str, Any]:
        seconds = now - float(params["start"][0])
        every = max(10.0, float(params["step"][0]))
        return factories.series(now, min(720, int(seconds / every)), every)

    def _error(self, status: int, code: str, message: str) -> None:
        self._send(status, {"error": {"code": code, "message": message, "detail": {}}})

    def _send(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class FakeServer:
    """The world on a port; `stop` closes the port, `start` opens the same one again."""

    def __init__(self, world: World, port: int = 0):
        self.world = world
        self.port = port
        self._http: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> FakeServer:
        handler = type("Handler", (_Handler,), {"world": self.world})
        self._http = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self.port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        if self._http:
            self._http.shutdown()
            self._http.server_close()
            self._http = None
