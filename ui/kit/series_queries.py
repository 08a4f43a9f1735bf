"""Series of the server's Prometheus API: what the Query page asks for, and the answers as tables. Pure.

One chart draws any of them (`charts.ranges`): its unit comes from the metric's name, its lines from the label
that tells them apart. What the server does not hold makes an empty table, never an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pandas as pd

from ui.kit import units
from ui.kit.frames import Json
from ui.kit.markup import one_line

MIN_STEP_SECONDS = 15.0  # seconds: the server's own grid; a finer step tells nothing more
MAX_POINTS = 360  # of a line, about
HOUR, DAY = 3600.0, 86_400.0
#: Hours that divide a day: points so far apart are at the same times of each day.
STEP_HOURS = (1, 2, 3, 4, 6, 8, 12)
MAX_LINES = 8
MAX_NAME_CHARS = 40
ELLIPSIS = "…"


@dataclass(frozen=True)
class ChartPanel:
    """One chart. `metrics` are names without `spark_streaming_`; `by` is the label that tells lines apart.

    `of`: the label of the query that selects its series. `needs`: what the query must have for the chart to
    be drawn at all; `absent` is said where it should have it and the server holds nothing.
    """

    key: str
    title: str
    metrics: tuple[str, ...]
    by: str = ""
    of: str = "query_id"
    needs: str = ""
    absent: str = "Nothing was recorded in this range."


PANELS = (
    ChartPanel("lag_seconds", "Lag in time", ("source_lag_seconds",), "source",
          absent="No source tells how old its oldest unread row is."),
    ChartPanel("watermark_lag", "Watermark behind the trigger", ("watermark_lag_seconds",), needs="watermark"),
    ChartPanel("rocksdb_size", "RocksDB size", ("rocksdb_sst_files_bytes", "rocksdb_pinned_blocks_bytes",
          "state_memory_bytes"), needs="rocksdb"),
    ChartPanel("rocksdb_time", "RocksDB time per batch, over all tasks", ("rocksdb_get_seconds",
          "rocksdb_put_seconds", "rocksdb_commit_flush_seconds", "rocksdb_commit_compact_seconds"),
          needs="rocksdb"),
    ChartPanel("executors", "Executors", ("executors",), "agent", of="app",
          absent="The driver does not tell how many executors it has."),
    ChartPanel("heap", "Driver heap", ("driver_heap_bytes", "driver_heap_max_bytes"), of="app",
          absent="The driver does not tell how much heap it uses."),
)  # fmt: skip


def panels(query: Json) -> list[ChartPanel]:
    """Those whose subject the query has."""
    has = {"": True, "watermark": bool(query.get("watermark")), "rocksdb": uses_rocksdb(query)}
    return [panel for panel in PANELS if has[panel.needs]]


def uses_rocksdb(query: Json) -> bool:
    metrics = (name for item in query.get("operators") or [] for name in item.get("customMetrics") or {})
    return any(str(name).startswith("rocksdb") for name in metrics)


def expression(panel: ChartPanel, query: Json, every: float = MIN_STEP_SECONDS) -> str:
    """PromQL that selects its series of this query; several metrics are told apart by the label `line`.

    Not by a pattern on the metrics' names: the server reads what it does not hold at hand by name only. Points that
    are `every` hour or more are medians since the one before: single moments of days would show a rhythm of their own.
    """
    own = f"{panel.of}={_quoted(str(query.get(panel.of) or ''))}"
    selected = [f"spark_streaming_{name}{{{own}}}" for name in panel.metrics]
    if every >= HOUR:
        selected = [f"quantile_over_time(0.5, {each}[{every:.0f}s])" for each in selected]
    if len(selected) == 1:
        return selected[0]
    words = (metric_label(name) for name in panel.metrics)
    named = zip(selected, words, strict=True)
    return " or ".join(f'label_replace({each}, "line", "{word}", "", "")' for each, word in named)


def newest(metric: str, query: Json) -> str:
    """PromQL of one metric of this query."""
    return f"spark_streaming_{metric}{{query_id={_quoted(str(query.get('query_id') or ''))}}}"


def single_value(answer: Json | None) -> float | None:
    """The value of an instant query that has one element; None where it has none or more."""
    found = ((answer or {}).get("data") or {}).get("result") or []
    return units.number((found[0].get("value") or (None, None))[1]) if len(found) == 1 else None


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def step(seconds: float) -> float:
    """Seconds between two points: a multiple of the server's grid; of long stretches whole hours and days."""
    return coarse_step(seconds) or MIN_STEP_SECONDS * max(
        1, -(-int(seconds) // int(MAX_POINTS * MIN_STEP_SECONDS))
    )


def coarse_step(seconds: float) -> float | None:
    """The same, of a stretch whose points are an hour apart or more; None of a shorter one."""
    least = seconds / MAX_POINTS / 1.05  # a year has a few days more than there are points
    if seconds / MAX_POINTS < HOUR:
        return None
    return next((hours * HOUR for hours in STEP_HOURS if hours * HOUR >= least), DAY * -(-least // DAY))


def unit(metric: str) -> str:
    """As `units.axis` wants it: from the name's end."""
    last = metric.rpartition("_")[2]
    return last if last in ("seconds", "bytes") else "rows"


def resolution_note(body: Json | None) -> str:
    """What a point of the charts stands for, where that is no report; empty where all are."""
    seconds = units.number((body or {}).get("resolution"))
    if not seconds:
        return ""
    return f"The older part is told in medians: each point stands for {_bucket(seconds)} or more."


def _bucket(seconds: float) -> str:
    for least, name in ((DAY, "a day"), (HOUR, "an hour")):
        if seconds >= least:
            many = round(seconds / least)
            return name if many == 1 else f"{many} {name.split()[1]}s"
    return "a minute"


def coverage_notes(body: Json | None) -> list[str]:
    """What the server says it cannot tell of this stretch, in its words."""
    notes = (body or {}).get("notes") or []
    return [one_line(note) for note in notes if not (body or {}).get("resolution")]


def table(answer: Json | None, panel: ChartPanel, window: tuple[float, float], every: float) -> pd.DataFrame:
    """`time` and a column a line on one grid, missing where the series was not there."""
    found = ((answer or {}).get("data") or {}).get("result") or []
    lines = dict(zip(_names(found, panel), found, strict=False))
    columns = {name: _values(item) for name, item in lines.items()}
    grid = pd.Index(sorted({at for values in columns.values() for at in values} | _holes(columns, every)))
    frame = pd.DataFrame({name: pd.Series(values, dtype=float) for name, values in columns.items()}, grid)
    frame.insert(0, "time", pd.to_datetime(grid.astype(float), unit="s", utc=True))
    return frame[(grid >= window[0] - every) & (grid <= window[1] + every)].reset_index(drop=True)


def _holes(columns: Mapping[str, Mapping[float, float]], every: float) -> set[float]:
    """A moment after each end of a line that is not its last, so that the chart does not draw across."""
    ends: set[float] = set()
    for values in columns.values():
        times = sorted(values)
        ends |= {a + every for a, b in pairwise(times) if b - a > 1.5 * every}
    return ends


def _values(item: Json) -> dict[float, float]:
    pairs = ((units.number(at), units.number(value)) for at, value in item.get("values") or [])
    return {at: value for at, value in pairs if at is not None and value is not None}


def _names(found: Sequence[Json], panel: ChartPanel) -> list[str]:
    """What each line is called: by its label, else by its metric; told apart where two are the same."""
    names: list[str] = []
    for item in found[:MAX_LINES]:
        name = _name(item.get("metric") or {}, panel)
        names.append(name if name not in names else f"{name} #{names.count(name) + len(names)}")
    return names


def _name(metric: Mapping[str, Any], panel: ChartPanel) -> str:
    words = [one_line(metric["line"])] if metric.get("line") else []
    if panel.by and metric.get(panel.by):
        words.append(_cut(one_line(metric[panel.by])))
    return " ".join(words) or panel.title.lower()


def metric_label(name: str) -> str:
    """`rocksdb_sst_files_bytes` → `sst files`."""
    return name.removeprefix("rocksdb_").rpartition("_")[0].replace("_", " ")


def _cut(text: str) -> str:
    return text if len(text) <= MAX_NAME_CHARS else text[: MAX_NAME_CHARS - 1] + ELLIPSIS
