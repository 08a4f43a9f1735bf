"""One cursor for the charts of the Query page, a range that is chosen by a drag, and a moment by a click.

The range is put in the address, so that all charts read it again at its own resolution. A double click on a chart
leads back to the range before. `From – to` does the same by keyboard. The page opens the batch of the moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from ui.kit import charts, time_range, units

ASSETS = Path(__file__).parent.parent / "assets"
HINT = (
    "Drag across a chart to choose the range, double-click to go back, click to open the batch of that time."
)
MIN_SECONDS = 5.0


def draw(margins: Mapping[str, charts.Margins], window: tuple[float, float]) -> float | None:
    """Link the charts, by key the margins of each plot; `window` is their time axis in Unix seconds.

    Returns the moment that was clicked since the last run, in Unix seconds.
    """
    fixed = time_range.from_address(st.query_params) is not None
    answer = _component()(
        key="chart_range",
        data={"charts": dict(margins), "window": list(window), "fixed": fixed},
        on_range_change=lambda: None,
        on_moment_change=lambda: None,
    )
    if chosen := (answer or {}).get("range"):
        _choose(chosen, window)
        st.rerun()
    return units.number((answer or {}).get("moment"))


def _choose(chosen: Mapping[str, Any], window: tuple[float, float]) -> None:
    """Pin the chosen range, or the one before it; the first of them followed the clock."""
    earlier: list[tuple[str, str] | None] = st.session_state.setdefault("chart_ranges", [])
    if chosen.get("back"):
        before = earlier.pop() if earlier else None
        if before is None:
            time_range.unpin()
        else:
            st.query_params["from"], st.query_params["to"] = before
        return
    params = st.query_params
    earlier.append((params["from"], params["to"]) if {"from", "to"} <= set(params) else None)
    time_range.pin(*bounds(chosen, window))


def bounds(chosen: Mapping[str, Any], window: tuple[float, float]) -> tuple[float, float]:
    """Start and end within the window, at least `MIN_SECONDS` apart."""
    start, end = (min(max(float(chosen[name]), window[0]), window[1]) for name in ("from", "to"))
    if end - start < MIN_SECONDS:
        middle = (start + end) / 2
        start, end = middle - MIN_SECONDS / 2, middle + MIN_SECONDS / 2
    return start, end


def _component() -> Any:
    return st.components.v2.component(
        "controlplane_chart_range", js=(ASSETS / "chart_range.js").read_text(encoding="utf-8")
    )
