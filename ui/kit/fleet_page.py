"""One page of the fleet: what the dashboard asks of the server, and the order of several servers' rows.

Pure. The server filters, sorts and cuts: no browser holds more than a page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ui.kit import units
from ui.kit.frames import Json
from ui.kit.statuses import STATUSES

#: Parameters of a request, in the form that the HTTP client takes.
Params = list[tuple[str, str | int | float | bool | None]]

ROWS = 100
MAX_SEARCH_CHARS = 256  # of the server
#: What needs attention first: by severity, then the newest.
ATTENTION = "alert_severity"
#: The fields that each row of the Fleet page needs, whatever columns are shown.
FIELDS = ("query_id", "app", "name", "status", "reason", "since", "alerts", "alert_severity")
CRITICAL, WARNING = ("failed", "lost", "unreachable", "stuck"), ("lagging", "backing_off")


@dataclass(frozen=True)
class FleetPage:
    """A page: filters (`labels` as `name=value`), order and place. `servers`: names, where there are several.

    `search`: words or matchers. `fields`: of the shown columns.
    """

    search: str = ""
    apps: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    sort: str = ATTENTION
    offset: int = 0
    limit: int = ROWS

    def params(self) -> Params:
        """The request's parameters."""
        given: Params = self._search()
        given += [("app", name) for name in self.apps]
        given += [("status", name) for name in self.statuses]
        given += [("label", text) for text in matchers(self.labels)]
        fields = ",".join(dict.fromkeys((*FIELDS, *self.fields)))
        place = {"sort": self.sort, "offset": str(self.offset), "limit": str(self.limit), "fields": fields}
        return [*given, *place.items()]

    def _search(self) -> Params:
        """Words, or matchers in braces as in PromQL: `{team=~"pay.*",query!="orders"}`."""
        text = self.search.strip()
        if text.startswith("{") and text.endswith("}"):
            return [("label", text[1:-1])] if text[1:-1].strip() else []
        return [("search", self.search[:MAX_SEARCH_CHARS])] if text else []


#: The first page without filters.
EVERYTHING = FleetPage()


def matchers(labels: Sequence[str]) -> list[str]:
    """A matcher for each label name in `labels`; several values of a name are alternatives."""
    values: dict[str, list[str]] = {}
    for text in labels:
        name, _, value = text.partition("=")
        values.setdefault(name, []).append(value)
    return [_matcher(name, found) for name, found in values.items()]


def _matcher(name: str, values: Sequence[str]) -> str:
    if len(values) == 1:
        return f'{name}="{_escaped(values[0])}"'
    pattern = "|".join(re.sub(r"([\\.^$*+?()\[\]{}|])", r"\\\1", value) for value in values)
    return f'{name}=~"{_escaped(pattern)}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def merged(queries: Sequence[Json], page: FleetPage) -> list[Json]:
    """The page of rows that several servers gave, each in its order; unknown values are last."""
    name, descending = page.sort.removeprefix("-"), page.sort.startswith("-")
    key = _attention if name == ATTENTION else lambda query: _value(query, name)
    known = [query for query in queries if key(query) is not None]
    rows = sorted(known, key=key, reverse=descending)
    rows += [query for query in queries if key(query) is None]
    return rows[page.offset : page.offset + page.limit]


def _value(query: Json, name: str) -> Any:
    if name == "status":
        return _place(query.get("status"), STATUSES)
    value = query.get(name)
    return value.casefold() if isinstance(value, str) else value


def _attention(query: Json) -> tuple[float, ...]:
    """As the server orders: a status counts like the severity of its alert."""
    status = query.get("status")
    own = 0 if status in CRITICAL else 1 if status in WARNING else 4
    alerts = (
        _place(query.get("alert_severity"), ("critical", "warning", "info")) if query.get("alerts") else 4
    )
    severity = min(own, alerts)
    since = units.moment(query.get("since")) or 0.0
    return severity, -since if severity < 4 else 0.0, _place(status, STATUSES)


def _place(name: object, names: Any) -> int:
    return next((place for place, known in enumerate(names) if known == name), len(names))
