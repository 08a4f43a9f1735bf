"""The rows of the fleet, kept as they were rendered for as long as their verdict stands.

Ten people with the Fleet page open cost one rendering of what changed, not ten of everything.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from controlplane.api.bodies import QueryBody
from controlplane.api.render import query_body
from controlplane.model import QueryView
from controlplane.plane import Plane
from controlplane.verdicts import Judged


class Rows:
    """Rendered rows; each lives as long as the judgement it shows."""

    def __init__(self, plane: Plane):
        self._plane = plane
        self._kept: WeakKeyDictionary[Judged, QueryBody] = WeakKeyDictionary()

    def row(self, view: QueryView, now: float) -> QueryBody:
        judged = self._plane.verdicts.judged(view, now)
        row = self._kept.get(judged)
        if row is None:
            row = self._kept[judged] = self._render(judged)
        return row

    def _render(self, judged: Judged) -> QueryBody:
        view, at = judged.view, judged.at
        since = self._plane.verdicts.since(view.query_id, judged.verdict.status, at)
        starts = self._plane.starts_of(view.query_id)
        return query_body(view, judged.verdict, since, starts, at)
