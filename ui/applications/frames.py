"""Tables of applications, their drivers and queries. Pure; `ui.applications.panel` and the page draw them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Any

import pandas as pd

from ui.kit import cells, statuses
from ui.kit.frames import timestamp
from ui.kit.markup import no_icon, one_line
from ui.kit.statuses import BadgeStyle

Json = Mapping[str, Any]

STATES: dict[str, BadgeStyle] = {
    "unknown": BadgeStyle("Unknown", "violet", ":material/help:"),
    "ended": BadgeStyle("Ended", "gray", ":material/stop_circle:"),
    "starting": BadgeStyle("Starting", "blue", ":material/rocket_launch:"),
    "running": BadgeStyle("Running", "green", ":material/play_circle:"),
    "none": BadgeStyle("Never started", "gray", ":material/radio_button_unchecked:"),
}
DIFFERS = BadgeStyle("Not as desired", "orange", ":material/sync_problem:")


def style(state: object) -> BadgeStyle:
    """The badge of a driver's state; that of a newer server's state is gray."""
    return STATES.get(str(state), BadgeStyle(one_line(state), "gray", ":material/help:"))


def differs(app: Json) -> bool:
    """Whether an application is not what is desired of it."""
    up = app.get("state") in ("running", "starting", "unknown")
    return up != (app.get("desired") == "running")


def applications(apps: Sequence[Json]) -> pd.DataFrame:
    """One row an application, by column."""
    return pd.DataFrame(
        {
            "state": [[style(app.get("state")).label] for app in apps],
            "desired": [[DIFFERS.label] if differs(app) else [] for app in apps],
            "app": [no_icon(app.get("name")) for app in apps],
            "launcher": [one_line(app.get("launcher")) for app in apps],
            "version": [version(app) for app in apps],
            "started": [timestamp(app.get("started_at")) for app in apps],
            "queries": [len(app.get("queries") or []) for app in apps],
            "reason": [one_line(app.get("reason") or "") for app in apps],
        }
    )


def version(app: Json) -> str:
    """The version that runs, and the declared one where it differs."""
    declared, running = one_line(app.get("version") or ""), app.get("running_version")
    if running is None or running == app.get("version"):
        return declared
    return f"{one_line(running)} (declared: {declared})"


def columns(zone: tzinfo, opener: cells.Opener) -> cells.Columns:
    """Columns of `applications`."""
    return {
        "state": cells.badges("State", STATES.values(), 116),
        "desired": cells.badges("Desired", [DIFFERS], 124),
        "app": cells.link("Application", 200, opener, "Select a name to see the application."),
        "launcher": cells.text("Launcher", 100),
        "version": cells.text("Version", 130),
        "started": cells.time("Last start", zone),
        "queries": cells.integer("Queries", 76),
        "reason": cells.text("Reason"),
    }


def drivers(app: Json) -> pd.DataFrame:
    """One row a driver that reports as this application."""
    found = app.get("drivers") or []
    return pd.DataFrame(
        {
            "driver": [one_line(driver.get("agent"))[:8] for driver in found],
            "spark": [one_line(driver.get("spark_version") or "") for driver in found],
            "first": [timestamp(driver.get("first_seen_at")) for driver in found],
            "seen": [timestamp(driver.get("last_seen_at")) for driver in found],
            "ended": [timestamp(driver.get("ended_at")) for driver in found],
            "end": [one_line(driver.get("end_reason") or "") for driver in found],
        }
    )


def driver_columns(zone: tzinfo) -> cells.Columns:
    """Columns of `drivers`."""
    return {
        "driver": cells.text("Driver", 90),
        "spark": cells.text("Spark", 80),
        "first": cells.time("First seen", zone),
        "seen": cells.time("Last seen", zone),
        "ended": cells.time("Ended", zone),
        "end": cells.text("End"),
    }


def queries(app: Json) -> pd.DataFrame:
    """One row a query."""
    found = app.get("queries") or []
    return pd.DataFrame(
        {
            "status": [[statuses.status(query.get("status")).label] for query in found],
            "query": [query_name(query) for query in found],
            "reason": [one_line(query.get("reason") or "") for query in found],
        }
    )


def query_name(query: Json) -> str:
    """The query's name, else the beginning of its id."""
    return no_icon(query.get("name") or str(query.get("query_id"))[:8])


def query_columns(opener: cells.Opener) -> cells.Columns:
    """Columns of `queries`."""
    return {
        "status": cells.badges("Status", statuses.STATUSES.values(), 112),
        "query": cells.link("Query", 200, opener),
        "reason": cells.text("Reason"),
    }


def facts(app: Json) -> list[tuple[str, str]]:
    """What is known of an application, as labels and sentences."""
    action = app.get("action") or {}
    labels = ", ".join(f"{name}={value}" for name, value in (app.get("labels") or {}).items())
    outcome = f"{action.get('action')} by {action.get('actor')} {action.get('state')}: {action.get('reason')}"
    rows = [
        ("State", f"{style(app.get('state')).label}. {app.get('reason') or ''}"),
        ("Desired", f"{app.get('desired')}, set by {app.get('desired_by')}"),
        ("Version", version(app)),
        ("Labels", labels),
        ("Variables", ", ".join(app.get("env") or [])),
        ("Restart policy", app.get("restart_policy") or ""),
        ("Last action", outcome.rstrip(": ") if action else ""),
    ]
    return [(label, str(text)) for label, text in rows if text]
