"""The Fleet page's table as Arrow, the format that Streamlit sends: column by column, without a DataFrame.

Pure. `ui.kit.cached_reads` builds it once per answer of the server for all viewers; the Fleet page takes the
rows that pass a viewer's filters. An unknown value stays missing (never 0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ui.kit import action_checks, statuses, units
from ui.kit.frames import Json, label
from ui.kit.markup import one_line

TREND_POINTS = 20  # a trend is 78 pixels wide; a table of 1 000 queries has 2 000 of them
MAX_ALERT_COUNT = 20  # shown as a number; above it is "20+"

_NOT_READING = action_checks.NOT_RUNNING  # their last input rate is not the current one


def fleet(queries: Sequence[Json], now: float) -> pa.Table:
    """One row per query, in the order given; numbers stay numbers, so that the table sorts by value."""
    recent = [query.get("recent") or {} for query in queries]
    return pa.table(
        {
            "status": _badges([statuses.status(query.get("status")).label for query in queries]),
            "query": _texts([label(query) for query in queries]),
            "alerts": _badges([alert_badge(query) for query in queries]),
            "app": _texts([one_line(query.get("app") or "") for query in queries]),
            "reason": _texts([one_line(query.get("reason") or "") for query in queries]),
            "lag_rows": _numbers(queries, "lag_rows"),
            "lag_trend": _trends([each.get("lag_rows") for each in recent]),
            "lag": _spans([units.number(query.get("lag_seconds")) for query in queries]),
            "input": pa.array([_input_rate(query) for query in queries], pa.float64()),
            "batch": _numbers(queries, "batch_duration_seconds"),
            "batch_trend": _trends([each.get("batch_duration_seconds") for each in recent]),
            "state_rows": _numbers(queries, "state_rows"),
            "age": _spans([units.since(query.get("last_progress_at"), now) for query in queries]),
        }
    )


def rows(table: pa.Table, indexes: Sequence[int]) -> pa.Table:
    """The rows at these indexes; the table itself if these are all of them."""
    return table if len(indexes) == table.num_rows else table.take(pa.array(indexes, pa.int64()))


def alert_badge(query: Json) -> str:
    """Number of firing alerts and the worst severity: `3 critical`; empty if none fires."""
    count = int(units.number(query.get("alerts")) or 0)
    severity = query.get("alert_severity")
    return count_badge(count, severity if severity in statuses.SEVERITIES else "") if count > 0 else ""


def count_badge(count: int, severity: str) -> str:
    """`3 critical`, `20+ warning`; `2 firing` if the severity is unknown."""
    number = str(count) if count <= MAX_ALERT_COUNT else f"{MAX_ALERT_COUNT}+"
    return f"{number} {severity or 'firing'}"


def alert_badges() -> dict[str, str]:
    """Every possible badge with the color of its severity."""
    colors = {name: style.hex for name, style in statuses.SEVERITIES.items() if name}
    colors[""] = statuses.HEX_COLORS["red"]  # the severity is unknown
    counts = range(1, MAX_ALERT_COUNT + 2)
    return {count_badge(count, name): color for name, color in colors.items() for count in counts}


def _input_rate(query: Json) -> float | None:
    return None if query.get("status") in _NOT_READING else units.number(query.get("input_rows_per_second"))


def _texts(values: list[str]) -> pa.Array:
    return pa.array(values, pa.string())


def _badges(labels: list[str]) -> pa.Array:
    return pa.array([[label] if label else [] for label in labels], pa.list_(pa.string()))


def _numbers(queries: Sequence[Json], key: str) -> pa.Array:
    return pa.array([units.number(query.get(key)) for query in queries], pa.float64())


def _trends(values: list[Sequence[Any] | None]) -> pa.Array:
    return pa.array([trend(each) for each in values], pa.list_(pa.float32()))


def trend(values: Sequence[Any] | None) -> list[float]:
    """The newest known values, oldest first."""
    newest = (values or ())[-TREND_POINTS:]
    return [number for value in newest if (number := units.number(value)) is not None]


def _spans(values: list[float | None]) -> pa.Array:
    return pa.array([_nanoseconds(value) for value in values], pa.duration("ns"))


def _nanoseconds(seconds: float | None) -> int | None:
    """Rounded to what people read: tenths below 1 s, seconds below 10 min, minutes below a day, hours above."""
    if seconds is None or not math.isfinite(seconds):
        return None
    step = 0.1 if seconds < 1 else 1 if seconds < 600 else 60 if seconds < 86_400 else 3600
    return round(round(seconds / step) * step * 1e9)
