"""The rows of the fleet, kept as they were rendered for as long as their verdict stands.

Ten people with the Fleet page open cost one rendering of what changed, not ten of everything.
"""

from __future__ import annotations

from controlplane.api.bodies import QueryBody
from controlplane.api.render import query_body
from controlplane.model import QueryView
from controlplane.plane import Plane
from controlplane.verdicts import Judged


class Rows:
    """Rendered rows by query id; made anew with each new judgement."""

    def __init__(self, plane: Plane):
        self._plane = plane
        self._kept: dict[str, tuple[Judged, QueryBody]] = {}

    def row(self, view: QueryView, now: float) -> QueryBody:
        judged = self._plane.verdicts.judged(view, now)
        kept = self._kept.get(view.query_id)
        if kept is None or kept[0] is not judged:
            kept = judged, self._render(judged)
            self._kept[view.query_id] = kept
        return kept[1]

    def _render(self, judged: Judged) -> QueryBody:
        view, at = judged.view, judged.at
        since = self._plane.verdicts.since(view.query_id, judged.verdict.status, at)
        starts = self._plane.starts_of(view.query_id)
        return query_body(view, judged.verdict, since, starts, at)
