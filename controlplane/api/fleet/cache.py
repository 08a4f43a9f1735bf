"""The fleet's rows as JSON, each rendered once for its verdict, the begin of its status and its firing alerts.

Ten viewers of the Fleet page cost one rendering of the rows that changed, and a page only that of its own rows. A row
has a version, the number of the change that gave it its present content: from them the routes make an ETag and the
changes since a cursor.
"""

from __future__ import annotations

import itertools
import json
import secrets
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import orjson

from controlplane.alerting.alert_queries import worse_severity
from controlplane.alerting.views import FiringAlert
from controlplane.api.bodies import QueryBody
from controlplane.api.render import query_fields
from controlplane.app import ControlPlane
from controlplane.health.verdicts import QueryVerdict
from controlplane.metrics.samples import NOT_EXPECTED
from controlplane.model import QueryStatus, QueryView

#: Firing alerts by query id, or by application.
Firing = Mapping[str, tuple[FiringAlert, ...]]
#: What a query is whose driver is down.
DOWN = frozenset({QueryStatus.FAILED, QueryStatus.LOST, QueryStatus.UNREACHABLE})
#: How long the firing alerts are reused.
FRESH_SECONDS = 1.0
MAX_ALERT_NAMES = 3
#: Queries that left the fleet and are still reported as removed; an older cursor gets the whole fleet.
MAX_REMOVED = 10_000


@dataclass(frozen=True, eq=False)
class FleetEntry:
    """What a row is chosen and ordered by. `since`: when the query's status began, Unix seconds; `found`: its alerts."""

    judged: QueryVerdict
    since: float
    found: tuple[FiringAlert, ...]

    @property
    def view(self) -> QueryView:
        """The view that the row shows."""
        return self.judged.view

    @property
    def status(self) -> QueryStatus:
        """The status of the query."""
        return self.judged.verdict.status


@dataclass(frozen=True, eq=False)
class FleetRow(FleetEntry):
    """The row of a query. `document`: a `QueryBody` as JSON."""

    document: bytes
    version: int

    def is_current(self, entry: FleetEntry) -> bool:
        """Whether the row would be rendered from the same values."""
        return self.judged is entry.judged and self.since == entry.since and self.found == entry.found

    def fields(self) -> dict[str, Any]:
        """The row as a JSON object."""
        fields: dict[str, Any] = json.loads(self.document)
        return fields


