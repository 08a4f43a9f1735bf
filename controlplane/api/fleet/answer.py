"""The answer of `GET /api/v1/queries`: filters, order, page and fields of the rows in the fleet's cache.

Called by `controlplane.api.routes.queries`. The rows come as JSON from `controlplane.api.fleet.cache` and are joined,
so an answer costs what has changed and what is transferred; a page is chosen by status before its rows are rendered.
"""

from __future__ import annotations

import gzip
import hashlib
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from alerts.matching.labels import Matcher, matches
from controlplane.api.bodies import QueryBody
from controlplane.api.fleet.cache import FleetCache, FleetEntry, FleetRow, to_json
from controlplane.app import ControlPlane
from controlplane.errors import BadRequest
from controlplane.metrics.samples import query_labels
from controlplane.model import QueryStatus, QueryView
from listeners.protocol.wire import rfc3339

Entry = TypeVar("Entry", bound=FleetEntry)
WORST_FIRST = {status: place for place, status in enumerate(QueryStatus)}
FIELDS = frozenset(QueryBody.model_fields)
#: Fields that order rows: those with one value.
SORTABLE = FIELDS - {"labels", "firing", "restart", "action", "recent"}
#: Orders that need no rendered row.
UNRENDERED_SORTS = frozenset({"", "alert_severity", "status", "app", "name"})

SEVERITIES = {"critical": 0, "warning": 1, "info": 2}
OTHER_SEVERITY, NO_SEVERITY = 3, 4
#: Statuses that need attention before or without an alert.
STATUS_SEVERITY = {
    QueryStatus.FAILED: 0,
    QueryStatus.LOST: 0,
    QueryStatus.UNREACHABLE: 0,
    QueryStatus.STUCK: 0,
    QueryStatus.LAGGING: 1,
    QueryStatus.BACKING_OFF: 1,
}
MAX_CHOICES = 1000

#: Smaller bodies are not compressed. Level 1: a fleet of 10,000 queries is read again and again.
MIN_COMPRESSED_BYTES = 4096
COMPRESSION_LEVEL = 1


@dataclass(frozen=True)
class FleetRequest:
    """Which rows, in which order. `sort`: a field, descending with a leading `-`; worst status first without one.

    `alert_severity` orders by what needs attention, see `_attention`. `apps`, `statuses`: any of them, all if empty.
    `since`: the cursor of an earlier answer to the same request. Unknown values are last in either order.
    `choices`: whether the answer lists the applications and labels to filter by.
    """

    apps: frozenset[str] = frozenset()
    statuses: frozenset[QueryStatus] = frozenset()
    matchers: tuple[Matcher, ...] = ()
    search: str = ""
    sort: str = ""
    offset: int = 0
    limit: int | None = None
    fields: tuple[str, ...] = ()
    since: str | None = None
    choices: bool = False

    def check(self) -> None:
        """BadRequest names what cannot be answered."""
        unknown = sorted(set(self.fields) - FIELDS)
        if unknown:
            raise BadRequest(f"fields: a query has no field {unknown[0][:60]}")
        if self.sort and self.sort.removeprefix("-") not in SORTABLE:
            raise BadRequest(f"sort: rows cannot be ordered by {self.sort[:60]}")
        if self.since is not None and (self.offset or self.limit is not None):
            raise BadRequest("since: changes are not paged; leave out offset and limit")

    @property
    def renders_page_only(self) -> bool:
        """Whether the page can be chosen before any row is rendered. Its cursor is of no use: pages have no `since`."""
        return self.limit is not None and self.sort.removeprefix("-") in UNRENDERED_SORTS

    def takes(self, view: QueryView) -> bool:
        """Whether the filters by application and by label, as the query's metrics have them, take this query."""
        return (not self.apps or view.app in self.apps) and matches(self.matchers, query_labels(view))


def _found(parts: Sequence[str], row: FleetEntry) -> bool:
    """Whether each word, in lower case, is part of the query's name, app, id, sentence, alerts or label values."""
    if not parts:
        return True
    view, alerts = row.view, (alert.name for alert in row.found)
    names = (view.name or "", view.app, view.query_id, row.judged.verdict.reason)
    text = "\n".join((*names, *view.labels.values(), *alerts)).casefold()
    return all(part in text for part in parts)


@dataclass(frozen=True)
class FleetAnswer:
    """The body, without its time `as_of`, and what identifies it."""

    etag: str
    head: dict[str, Any]
    documents: Sequence[bytes]

    def body(self, now: float) -> bytes:
        """A `FleetBody` as JSON."""
        head = to_json({"as_of": rfc3339(now), **self.head})
        return b'%b,"queries":[%b]}' % (head[:-1], b",".join(self.documents))


def answer(plane: ControlPlane, cache: FleetCache, request: FleetRequest, now: float) -> FleetAnswer:
    """Answer a checked request at `now`, Unix seconds."""
    views = _fleet(plane, cache, request)
    if request.renders_page_only:
        version, entries = cache.version, cache.entries(views, now, worded=bool(request.search))
        head, shown = _chosen(request, entries)
        page = cache.rendered((entry.view for entry in _paged(request, shown)), now)
    else:
        rows, version = cache.rows(views, now)
        head, found = _chosen(request, rows)
        page = _paged(request, _changed(cache, request, rows, found, head))
    head["cursor"] = f"{cache.process}-{version}"
    documents = [_document(row, request.fields) for row in page]
    content = b"\n".join(documents) if request.fields else array("Q", (row.version for row in page)).tobytes()
    return FleetAnswer(_etag(cache.process, request, head, content), head, documents)


