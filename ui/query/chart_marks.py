"""What happened to a query, as vertical lines on each of its charts: starts, changes by a deploy, alerts. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ui.kit import statuses, units
from ui.kit.charts import ChartMark
from ui.kit.frames import Json

START_COLOR, CHANGE_COLOR = "#8b93a1", "#8e6ad8"
#: Kinds of `GET …/what-changed` that a deploy makes; a start alone and a new driver are none.
DEPLOY_KINDS = frozenset({"spark", "label", "query"})
MAX_MARKS = 60
LEGEND = {
    "start": ":gray[┆ start of a run]",
    "change": ":violet[┆ start with a changed plan, option, version or label]",
    "alert": ":red[┆] :orange[┆] alert began to fire",
}


def marks(
    query: Json, alerts: Sequence[Json], changes: Sequence[Json], window: tuple[float, float]
) -> tuple[list[ChartMark], str]:
    """The marks within the window, and the legend of the kinds among them; of very many the last ones."""
    deployed = {units.moment(each.get("at")) for each in changes if each.get("kind") in DEPLOY_KINDS}
    found: list[tuple[str, ChartMark]] = []
    for run in query.get("runs") or []:
        at = units.moment(run.get("started_at"))
        if at is not None and at in deployed:
            found.append(("change", ChartMark(at, CHANGE_COLOR)))
        elif at is not None:
            found.append(("start", ChartMark(at, START_COLOR, "dotted")))
    for alert in alerts:
        at = units.moment(alert.get("fired_at"))
        if at is not None:
            found.append(("alert", ChartMark(at, statuses.severity(alert.get("severity")).hex)))
    shown = sorted((pair for pair in found if window[0] <= pair[1].at <= window[1]), key=lambda p: p[1].at)
    kinds = {kind for kind, _ in shown[-MAX_MARKS:]}
    return [mark for _, mark in shown[-MAX_MARKS:]], " · ".join(
        text for kind, text in LEGEND.items() if kind in kinds
    )
