"""The Fleet page's table: columns, and a row of cells for each query. Pure.

An unknown value is a dash, never 0. Times are sent as times, so that rows stay the same while nothing happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from ui.kit import fleet_page, listing, statuses, units
from ui.kit.frames import Json, label
from ui.kit.listing import Cell, ListColumn, ListRow
from ui.kit.markup import one_line

TREND_POINTS = 20
MAX_ALERT_COUNT = 20  # shown as a number; above it is "20+"

_NOT_READING = statuses.NOT_RUNNING  # their last input rate is not the current one


def columns() -> list[ListColumn]:
    """The columns; a click on a head orders by the column's field."""
    return [
        ListColumn("Query", "title", "name"),
        ListColumn("Status", "tight phone", "status"),
        ListColumn("Reason", "wide"),
        ListColumn("Alerts", "tight phone", fleet_page.ATTENTION),
        ListColumn("Backlog", "number", "lag_rows"),
        ListColumn("Backlog age", "number", "lag_seconds"),
        ListColumn("Input rate", "number", "input_rows_per_second"),
        ListColumn("Last batch", "number", "batch_duration_seconds"),
        ListColumn("State rows", "number", "state_rows"),
        ListColumn("Last progress", "number", "last_progress_at"),
    ]


def rows(queries: Sequence[Json]) -> list[ListRow]:
    """One row per query, in the order given."""
    return [ListRow(str(query["query_id"]), _cells(query)) for query in queries]


def _cells(query: Json) -> list[Cell]:
    recent = query.get("recent") or {}
    status = statuses.status(query.get("status"))
    where = " · ".join(one_line(query[name]) for name in ("server", "app") if query.get(name))
    href = f"query?{urlencode({'query_id': query['query_id']})}"
    return [
        {"text": label(query), "href": href, "note": where},
        {"text": status.label, "pill": status.color},
        one_line(query.get("reason") or ""),
        {"text": alert_badge(query), "pill": alert_color(query)},
        _with_trend(units.count(query.get("lag_rows")), recent.get("lag_rows")),
        units.span(query.get("lag_seconds")),
        units.UNKNOWN
        if query.get("status") in _NOT_READING
        else units.rate(query.get("input_rows_per_second")),
        _with_trend(units.span(query.get("batch_duration_seconds")), recent.get("batch_duration_seconds")),
        units.count(query.get("state_rows")),
        _time(query.get("last_progress_at")),
    ]


def _with_trend(text: str, values: Sequence[Any] | None) -> Cell:
    return {"text": text, "points": listing.trend(trend(values))}


def _time(value: object) -> Cell:
    at = units.moment(value)
    return units.UNKNOWN if at is None else {"at": round(at)}


def trend(values: Sequence[Any] | None) -> list[float]:
    """The newest known values, oldest first."""
    newest = (values or ())[-TREND_POINTS:]
    return [number for value in newest if (number := units.number(value)) is not None]


def alert_badge(query: Json) -> str:
    """Number of firing alerts and the worst severity: `3 critical`; empty if none fires."""
    count = int(units.number(query.get("alerts")) or 0)
    severity = query.get("alert_severity")
    named = severity if severity in statuses.SEVERITIES else ""
    number = str(count) if count <= MAX_ALERT_COUNT else f"{MAX_ALERT_COUNT}+"
    return f"{number} {named or 'firing'}" if count > 0 else ""


def alert_color(query: Json) -> statuses.Color:
    """The color of the worst severity; red for an unknown one."""
    severity = query.get("alert_severity")
    return statuses.SEVERITIES[severity].color if severity and severity in statuses.SEVERITIES else "red"
