"""Cache of the fleet's rendered rows; a row is valid as long as its verdict.

Ten viewers of the Fleet page cost one rendering of the rows that changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any
from weakref import WeakKeyDictionary

from controlplane.alerting.alert_queries import worse_severity
from controlplane.alerting.views import FiringAlert
from controlplane.api.bodies import QueryBody
from controlplane.api.render import query_body
from controlplane.app import ControlPlane
from controlplane.health.verdicts import QueryVerdict
from controlplane.model import QueryView

#: Firing alerts by query id, or by application.
Firing = Mapping[str, tuple[FiringAlert, ...]]
#: How long the firing alerts are reused.
FRESH_SECONDS = 1.0
MAX_ALERT_NAMES = 3


class FleetCache:
    """Rendered rows by verdict."""

    def __init__(self, plane: ControlPlane):
        self._plane = plane
        self._kept: WeakKeyDictionary[QueryVerdict, QueryBody] = WeakKeyDictionary()
        self._firing: tuple[float, Firing] = (0.0, {})

    def row(self, view: QueryView, now: float) -> QueryBody:
        """The row of a query with the alerts that fire for it or its app, also in its sentence."""
        judged = self._plane.verdicts.verdict_of(view, now)
        row = self._kept.get(judged)
        if row is None:
            row = self._kept[judged] = self._render(judged)
        firing = self._firing_at(now)
        found = (*firing.get(view.query_id, ()), *firing.get(view.app, ()))
        return row.model_copy(update=_alert_fields(row, found)) if found else row

    def _firing_at(self, now: float) -> Firing:
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


def _alert_fields(row: QueryBody, found: Sequence[FiringAlert]) -> dict[str, Any]:
    """What firing alerts change in the row of a query."""
    severity = reduce(worse_severity, (alert.severity for alert in found))
    ranked = sorted(found, key=lambda alert: (alert.severity != severity, alert.name))
    names = list(dict.fromkeys(alert.name for alert in ranked))
    return {
        "alerts": len(found),
        "alert_severity": severity or None,
        "firing": names,
        "reason": f"{row.reason} {firing_sentence(names)}",
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
