"""Plots of the report as SVG for the page: no network, no embedded fonts, dark and light.

Called by `controlplane.pipeline.report.page`. Colors are placeholders for CSS variables of the page.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

Json = dict[str, Any]
#: Unique placeholder color → CSS variable of the page.
COLOR_VARIABLES = {
    "#010203": "var(--ink)",
    "#040506": "var(--soft)",
    "#070809": "var(--line)",
    "#0a0b0c": "var(--main)",
    "#0d0e0f": "var(--bad)",
}
INK, SOFT, LINE, MAIN, BAD = COLOR_VARIABLES
STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "report",
    "text.parse_math": False,
    "axes.unicode_minus": True,
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "legend.frameon": False,
}


def attainment(days: Sequence[Json]) -> str:
    """The fleet's attainment by day, and its downtime below."""
    with _Canvas(9.2, 3.0, 2) as canvas:
        (above, below), at = canvas.axes, [_day(day["day"]) for day in days]
        above.plot(
            at, [_percent(day["attainment"]) for day in days], color=MAIN, linewidth=1.8, marker="o", ms=3
        )
        above.set_ylabel("% within objective")
        above.margins(y=0.2)
        low = above.get_ylim()[0]
        above.set_ylim(max(0.0, min(low, 99.0)), 100.5)  # 100 % is the maximum
        if at:
            above.set_xlim(min(at) - timedelta(days=0.7), max(at) + timedelta(days=0.7))
        below.bar(at, [day["downtime_seconds"] / 3600 for day in days], color=BAD, width=0.7)
        below.set_ylabel("h downtime")
        below.set_ylim(bottom=0)
        return canvas.svg("The fleet by day: batches within the objective, and hours of downtime")


def growth(series: Sequence[Json], trend: Json, limit: float | None, unit: str) -> str:
    """State by day, its trend with the interval thirty days ahead, and the limit."""
    import numpy as np

    with _Canvas(4.5, 2.5) as canvas:
        axes = canvas.axes[0]
        at = [_day(each_series["day"]) for each_series in series]
        axes.plot(at, [each_series["value"] for each_series in series], ".", color=MAIN, ms=4)
        last = at[-1]
        ahead = np.array([-(last - at[0]).days, 0, 30])
        days = np.array([np.datetime64(last.date()) + np.timedelta64(int(n), "D") for n in ahead])
        axes.plot(days, trend["level"] + trend["per_day"] * ahead, color=MAIN, linewidth=1.4)
        future = ahead[1:]
        low, high = (
            np.maximum(0, trend["level"] + trend[name] * future) for name in ("per_day_low", "per_day_high")
        )
        axes.fill_between(days[1:], low, high, color=MAIN, alpha=0.2, linewidth=0)
        top = max(float(high.max()), *(each_series["value"] for each_series in series))
        if limit is not None and limit < 2.5 * top:
            axes.axhline(limit, color=BAD, linewidth=1.2, linestyle="--")
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(lambda value, _: short(value))
        return canvas.svg(f"State in {unit} by day, with its trend thirty days ahead")


def busy(queries: Sequence[Json]) -> str:
    """The busiest queries: share of time with a running trigger in their busiest hours."""
    with _Canvas(9.2, 0.7 + 0.27 * len(queries)) as canvas:
        axes = canvas.axes[0]
        names = [truncate(f"{query['query']} · {query['app']}", 44) for query in queries]
        shares = [100 * query["headroom"]["busy_share_p95"] for query in queries]
        colors = [BAD if query["headroom"]["tight"] else MAIN for query in queries]
        axes.barh(range(len(names)), shares, color=colors, height=0.62)
        axes.set_yticks(range(len(names)), names, color=INK)
        axes.invert_yaxis()
        axes.set_xlim(0, max(100, *shares))
        axes.set_xlabel("% of time with a running trigger, 95th percentile of the hours")
        axes.grid(visible=True, axis="x")
        axes.grid(visible=False, axis="y")
        return canvas.svg("Busy share of the busiest queries")


def truncate(text: str, max_chars: int) -> str:
    """Text of at most `max_chars` characters, ending with … where truncated."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def short(value: float) -> str:
    """1 234 567 → 1.2 M."""
    for size, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {sign}"
    return f"{value:.3g}"


def _day(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _percent(value: float | None) -> float:
    return float("nan") if value is None else 100 * value


class _Canvas:
    """A figure with axes in one column, in the report's style."""

    def __init__(self, width: float, height: float, rows: int = 1):
        self.size, self.rows = (width, height), rows

    def __enter__(self) -> _Canvas:
        import matplotlib as mpl
        from matplotlib.figure import Figure

        self._style = mpl.rc_context(STYLE)
        self._style.__enter__()
        self.figure = Figure(figsize=self.size, layout="constrained")
        self.figure.patch.set_alpha(0)
        heights = [2] + [1] * (self.rows - 1)
        made = self.figure.subplots(self.rows, 1, sharex=True, squeeze=False, height_ratios=heights)
        self.axes = [row[0] for row in made]
        for axes in self.axes:
            axes.patch.set_alpha(0)
            axes.tick_params(length=0)
        return self

    def __exit__(self, *_: object) -> None:
        self._style.__exit__(None, None, None)

    def svg(self, label: str) -> str:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, DayLocator

        axes = self.axes[-1]
        if hasattr(axes.xaxis.get_major_locator(), "intervald"):
            begin, end = axes.get_xlim()
            # Values are daily: no hours between them.
            where = DayLocator() if end - begin < 8 else AutoDateLocator(minticks=3, maxticks=8)
            axes.xaxis.set_major_locator(where)
            axes.xaxis.set_major_formatter(ConciseDateFormatter(where))
        text = io.StringIO()
        with warnings.catch_warnings():
            # Names may be in any script: the browser's fonts draw them, whatever matplotlib's lack.
            warnings.filterwarnings("ignore", "Glyph", UserWarning)
            self.figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        canvas = text.getvalue()
        canvas = canvas[canvas.index("<svg") :]
        for color, role in COLOR_VARIABLES.items():
            canvas = canvas.replace(color, role)
        return canvas.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
