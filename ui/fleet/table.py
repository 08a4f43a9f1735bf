"""The Fleet page's table: columns to choose from, and a row of cells for each query. Pure.

An unknown value is a dash, never 0. Times are sent as times, so that rows stay the same while nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from ui.kit import fleet_page, listing, statuses, units
from ui.kit.frames import Json, label
from ui.kit.listing import Cell, ListColumn, ListRow
from ui.kit.markup import one_line

TREND_POINTS = 20
MAX_ALERT_COUNT = 20  # shown as a number; above it is "20+"

_NOT_READING = statuses.NOT_RUNNING  # their last input rate is not the current one


@dataclass(frozen=True)
class FleetColumn:
    """A column, the fields of a query that it needs, and a query's cell."""

    shown: ListColumn
    fields: tuple[str, ...]
    cell: Callable[[Json], Cell]


def _number(label: str, field: str, text: Callable[[Any], str], trend_of: str = "") -> FleetColumn:
    """A column of numbers; `trend_of`: the recent values that are drawn below."""

    def cell(query: Json) -> Cell:
        found = text(query.get(field))
        return _with_trend(found, (query.get("recent") or {}).get(trend_of)) if trend_of else found

    return FleetColumn(ListColumn(label, "number", field), (field, *(["recent"] if trend_of else [])), cell)


def _text(label: str, field: str) -> FleetColumn:
    return FleetColumn(ListColumn(label, "", field), (field,), lambda query: one_line(query.get(field) or ""))


def _rate(query: Json, field: str) -> str:
    return units.UNKNOWN if query.get("status") in _NOT_READING else units.rate(query.get(field))


def _rate_column(label: str, field: str) -> FleetColumn:
    return FleetColumn(ListColumn(label, "number", field), (field,), lambda query: _rate(query, field))


def _time_column(label: str, field: str) -> FleetColumn:
    return FleetColumn(ListColumn(label, "number", field), (field,), lambda query: _time(query.get(field)))


def label_column(name: str) -> FleetColumn:
    """A column of a label of the drivers, such as `team`."""
    shown = ListColumn(name, "")
    return FleetColumn(shown, ("labels",), lambda query: one_line((query.get("labels") or {}).get(name, "")))


def _title(query: Json) -> Cell:
    where = " · ".join(one_line(query[name]) for name in ("server", "app") if query.get(name))
    return {
        "text": label(query),
        "href": f"query?{urlencode({'query_id': query['query_id']})}",
        "note": where,
    }


def _status(query: Json) -> Cell:
    status = statuses.status(query.get("status"))
    return {"text": status.label, "pill": status.color}


#: Always shown, in front.
FIXED = (
    FleetColumn(ListColumn("Query", "title", "name"), (), _title),
    FleetColumn(ListColumn("Status", "tight phone", "status"), (), _status),
    FleetColumn(ListColumn("Reason", "wide"), (), lambda query: one_line(query.get("reason") or "")),
    FleetColumn(
        ListColumn("Alerts", "tight phone", fleet_page.ATTENTION),
        (),
        lambda query: {"text": alert_badge(query), "pill": alert_color(query)},
    ),
)
#: Columns to choose from, in the order shown; then the labels.
OPTIONAL = (
    _number("Backlog", "lag_rows", units.count, "lag_rows"),
    _number("Backlog age", "lag_seconds", units.span),
    _rate_column("Input rate", "input_rows_per_second"),
    _rate_column("Processing rate", "processed_rows_per_second"),
    _number("Last batch", "batch_duration_seconds", units.span, "batch_duration_seconds"),
    _number("State rows", "state_rows", units.count),
    _number("State memory", "state_bytes", units.size),
    _time_column("Watermark", "watermark"),
    _time_column("Last progress", "last_progress_at"),
    _number("Starts", "starts", units.count),
    _text("Desired", "desired"),
    _text("Trigger", "trigger"),
    _text("Spark", "spark_version"),
    _text("Driver", "agent"),
)
#: Chosen at first.
DEFAULT = ("Backlog", "Backlog age", "Input rate", "Last batch", "State rows", "Last progress")
LABEL = "label "  # in front of a label's name among the columns to choose from
SORTABLE = frozenset(column.shown.sort for column in (*FIXED, *OPTIONAL) if column.shown.sort) | {"app"}


def choosable(labels: Iterable[str]) -> list[str]:
    """Names of the columns to choose from; `labels`: `name=value` each."""
    names = sorted({text.partition("=")[0] for text in labels})
    return [*(column.shown.label for column in OPTIONAL), *(LABEL + name for name in names)]


def columns(chosen: Collection[str] = DEFAULT) -> list[FleetColumn]:
    """The columns of these names, after the fixed ones; a click on a head orders by the column's field."""
    known = [column for column in OPTIONAL if column.shown.label in chosen]
    labels = [label_column(name.removeprefix(LABEL)) for name in chosen if name.startswith(LABEL)]
    return [*FIXED, *known, *labels]


def fields(shown: Iterable[FleetColumn]) -> tuple[str, ...]:
    """The fields that these columns need."""
    return tuple(dict.fromkeys(name for column in shown for name in column.fields))


def rows(queries: Sequence[Json], shown: Sequence[FleetColumn] | None = None) -> list[ListRow]:
    """One row per query, in the order given, with the cells of these columns (default: those chosen at first)."""
    shown = columns() if shown is None else shown
    return [ListRow(str(query["query_id"]), [column.cell(query) for column in shown]) for query in queries]


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
