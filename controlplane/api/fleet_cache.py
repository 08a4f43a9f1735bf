"""Cache of the fleet's rendered rows; a row is valid as long as its verdict.

Ten viewers of the Fleet page cost one rendering of the rows that changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from weakref import WeakKeyDictionary

from controlplane.alerting.alert_queries import worse_severity
from controlplane.api.bodies import QueryBody
from controlplane.api.render import query_body
from controlplane.app import ControlPlane
from controlplane.health.verdicts import QueryVerdict
from controlplane.model import QueryView

#: How long the counts of firing alerts are reused.
FRESH_SECONDS = 1.0


class FleetCache:
    """Rendered rows by verdict."""

    def __init__(self, plane: ControlPlane):
        self._plane = plane
        self._kept: WeakKeyDictionary[QueryVerdict, QueryBody] = WeakKeyDictionary()
        self._firing: tuple[float, Mapping[str, tuple[int, str]]] = (0.0, {})

    def row(self, view: QueryView, now: float) -> QueryBody:
        """The row of a query with the number and worst severity of the alerts that fire for it or its app."""
        judged = self._plane.verdicts.verdict_of(view, now)
        row = self._kept.get(judged)
        if row is None:
            row = self._kept[judged] = self._render(judged)
        firing = self._firing_at(now)
        found = [firing[about] for about in (view.query_id, view.app) if about in firing]
        if not found:
            return row
        count, severity = (
            sum(count for count, _ in found),
            reduce(worse_severity, (word for _, word in found)),
        )
        return row.model_copy(update={"alerts": count, "alert_severity": severity or None})

    def _firing_at(self, now: float) -> Mapping[str, tuple[int, str]]:
        at, firing = self._firing
        if not 0 <= now - at < FRESH_SECONDS:
            firing = self._plane.alerts.firing(now)
            self._firing = now, firing
        return firing

    def _render(self, judged: QueryVerdict) -> QueryBody:
        view, at = judged.view, judged.at
        since = self._plane.verdicts.since(view.query_id, judged.verdict.status, at)
        starts = self._plane.starts_of(view.query_id)
        return query_body(view, judged.verdict, since, starts, at)
