"""A table of links as HTML: sentences wrap, rows are reached by keyboard, and a phone shows name and sentence first.

A refresh changes only the cells that differ. Sorting and paging are the caller's: the table sends the clicks. The keys
`/ ↓ ↑ Enter n p ?` work on each page that draws it. Text is shown verbatim, never as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import streamlit as st

ASSETS = Path(__file__).parent.parent / "assets"
#: A column's place: the row's title, its sentence (the widest, or most of the table), a number, or a cell that a phone shows too.
Style = Literal["title", "wide", "wide most", "number", "tight", "tight phone", ""]
#: A text, or an object with `text` and `href` or `pill` (a color), `note`, `points` (0 to 12), or `at` (Unix seconds).
Cell = str | Mapping[str, Any]
TREND_HEIGHT = 12


@dataclass(frozen=True)
class ListColumn:
    """A column. `sort`: what a click on its head orders by; empty for a column that does not sort."""

    label: str
    style: Style = ""
    sort: str = ""


@dataclass(frozen=True)
class ListRow:
    """A row; `key` identifies it from one refresh to the next."""

    key: str
    cells: Sequence[Cell]


@dataclass(frozen=True)
class PageOfRows:
    """Rows from `offset` on, at most `limit` of `total`, in the order `sort` (a leading `-` is descending)."""

    rows: Sequence[ListRow]
    total: int
    offset: int = 0
    limit: int = 100
    sort: str = ""


def by_link(key: str) -> None:
    """For rows whose links lead to another page: the browser follows them, see `ui.kit.widgets.follow_click`."""


def draw(
    key: str,
    label: str,
    columns: Sequence[ListColumn],
    page: PageOfRows,
    opened: Callable[[str], None] | None = None,
    sorted_by: Callable[[str], None] | None = None,
    turned_to: Callable[[int], None] | None = None,
) -> None:
    """Draw the table. `label` names it for screen readers; the callbacks get a row's key, a column's `sort`, an offset.

    Without `opened` the rows open nothing, their links are plain ones, and the keys are those of another table of the
    page.
    """
    component = _component()
    component(
        key=key,
        data=payload(label, columns, page) | {"opens": opened is not None},
        on_open_change=lambda: _passed(key, "open", opened),
        on_sort_change=lambda: _passed(key, "sort", sorted_by),
        on_page_change=lambda: _passed(key, "page", turned_to),
    )


def payload(label: str, columns: Sequence[ListColumn], page: PageOfRows) -> dict[str, Any]:
    """What the browser gets: the same for the same rows, so that an unchanged page is not sent again."""
    return {
        "label": label,
        "columns": [vars(column) for column in columns],
        "rows": [{"id": row.key, "cells": list(row.cells)} for row in page.rows],
        "sort": page.sort,
        "page": {"offset": page.offset, "limit": page.limit, "total": page.total},
    }


def trend(values: Sequence[float]) -> list[int]:
    """Heights of a line's points, 0 to TREND_HEIGHT; empty for fewer than two values."""
    if len(values) < 2:
        return []
    low, high = min(0.0, *values), max(values)
    return [round(TREND_HEIGHT * (value - low) / ((high - low) or 1.0)) for value in values]


def _passed(key: str, name: str, callback: Callable[[Any], None] | None) -> None:
    value = (st.session_state.get(key) or {}).get(name)
    if callback and value is not None:
        callback(value)


def _component() -> Any:
    return st.components.v2.component(
        "controlplane_listing",
        css=(ASSETS / "listing.css").read_text(encoding="utf-8"),
        js=(ASSETS / "listing.js").read_text(encoding="utf-8"),
    )
