"""Checkpoints as tables: the page's rows, state stores, changes between two runs.

Pure. `ui.checkpoints.columns` formats the columns. An unknown value stays missing (never 0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ui.checkpoints import assessment
from ui.kit import statuses, units
from ui.kit.frames import Json, app_of
from ui.kit.markup import no_icon, one_line

FRESHNESS_MARKS = {"Checking": statuses.HEX_COLORS["blue"], "Stale": statuses.HEX_COLORS["yellow"]}
STORE_MARKS = {
    "Missing": statuses.HEX_COLORS["red"],
    "Behind": statuses.HEX_COLORS["red"],
    "Ahead": statuses.HEX_COLORS["gray"],  # normal while a batch runs or after a kill
}
MAX_STORES = 1000
COLUMNS = (
    "verdict",
    "query",
    "app",
    "summary",
    "mark",
    "planned",
    "committed",
    "bytes",
    "files",
    "age",
    "path",
)
STORE_COLUMNS = ("mark", "operator", "partition", "store", "newest", "expected", "snapshot", "files", "bytes")


def name(checkpoint: Json) -> str:
    """The query's name, else the first eight characters of its id."""
    return no_icon(checkpoint.get("query") or str(checkpoint.get("query_id") or "")[:8])


def checkpoints(items: Sequence[Json], now: float) -> pd.DataFrame:
    """One row per checkpoint, in the order given."""
    rows = [
        (
            [statuses.verdict(item.get("verdict") or "unknown").label],
            name(item),
            app_of(item),
            assessment.sentence(item),
            freshness(item),
            units.number(item.get("last_planned_batch")),
            units.number(item.get("last_committed_batch")),
            units.number(item.get("bytes")),
            units.number(item.get("files")),
            units.since(item.get("collected_at"), now),
            one_line(item.get("checkpoint") or ""),
        )
        for item in items
    ]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame["age"] = pd.to_timedelta(frame["age"].astype(float).map(_coarse), unit="s")
    return frame


def _coarse(seconds: float) -> float:
    """Rounded to what people read: seconds below 10 min, minutes below a day, hours above."""
    step = 1 if seconds < 600 else 60 if seconds < units.DAY_SECONDS else 3600
    return round(seconds / step) * step if seconds == seconds else seconds


def freshness(item: Json) -> list[str]:
    """Mark of a checkpoint that is being checked or whose assessment is stale."""
    if item.get("collecting"):
        return ["Checking"]
    return ["Stale"] if item.get("stale") else []


def stores(items: Sequence[Json]) -> pd.DataFrame:
    """One row per state store, unloadable ones first; at most MAX_STORES."""
    ordered = sorted(items, key=_unloadable_first)[:MAX_STORES]
    rows = [
        (
            [mark] if (mark := store_mark(item)) else [],
            units.number(item.get("operator")),
            units.number(item.get("partition")),
            one_line(item.get("store") or ""),
            units.number(item.get("newest_version")),
            units.number(item.get("expected_version")),
            units.number(item.get("newest_snapshot")),
            units.number(item.get("files")),
            units.number(item.get("bytes")),
        )
        for item in ordered
    ]
    return pd.DataFrame(rows, columns=list(STORE_COLUMNS))


def store_mark(item: Json) -> str:
    """The store's version compared with the version that the next batch loads; empty if it matches."""
    newest, expected = units.number(item.get("newest_version")), units.number(item.get("expected_version"))
    if expected is None:
        return ""
    if newest is None:
        return "Missing" if expected else ""
    return "Behind" if newest < expected else "Ahead" if newest > expected else ""


def count_unloadable(items: Sequence[Json]) -> int:
    """Number of stores that cannot load the version of the next batch."""
    return sum(store_mark(item) in ("Missing", "Behind") for item in items)


def _unloadable_first(item: Json) -> tuple[float, ...]:
    order = [*STORE_MARKS, ""]
    position = (units.number(item.get("operator")) or 0.0, units.number(item.get("partition")) or 0.0)
    return order.index(store_mark(item)), *position


def changes(findings: Sequence[Json]) -> pd.DataFrame:
    """Changes between two runs, as the server judged them."""
    rows = [
        (
            [statuses.finding(item.get("severity")).label],
            one_line(item.get("message") or ""),
            one_line(item.get("rule") or item.get("check") or ""),
            one_line(remedy(item)),
        )
        for item in findings
    ]
    return pd.DataFrame(rows, columns=["severity", "message", "rule", "remedy"])


def remedy(finding: Mapping[str, Any]) -> str:
    """The steps on one line."""
    steps = finding.get("remedy")
    return "; ".join(str(step) for step in steps) if isinstance(steps, list) else str(steps or "")


def known_values(points: Sequence[Json], key: str) -> list[float]:
    """The known values of `bytes` or `files`, oldest first."""
    return [value for point in points if (value := units.number(point.get(key))) is not None]


def growth_note(points: Sequence[Json], key: str, now: float) -> str:
    """`+12 MB in 3 h`; empty with fewer than two known values."""
    known = [point for point in points if units.number(point.get(key)) is not None]
    elapsed = [units.since(point.get("at"), now) for point in known]
    if len(known) < 2 or elapsed[0] is None or elapsed[-1] is None:
        return ""
    change = float(known[-1][key]) - float(known[0][key])
    written = units.size(abs(change)) if key == "bytes" else units.count(abs(change))
    sign = "±" if not change else "+" if change > 0 else "−"
    return f"{sign}{written} in {units.span(round(elapsed[0] - elapsed[-1]))}"
