"""PromQL queries of the Query page's charts, and their answers as tables.

Pure. One chart type draws any of them (`charts.ranges`): the unit comes from the metric's name, the lines
from a label. A series that the server does not hold gives an empty table, never an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pandas as pd

from ui.kit import units
from ui.kit.frames import Json
from ui.kit.markup import one_line, truncate

MIN_STEP_SECONDS = 15.0  # the server's own grid; a finer step adds nothing
MAX_POINTS = 360  # per line, approximately
#: Steps in hours that divide a day, so that the points are at the same times of each day.
STEP_HOURS = (1, 2, 3, 4, 6, 8, 12)
MAX_LINES = 8
NO_DATA = "No data in this range."
MAX_NAME_CHARS = 40


@dataclass(frozen=True)
class ChartPanel:
    """One chart.

    `metrics`: names without `spark_streaming_`. `by`: label that distinguishes the lines. `of`: label of the
    query that selects its series. `needs`: what the query must have for the chart to be drawn at all.
    `empty_text`: shown if the query has it and the server holds no series.
    """

    key: str
    title: str
    metrics: tuple[str, ...]
    by: str = ""
    of: str = "query_id"
    needs: str = ""
    empty_text: str = NO_DATA


PANELS = (
    ChartPanel("lag_seconds", "Backlog age", ("source_lag_seconds",), "source",
          empty_text="No source reports the age of its oldest unread row."),
    ChartPanel("watermark_lag", "Watermark lag", ("watermark_lag_seconds",), needs="watermark"),
    ChartPanel("rocksdb_size", "RocksDB size", ("rocksdb_sst_files_bytes", "rocksdb_pinned_blocks_bytes",
          "state_memory_bytes"), needs="rocksdb"),
    ChartPanel("rocksdb_time", "RocksDB time per batch, over all tasks", ("rocksdb_get_seconds",
          "rocksdb_put_seconds", "rocksdb_commit_flush_seconds", "rocksdb_commit_compact_seconds"),
          needs="rocksdb"),
    ChartPanel("executors", "Executors", ("executors",), "agent", of="app",
          empty_text="The number of executors is not reported."),
    ChartPanel("heap", "Driver heap", ("driver_heap_bytes", "driver_heap_max_bytes"), of="app",
          empty_text="Driver heap is not reported."),
    ChartPanel("host_load", "Load of the host", ("driver_host_load1", "driver_host_cpus"), of="app",
          needs="host"),
    ChartPanel("host_memory", "Memory of the host", ("driver_host_memory_available_bytes",
          "driver_host_memory_bytes"), of="app", needs="host"),
    ChartPanel("throttling", "CPU throttling and memory pressure, share of the time",
          ("driver_cpu_throttled_ratio", "driver_memory_pressure_ratio"), of="app", needs="throttling"),
)  # fmt: skip


def panels(query: Json) -> list[ChartPanel]:
    """The panels that apply to the query."""
    host = (query.get("agent_info") or {}).get("host") or {}
    has = {
        "": True,
        "watermark": bool(query.get("watermark")),
        "rocksdb": uses_rocksdb(query),
        "host": bool(host),
        "throttling": bool(host.get("cpu_limit")) or host.get("memory_pressure") is not None,
    }
    return [panel for panel in PANELS if has[panel.needs]]


def uses_rocksdb(query: Json) -> bool:
    """Does an operator of the query report RocksDB metrics?"""
    metrics = (name for item in query.get("operators") or [] for name in item.get("customMetrics") or {})
    return any(str(name).startswith("rocksdb") for name in metrics)


def expression(panel: ChartPanel, query: Json, every: float = MIN_STEP_SECONDS) -> str:
    """PromQL for the panel's series of this query; several metrics are distinguished by the label `line`.

    It names each metric instead of matching names by a pattern, because the server reads series that are not
    in memory by name only. Points `every` hour or more apart are medians since the previous point: single
    samples of whole days would show a rhythm of their own.
    """
    own = f"{panel.of}={quoted(str(query.get(panel.of) or ''))}"
    selected = [f"spark_streaming_{name}{{{own}}}" for name in panel.metrics]
    if every >= units.HOUR_SECONDS:
        selected = [f"quantile_over_time(0.5, {each}[{every:.0f}s])" for each in selected]
    if len(selected) == 1:
        return selected[0]
    labels = (metric_label(name) for name in panel.metrics)
    labeled = zip(selected, labels, strict=True)
    return " or ".join(f'label_replace({each}, "line", "{label}", "", "")' for each, label in labeled)


def newest(metric: str, query: Json) -> str:
    """PromQL of one metric of this query."""
    return f"spark_streaming_{metric}{{query_id={quoted(str(query.get('query_id') or ''))}}}"


def single_value(answer: Json | None) -> float | None:
    """The value of an instant query's answer with exactly one element; else None."""
    found = ((answer or {}).get("data") or {}).get("result") or []
    return units.number((found[0].get("value") or (None, None))[1]) if len(found) == 1 else None


