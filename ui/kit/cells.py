"""The kinds of columns that tables have: badges, links, texts, figures, trends, times.

`ui.kit.columns` and `ui.alerting.columns` put tables together from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import tzinfo
from typing import Any

import streamlit as st

from ui.kit.statuses import BadgeStyle

Columns = dict[str, Any]
Opener = tuple[str, Callable[..., None], tuple[Any, ...]]  # the click's key, what to call, with what


def badges(label: str, looks: Iterable[BadgeStyle], width: int) -> Any:
    return counted_badges(label, {look.word: look.hex for look in looks}, width)


def counted_badges(label: str, words: dict[str, str], width: int) -> Any:
    """Words with their colors."""
    return st.column_config.MultiselectColumn(
        label, options=list(words), color=list(words.values()), width=width
    )


def link(label: str, width: int, opener: Opener, tip: str = "Press a name to open its query.") -> Any:
    """A name that leads somewhere, by click or by Enter."""
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
    return st.column_config.TextColumn(label, width=width)


def count(label: str, width: int = 80) -> Any:
    return st.column_config.NumberColumn(label, format="compact", width=width)


def seconds(label: str, width: int = 80) -> Any:
    return st.column_config.NumberColumn(label, format="%.1f s", width=width)


def span(label: str, width: int = 90) -> Any:
    return st.column_config.NumberColumn(label, format="localized", width=width, alignment="right")


def trend(title: str, color: str, width: int = 78) -> Any:
    return st.column_config.AreaChartColumn(title, color=color, y_min=0, width=width)


def time(label: str, zone: tzinfo, width: int = 150) -> Any:
    return st.column_config.DatetimeColumn(
        label, format="YYYY-MM-DD HH:mm:ss", timezone=str(zone), width=width
    )