class FleetCache:
    """Rows by query id. Thread-safe."""

    def __init__(self, plane: ControlPlane):
        self._plane = plane
        self._lock = threading.Lock()  # of the rows and their versions; nothing is rendered under it
        self._rendering = threading.Lock()  # readers of many rows wait for those that another one renders
        self._rows: dict[str, FleetRow] = {}
        self._firing: tuple[float, Firing] = (0.0, {})
        self._versions = itertools.count(1)
        self._removed: dict[str, int] = {}  # query id -> version, oldest first
        self._forgotten = 0  # cursors up to this version have missed a removal
        self._version = 0
        #: Versions of another process mean nothing to this one.
        self.process = secrets.token_hex(4)

    @property
    def version(self) -> int:
        """The newest version of a row."""
        return self._version

    def row(self, view: QueryView, now: float) -> QueryBody:
        """The row of a query with the alerts that fire for it or its app, also in its sentence."""
        return QueryBody(**self.rendered([view], now)[0].fields())

    def entries(self, views: Iterable[QueryView], now: float, worded: bool = False) -> list[FleetEntry]:
        """The entries of these queries, in their order; only with `worded` their sentences too are as of `now`."""
        firing, verdicts = self._firing_at(now), self._plane.verdicts
        judge = verdicts.verdict_of if worded else verdicts.status_of
        return [self._entry(judge(view, now), firing) for view in views]

    def rendered(self, views: Iterable[QueryView], now: float) -> list[FleetRow]:
        """The rows of these queries, in their order; waits for no other reader."""
        return [self._row(entry) for entry in self.entries(views, now, worded=True)]

    def rows(self, views: Iterable[QueryView], now: float) -> tuple[list[FleetRow], int]:
        """The same, without queries that have just left the fleet, and the version whose changes they all hold."""
        with self._rendering:
            rows = self.rendered(views, now)
        with self._lock:  # other readers may have rendered some anew
            known = (self._rows.get(row.view.query_id) for row in rows)
            return [row for row in known if row is not None], self._version

    def keep(self, views: Iterable[QueryView]) -> None:
        """Remove the rows of all other queries: they have left the fleet."""
        with self._lock:
            for query_id in self._rows.keys() - {view.query_id for view in views}:
                self._remove(query_id)

    def removed_since(self, version: int) -> list[str] | None:
        """Ids of queries that left the fleet after this version; None if some are not known any more."""
        with self._lock:
            if not self._forgotten <= version <= self._version:
                return None
            return [query_id for query_id, at in self._removed.items() if at > version]

    def _remove(self, query_id: str) -> None:
        del self._rows[query_id]
        self._removed[query_id] = self._version = next(self._versions)
        if len(self._removed) > MAX_REMOVED:
            self._forgotten = self._removed.pop(next(iter(self._removed)))

    def _entry(self, judged: QueryVerdict, firing: Firing) -> FleetEntry:
        view, status = judged.view, judged.verdict.status
        since = self._plane.verdicts.since(view.query_id, status, judged.at)
        return FleetEntry(judged, since, _firing_for(view, status, firing) if firing else ())

    def _row(self, entry: FleetEntry) -> FleetRow:
        known = self._rows.get(entry.view.query_id)
        if known is not None and known.is_current(entry):
            return known
        return self._put(entry, self._rendered(entry))

    def _put(self, entry: FleetEntry, document: bytes) -> FleetRow:
        query_id = entry.view.query_id
        with self._lock:
            known = self._rows.get(query_id)
            if known is None or known.document != document:
                self._version = version = next(self._versions)
            else:
                version = known.version
            row = FleetRow(entry.judged, entry.since, entry.found, document, version)
            self._rows[query_id] = row
            self._removed.pop(query_id, None)
            return row

    def _firing_at(self, now: float) -> Firing:
        at, firing = self._firing
        if not 0 <= now - at < FRESH_SECONDS:
            firing = self._plane.alerts.firing(now)
            self._firing = now, firing
        return firing

    def _rendered(self, entry: FleetEntry) -> bytes:
        judged, starts = entry.judged, self._plane.starts_of(entry.view.query_id)
        fields = query_fields(judged.context, judged.verdict, entry.since, starts)
        if entry.found:
            fields |= _alert_fields(fields["reason"], entry.found)
        try:
            # A copy: the bytes that orjson returns keep a buffer many times their size.
            return bytes(memoryview(orjson.dumps(fields)))
        except TypeError:  # an integer of more than 64 bits
            return QueryBody(**fields).model_dump_json().encode()


def _firing_for(view: QueryView, status: QueryStatus, firing: Firing) -> tuple[FiringAlert, ...]:
    """The alerts of the query and of its app. That a driver is down concerns only queries that are down: another driver
    of the app may run the others, and an alert fires for a while after its queries are back. What else concerns the app
    is of its running queries."""
    runs = status not in NOT_EXPECTED
    of_app = (a for a in firing.get(view.app, ()) if status in DOWN or (runs and not a.of_driver))
    return (*firing.get(view.query_id, ()), *of_app)


def to_json(value: Mapping[str, Any]) -> bytes:
    """A JSON object as JSON; orjson does not take integers of more than 64 bits."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()


def _alert_fields(reason: str, found: Sequence[FiringAlert]) -> dict[str, Any]:
    """What firing alerts change in the row of a query."""
    severity = reduce(worse_severity, (alert.severity for alert in found))
    ranked = sorted(found, key=lambda alert: (alert.severity != severity, alert.name))
    names = list(dict.fromkeys(alert.name for alert in ranked))
    return {
        "alerts": len(found),
        "alert_severity": severity or None,
        "firing": names,
        "reason": f"{reason} {firing_sentence(names)}",
    }


def firing_sentence(names: Sequence[str]) -> str:
    """`Alert Overrun is firing.`; `Alerts Overrun and LagGrowing are firing.`; at most three names."""
    if len(names) == 1:
        return f"Alert {names[0]} is firing."
    listed = [
        *names[:MAX_ALERT_NAMES],
        *([f"{len(names) - MAX_ALERT_NAMES} more"] if names[MAX_ALERT_NAMES:] else []),
    ]
    return f"Alerts {', '.join(listed[:-1])} and {listed[-1]} are firing."