def quoted(text: str) -> str:
    """A text as a string of PromQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def step(seconds: float) -> float:
    """Seconds between two points: a multiple of the server's grid; whole hours and days for long ranges."""
    return coarse_step(seconds) or MIN_STEP_SECONDS * max(
        1, -(-int(seconds) // int(MAX_POINTS * MIN_STEP_SECONDS))
    )


def coarse_step(seconds: float) -> float | None:
    """The step of a range whose points are an hour or more apart; None for a shorter range."""
    shortest = seconds / MAX_POINTS / 1.05  # a year has a few days more than MAX_POINTS
    if seconds / MAX_POINTS < units.HOUR_SECONDS:
        return None
    days = units.DAY_SECONDS * -(-shortest // units.DAY_SECONDS)
    return next(
        (hours * units.HOUR_SECONDS for hours in STEP_HOURS if hours * units.HOUR_SECONDS >= shortest), days
    )


def unit(metric: str) -> str:
    """The kind of unit (see `units.axis`) that the end of the metric's name stands for."""
    last = metric.rpartition("_")[2]
    return last if last in ("seconds", "bytes", "ratio") else "rows"


def resolution_note(body: Json | None) -> str:
    """What a point of the charts stands for if older data is downsampled; else empty."""
    seconds = units.number((body or {}).get("resolution"))
    if not seconds:
        return ""
    return f"Older data is downsampled: each point is the median of {_bucket(seconds)} or more."


def _bucket(seconds: float) -> str:
    for length, name in ((units.DAY_SECONDS, "a day"), (units.HOUR_SECONDS, "an hour")):
        if seconds >= length:
            count = round(seconds / length)
            return name if count == 1 else f"{count} {name.split()[1]}s"
    return "a minute"


def coverage_notes(body: Json | None) -> list[str]:
    """The server's notes on what it does not have of this range."""
    notes = (body or {}).get("notes") or []
    return [one_line(note) for note in notes if not (body or {}).get("resolution")]


def table(answer: Json | None, panel: ChartPanel, window: tuple[float, float], every: float) -> pd.DataFrame:
    """`time` and one column per line on a common grid; missing where the series has no sample."""
    found = ((answer or {}).get("data") or {}).get("result") or []
    lines = dict(zip(_names(found, panel), found, strict=False))
    columns = {name: _values(item) for name, item in lines.items()}
    grid = pd.Index(sorted({at for values in columns.values() for at in values} | _gap_times(columns, every)))
    frame = pd.DataFrame({name: pd.Series(values, dtype=float) for name, values in columns.items()}, grid)
    frame.insert(0, "time", pd.to_datetime(grid.astype(float), unit="s", utc=True))
    return frame[(grid >= window[0] - every) & (grid <= window[1] + every)].reset_index(drop=True)


def _gap_times(columns: Mapping[str, Mapping[float, float]], every: float) -> set[float]:
    """A time after each end of a line before its last, so that the chart does not draw across the gap."""
    ends: set[float] = set()
    for values in columns.values():
        times = sorted(values)
        ends |= {a + every for a, b in pairwise(times) if b - a > 1.5 * every}
    return ends


def _values(item: Json) -> dict[float, float]:
    pairs = ((units.number(at), units.number(value)) for at, value in item.get("values") or [])
    return {at: value for at, value in pairs if at is not None and value is not None}


def _names(found: Sequence[Json], panel: ChartPanel) -> list[str]:
    """A name for each line: its label, else its metric; numbered where two would be the same."""
    names: list[str] = []
    for item in found[:MAX_LINES]:
        name = _name(item.get("metric") or {}, panel)
        names.append(name if name not in names else f"{name} #{names.count(name) + len(names)}")
    return names


def _name(metric: Mapping[str, Any], panel: ChartPanel) -> str:
    parts = [one_line(metric["line"])] if metric.get("line") else []
    if panel.by and metric.get(panel.by):
        parts.append(truncate(one_line(metric[panel.by]), MAX_NAME_CHARS))
    return " ".join(parts) or panel.title.lower()


def metric_label(name: str) -> str:
    """`rocksdb_sst_files_bytes` → `sst files`; `driver_host_cpus` → `cpus`."""
    bare = name.removeprefix("rocksdb_").removeprefix("driver_").removeprefix("host_")
    what, _, unit = bare.rpartition("_")
    return (what if unit in ("seconds", "bytes", "ratio") else bare).replace("_", " ")