def _fleet(plane: ControlPlane, cache: FleetCache, request: FleetRequest) -> list[QueryView]:
    """The views of the fleet; only those that the filters take, unless changes are asked for."""
    views = [view for view in plane.fleet() if view.retired_at is None]
    if QueryStatus.RETIRED in request.statuses:
        views += [view for view in plane.window.views() if view.retired_at is not None]
    if request.since is None and (request.apps or request.matchers):
        return list(filter(request.takes, views))
    cache.keep(views)
    return views


def _chosen(request: FleetRequest, rows: Sequence[Entry]) -> tuple[dict[str, Any], list[Entry]]:
    """The head of the answer, and the rows that the request's filters and search take."""
    parts = request.search.casefold().split()
    found = [row for row in rows if request.takes(row.view) and _found(parts, row)]
    counts = Counter(row.status.value for row in found)
    shown = [row for row in found if row.status in request.statuses] if request.statuses else found
    head: dict[str, Any] = {"counts": dict(counts), "total": len(shown)}
    if request.choices:
        head["choices"] = _choices(rows)
    return head, shown


def _paged(request: FleetRequest, rows: Sequence[Entry]) -> list[Entry]:
    return _ordered(rows, request.sort)[request.offset :][: request.limit]


def _choices(rows: Sequence[FleetEntry]) -> dict[str, list[str]]:
    """The applications, and the labels as `name=value`, of these rows; the first MAX_CHOICES of each."""
    labels = {f"{name}={value}" for row in rows for name, value in row.view.labels.items()}
    return {
        "apps": sorted({row.view.app for row in rows})[:MAX_CHOICES],
        "labels": sorted(labels)[:MAX_CHOICES],
    }


def _changed(
    cache: FleetCache,
    request: FleetRequest,
    rows: Sequence[FleetRow],
    shown: list[FleetRow],
    head: dict[str, Any],
) -> list[FleetRow]:
    """The rows that changed since the cursor; `head` gets the ids that are not shown any more.

    All rows, and no `removed`, without a cursor or with one that has expired.
    """
    version = _version(cache, request.since)
    gone = None if version is None else cache.removed_since(version)
    if version is None or gone is None:
        return shown
    stays = {id(row) for row in shown}
    others = (row for row in rows if row.version > version and id(row) not in stays)
    head["removed"] = sorted({*gone, *(row.view.query_id for row in others)})
    return [row for row in shown if row.version > version]


def _version(cache: FleetCache, cursor: str | None) -> int | None:
    process, _, version = (cursor or "").partition("-")
    return int(version) if process == cache.process and version.isascii() and version.isdigit() else None


def _ordered(rows: Iterable[Entry], sort: str) -> list[Entry]:
    name = sort.removeprefix("-")
    if not name:
        return sorted(rows, key=_worst_first)
    if name == "alert_severity":
        return sorted(rows, key=_attention, reverse=sort.startswith("-"))
    known: list[tuple[Any, Entry]] = []
    unknown: list[tuple[Any, Entry]] = []
    for row in sorted(rows, key=_name):
        value = _value(row, name)
        (unknown if value is None else known).append((value, row))
    known.sort(key=lambda item: item[0], reverse=sort.startswith("-"))
    return [row for _, row in (*known, *unknown)]


def _worst_first(row: FleetEntry) -> tuple[Any, ...]:
    return WORST_FIRST[row.status], *_name(row)


def _attention(row: FleetEntry) -> tuple[Any, ...]:
    """Critical before warning, then the newest. A status counts like the severity of its alert, which may fire later."""
    alerts = (SEVERITIES.get(alert.severity, OTHER_SEVERITY) for alert in row.found)
    severity = min(STATUS_SEVERITY.get(row.status, NO_SEVERITY), *alerts, NO_SEVERITY)
    return severity, -row.since if severity < NO_SEVERITY else 0.0, *_worst_first(row)


def _name(row: FleetEntry) -> tuple[str, str, str]:
    return row.view.app, row.view.name or "", row.view.query_id


def _value(row: FleetEntry, name: str) -> Any:
    if name == "status":
        return WORST_FIRST[row.status]
    if name in ("app", "name"):
        text = getattr(row.view, name)
        return text and text.casefold()
    assert isinstance(row, FleetRow), name
    value = row.fields()[name]
    return None if isinstance(value, float) and math.isnan(value) else value


def _document(row: FleetRow, fields: Sequence[str]) -> bytes:
    if not fields:
        return row.document
    values = row.fields()
    return to_json({name: values[name] for name in fields})


def _etag(process: str, request: FleetRequest, head: dict[str, Any], content: bytes) -> str:
    """Weak, as it leaves out `as_of` and the cursor. `content`: the versions of whole rows, or the fields asked for."""
    stable = {name: value for name, value in head.items() if name != "cursor"}
    digest = hashlib.blake2b(repr((request, stable)).encode(errors="replace"), digest_size=12)
    digest.update(content)
    return f'W/"{process}-{digest.hexdigest()}"'


def compressed(body: bytes, accepted: str) -> tuple[bytes, dict[str, str]]:
    """The body and its headers, compressed if the client accepts gzip. `accepted`: the header Accept-Encoding."""
    if len(body) < MIN_COMPRESSED_BYTES or "gzip" not in accepted:
        return body, {}
    return gzip.compress(body, COMPRESSION_LEVEL, mtime=0), {"Content-Encoding": "gzip"}
