"""Column types of the tables: badges, links, text, counts, durations, trends, times.

`ui.kit.columns`, `ui.alerting.columns` and `ui.checkpoints.columns` build their tables from them. Widths are
in pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import tzinfo
from typing import Any

import streamlit as st

from ui.kit.statuses import BadgeStyle

Columns = dict[str, Any]
#: Key of the click in the session state, callback, arguments of the callback.
Opener = tuple[str, Callable[..., None], tuple[Any, ...]]


def badges(label: str, styles: Iterable[BadgeStyle], width: int) -> Any:
    """A column of badges in the given styles."""
    return counted_badges(label, {style.label: style.hex for style in styles}, width)


def counted_badges(label: str, colors: dict[str, str], width: int) -> Any:
    """A column of badges; `colors` maps each possible text to its hex color."""
    return st.column_config.MultiselectColumn(
        label, options=list(colors), color=list(colors.values()), width=width
    )


def link(label: str, width: int, opener: Opener, tip: str = "Select a name to open its query.") -> Any:
    """A column of names that open something by click or Enter."""
    key, call, args = opener
    return st.column_config.ButtonColumn(
        label,
        width=width,
        type="tertiary",
        alignment="left",
        help=tip,
        key=key,
        on_click=call,
        args=args,
    )


def text(label: str, width: int | None = None) -> Any:
    """A column of text; without `width` it takes the remaining space."""
    return st.column_config.TextColumn(label, width=width)


def count(label: str, width: int = 80) -> Any:
    """A column of counts as `1.2K`."""
    return st.column_config.NumberColumn(label, format="compact", width=width)


def integer(label: str, width: int = 80) -> Any:
    """A column of whole numbers with all their digits: batches, versions, partitions."""
    return st.column_config.NumberColumn(label, format="%d", width=width)


def size(label: str, width: int = 84) -> Any:
    """A column of sizes in bytes as `3.4 MB`."""
    return st.column_config.NumberColumn(label, format="bytes", width=width)


def seconds(label: str, width: int = 80) -> Any:
    """A column of durations in seconds with one decimal."""
    return st.column_config.NumberColumn(label, format="%.1f s", width=width)


def span(label: str, width: int = 90) -> Any:
    """A column of durations in words of the viewer's locale."""
    return st.column_config.NumberColumn(label, format="localized", width=width, alignment="right")


def trend(title: str, color: str, width: int = 78) -> Any:
    """A column of small area charts that start at 0."""
    return st.column_config.AreaChartColumn(title, color=color, y_min=0, width=width)


def time(label: str, zone: tzinfo, width: int = 150) -> Any:
    """A column of times in the viewer's time zone."""
    return st.column_config.DatetimeColumn(
        label, format="YYYY-MM-DD HH:mm:ss", timezone=str(zone), width=width
    )
