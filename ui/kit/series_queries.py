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

STEP = 15.0  # seconds: the server's own grid; a finer step tells nothing more
POINTS = 360  # of a line, about
HOUR, DAY = 3600.0, 86_400.0
#: Hours that divide a day: points so far apart are at the same times of each day.
EVEN_HOURS = (1, 2, 3, 4, 6, 8, 12)
MOST_LINES = 8
LONGEST_NAME = 40
ELLIPSIS = "…"


@dataclass(frozen=True)
class Panel:
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
    Panel("lag_seconds", "Lag in time", ("source_lag_seconds",), "source",
          absent="No source tells how old its oldest unread row is."),
    Panel("watermark_lag", "Watermark behind the trigger", ("watermark_lag_seconds",), needs="watermark"),
    Panel("rocksdb_size", "RocksDB size", ("rocksdb_sst_files_bytes", "rocksdb_pinned_blocks_bytes",
          "state_memory_bytes"), needs="rocksdb"),
    Panel("rocksdb_time", "RocksDB time per batch, over all tasks", ("rocksdb_get_seconds",
          "rocksdb_put_seconds", "rocksdb_commit_flush_seconds", "rocksdb_commit_compact_seconds"),
          needs="rocksdb"),
    Panel("executors", "Executors", ("executors",), "agent", of="app",
          absent="The driver does not tell how many executors it has."),
    Panel("heap", "Driver heap", ("driver_heap_bytes", "driver_heap_max_bytes"), of="app",
          absent="The driver does not tell how much heap it uses."),
)  # fmt: skip


def panels(query: Json) -> list[Panel]:
    """Those whose subject the query has."""
    has = {"": True, "watermark": bool(query.get("watermark")), "rocksdb": uses_rocksdb(query)}
    return [panel for panel in PANELS if has[panel.needs]]


def uses_rocksdb(query: Json) -> bool:
    metrics = (name for item in query.get("operators") or [] for name in item.get("customMetrics") or {})
    return any(str(name).startswith("rocksdb") for name in metrics)


def expression(panel: Panel, query: Json, every: float = STEP) -> str:
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
    words = (metric_word(name) for name in panel.metrics)
    named = zip(selected, words, strict=True)
    return " or ".join(f'label_replace({each}, "line", "{word}", "", "")' for each, word in named)


def newest(metric: str, query: Json) -> str:
    """PromQL of one metric of this query."""
    return f"spark_streaming_{metric}{{query_id={_quoted(str(query.get('query_id') or ''))}}}"


def only(answer: Json | None) -> float | None:
    """The value of an instant query that has one element; None where it has none or more."""
    found = ((answer or {}).get("data") or {}).get("result") or []
    return units.number((found[0].get("value") or (None, None))[1]) if len(found) == 1 else None


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def step(seconds: float) -> float:
    """Seconds between two points: a multiple of the server's grid; of long stretches whole hours and days."""
    return coarse(seconds) or STEP * max(1, -(-int(seconds) // int(POINTS * STEP)))


def coarse(seconds: float) -> float | None:
    """The same, of a stretch whose points are an hour apart or more; None of a shorter one."""
    least = seconds / POINTS / 1.05  # a year has a few days more than there are points
    if seconds / POINTS < HOUR:
        return None
    return next((hours * HOUR for hours in EVEN_HOURS if hours * HOUR >= least), DAY * -(-least // DAY))


def unit(metric: str) -> str:
    """As `units.axis` wants it: from the name's end."""
    last = metric.rpartition("_")[2]
    return last if last in ("seconds", "bytes") else "rows"


def told_by(body: Json | None) -> str:
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


def lacking(body: Json | None) -> list[str]:
    """What the server says it cannot tell of this stretch, in its words."""
    notes = (body or {}).get("notes") or []
    return [one_line(note) for note in notes if not (body or {}).get("resolution")]


def table(answer: Json | None, panel: Panel, window: tuple[float, float], every: float) -> pd.DataFrame:
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


def _names(found: Sequence[Json], panel: Panel) -> list[str]:
    """What each line is called: by its label, else by its metric; told apart where two are the same."""
    names: list[str] = []
    for item in found[:MOST_LINES]:
        name = _name(item.get("metric") or {}, panel)
        names.append(name if name not in names else f"{name} #{names.count(name) + len(names)}")
    return names


def _name(metric: Mapping[str, Any], panel: Panel) -> str:
    words = [one_line(metric["line"])] if metric.get("line") else []
    if panel.by and metric.get(panel.by):
        words.append(_cut(one_line(metric[panel.by])))
    return " ".join(words) or panel.title.lower()


def metric_word(name: str) -> str:
    """`rocksdb_sst_files_bytes` → `sst files`."""
    return name.removeprefix("rocksdb_").rpartition("_")[0].replace("_", " ")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + ELLIPSIS
