"""ECharts options of a query's charts: DataFrame (see `frames.progress`) in, option dict out.

Pure. The Query page passes the options to `st.echarts_chart`. All charts of a page share one time axis, so
that they can be compared vertically. Values are divided beforehand, so that the axes carry small numbers and
a unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ui.kit import units
from ui.kit.frames import PHASES

Option = dict[str, Any]

# addBatch is the actual work and gets the quiet color; planning and commits are Spark's overhead.
PHASE_COLORS = {
    "addBatch": "#4c8dff",
    "queryPlanning": "#8e6ad8",
    "latestOffset": "#1a9fb5",
    "getBatch": "#30a46c",
    "walCommit": "#d9a514",
    "commitOffsets": "#e8703a",
    "other": "#8b93a1",
}
#: The phases in people's words; the tooltip has Spark's name too, which is the column's.
PHASE_LABELS = {
    "addBatch": "process the batch",
    "queryPlanning": "plan",
    "latestOffset": "find new data",
    "getBatch": "prepare the input",
    "walCommit": "write the offset log",
    "commitOffsets": "write the commit log",
    "other": "other",
}
#: Pixels around the plot. They are fixed, so that a time has the same place in each chart of a column.
Margins = dict[str, int]
MARGINS: Margins = {"top": 34, "right": 16, "bottom": 24, "left": 58}
#: With an axis on both sides.
STATE_MARGINS: Margins = {**MARGINS, "right": 58}
#: Batches shorter than this share of the trigger interval set the axis; the trigger line is then above it.
MIN_TRIGGER_SHARE = 0.2

BLUE, GREEN, AMBER, VIOLET, RED = "#4c8dff", "#30a46c", "#d9a514", "#8e6ad8", "#e5484d"

LINE_COLORS = (BLUE, GREEN, AMBER, VIOLET, "#e8703a", "#1a9fb5", "#c2569b", "#8b93a1")

#: Column → name and color of each line of the rate chart.
RATE_SERIES = {
    "arrival": ("arrival rate", AMBER),
    "input": ("input rate", BLUE),
    "processing": ("processing rate", GREEN),
}


@dataclass(frozen=True)
class ChartMark:
    """A vertical line at a time (Unix seconds) at which something happened to the query."""

    at: float
    color: str
    dashes: str = "dashed"


def rates(frame: pd.DataFrame, window: tuple[float, float], marks: Sequence[ChartMark]) -> Option:
    """Rows per second: arrival rate (if the source reports a latest offset), input rate, processing rate."""
    names = [name for name in RATE_SERIES if frame[name].notna().any()]
    divisor, unit = _scale(frame, names, "rows")
    option = _option(_scaled(frame, {RATE_SERIES[name][0]: name for name in names}, divisor), window, unit)
    option["series"] = [_line(*RATE_SERIES[name], f"{unit} rows/s", area=name == "input") for name in names]
    option["yAxis"]["name"] = "rows/s"
    option["yAxis"].pop("minInterval", None)  # three rows an hour are a rate too
    # The processing rate excludes waiting time and dwarfs the other two: hidden until selected.
    option["legend"]["selected"] = {RATE_SERIES["processing"][0]: False}
    return _marked(option, marks)


def backlog(frame: pd.DataFrame, window: tuple[float, float], marks: Sequence[ChartMark]) -> Option:
    """Rows between the sources' latest offsets and the rows read."""
    divisor, unit = _scale(frame, ["lag_rows"], "rows")
    option = _option(_scaled(frame, {"backlog": "lag_rows"}, divisor), window, unit)
    option["yAxis"]["name"] = "rows"
    option["series"] = [_line("backlog", AMBER, f"{unit} rows", area=True)]
    return _marked(option, marks)


def durations(
    frame: pd.DataFrame, window: tuple[float, float], marks: Sequence[ChartMark], trigger: float | None
) -> Option:
    """Batch duration stacked by phase, with the trigger interval as a line."""
    names = [name for name in (*PHASES, "other") if frame[name].fillna(0).gt(0).any()]
    largest = _largest(frame, ["duration"])
    show_trigger = trigger is not None and largest >= MIN_TRIGGER_SHARE * trigger
    divisor, unit = units.axis(max(largest, trigger) if show_trigger and trigger else largest, "seconds")
    option = _option(_scaled(frame, {name: name for name in names}, divisor), window, unit)
    option["series"] = [_stacked(name, unit) for name in names]
    if names and trigger:
        option["series"][0]["markLine"] = _trigger_line(trigger, divisor)
        if show_trigger:
            option["yAxis"] |= _axis_to(max(largest, trigger) / divisor)
    return _marked(option, marks)


def state(frame: pd.DataFrame, window: tuple[float, float], marks: Sequence[ChartMark]) -> Option:
    """Rows in the state (left axis) and their memory (right axis)."""
    divisor, unit = _scale(frame, ["state_rows"], "rows")
    bytes_divisor, bytes_unit = _scale(frame, ["state_bytes"], "bytes")
    table = _scaled(frame, {"rows": "state_rows"}, divisor)
    table["memory"] = frame["state_bytes"] / bytes_divisor
    option = _option(table, window, unit)
    option["yAxis"]["name"] = "rows"
    right = {**_value_axis(bytes_unit), "name": "memory", "position": "right", "splitLine": {"show": False}}
    option["yAxis"] = [option["yAxis"], right]
    option["grid"] = plot(STATE_MARGINS)
    option["series"] = [
        _line("rows", VIOLET, f"{unit} rows", area=True),
        {**_line("memory", GREEN, bytes_unit), "yAxisIndex": 1},
    ]
    return _marked(option, marks)


def ranges(frame: pd.DataFrame, window: tuple[float, float], marks: Sequence[ChartMark], kind: str) -> Option:
    """The lines of a range query's answer (`series_queries.table`); `kind` as in `units.axis`."""
    names = [str(name) for name in frame.columns if name != "time"]
    divisor, unit = _scale(frame, names, kind)
    option = _option(_scaled(frame, {name: name for name in names}, divisor), window, unit)
    option["series"] = [
        {
            **_line(name, LINE_COLORS[place % len(LINE_COLORS)], unit, area=len(names) == 1),
            "showSymbol": has_single_points(frame[name]),
        }
        for place, name in enumerate(names)
    ]
    option["legend"]["show"] = len(names) > 1
    return _marked(option, marks)


def has_single_points(values: pd.Series) -> bool:
    """Whether a known value has no known neighbor: a line without symbols does not show it."""
    known = values.notna()
    return bool((known & ~known.shift(1, fill_value=False) & ~known.shift(-1, fill_value=False)).any())


def _scale(frame: pd.DataFrame, columns: list[str], kind: str) -> tuple[float, str]:
    return units.axis(_largest(frame, columns), kind)


def _largest(frame: pd.DataFrame, columns: list[str]) -> float:
    largest = frame[columns].abs().max().max()
    return 0.0 if pd.isna(largest) else float(largest)


def _scaled(frame: pd.DataFrame, columns: dict[str, str], divisor: float) -> pd.DataFrame:
    table = pd.DataFrame({"time": frame["time"]})
    for name, column in columns.items():
        table[name] = frame[column] / divisor
    return table


def _option(table: pd.DataFrame, window: tuple[float, float], unit: str) -> Option:
    start, end = window
    return {
        "animation": False,  # a chart that moves every five seconds cannot be read
        "dataset": {"source": table},
        "grid": plot(MARGINS),
        "legend": {
            "type": "scroll",
            "top": 0,
            "right": 8,
            "itemWidth": 12,
            "itemHeight": 8,
            "icon": "roundRect",
        },
        "tooltip": {"trigger": "axis", "confine": True},
        "xAxis": {"type": "time", "min": int(start * 1000), "max": int(end * 1000)},
        "yAxis": _value_axis(unit),
    }


def plot(margins: Margins) -> dict[str, Any]:
    """A chart's grid with exactly these margins, whatever its labels."""
    return {**margins, "containLabel": False, "outerBoundsMode": "none"}


def _value_axis(unit: str) -> dict[str, Any]:
    label = f"{{value}}{unit}" if unit in ("k", "M", "G", "T") else f"{{value}} {unit}".strip()
    style = {"nameGap": 8, "nameTextStyle": {"fontSize": 11}}
    axis = {"type": "value", "min": 0, "splitNumber": 4, "axisLabel": {"formatter": label}, **style}
    return axis if unit else {**axis, "minInterval": 1}  # rows without a prefix are whole numbers


def _line(name: str, color: str, unit: str, area: bool = False) -> dict[str, Any]:
    series = {
        "type": "line",
        "name": name,
        "encode": {"x": "time", "y": name, "tooltip": [name]},
        "color": color,
        "lineStyle": {"width": 1.6},
        "showSymbol": False,
        "tooltip": {"valueFormatter": f"%.2f {unit.replace('%', '%%')}".strip()},
    }
    return {**series, "areaStyle": {"opacity": 0.12}} if area else series


def _stacked(name: str, unit: str) -> dict[str, Any]:
    line = {**_line(name, PHASE_COLORS[name], unit), "name": PHASE_LABELS[name]}
    return {**line, "stack": "phases", "lineStyle": {"width": 0.6}, "areaStyle": {"opacity": 0.55}}


def _trigger_line(trigger: float, divisor: float) -> dict[str, Any]:
    """Without a label, which would overlap the areas; the chart's title explains the line."""
    line = {"type": "dashed", "width": 1.4, "color": RED}
    at = [{"yAxis": trigger / divisor}]
    return {"silent": True, "symbol": "none", "lineStyle": line, "label": {"show": False}, "data": at}


def _axis_to(largest: float) -> dict[str, float]:
    """An axis of at most five even steps that ends just above the largest value."""
    power = 10.0 ** math.floor(math.log10(largest))
    for step in (power / 5, power / 4, power / 2, power, 2 * power, 2.5 * power):
        count = math.ceil(largest * 1.03 / step)
        if count <= 5:
            return {"max": count * step, "interval": step}
    return {"max": 5 * 2.5 * power, "interval": 2.5 * power}


def _marked(option: Option, marks: Sequence[ChartMark]) -> Option:
    """With a vertical line at each mark."""
    if marks and option["series"]:
        first = option["series"][0]
        line = first.setdefault("markLine", {"silent": True, "symbol": "none", "data": []})
        line["data"] = [*line["data"], *map(_mark_line, marks)]
    return option


def _mark_line(mark: ChartMark) -> dict[str, Any]:
    style = {"type": mark.dashes, "width": 1, "color": mark.color}
    return {"xAxis": int(mark.at * 1000), "lineStyle": style, "label": {"show": False}}
