"""Tables and numbers for a terminal, without control characters. Pure.

Called by the commands and by `controlplane.demo.report`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

UNKNOWN = "-"


def plain(value: object) -> str:
    """The value on one line without control characters: names come from users."""
    text = UNKNOWN if value is None or value == "" else str(value)
    return "".join(c if c.isprintable() else " " for c in text)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows in columns as wide as their widest cell; the last column is not padded."""
    cells = [list(head), *([plain(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    return "\n".join("  ".join(_padded(row, widths)).rstrip() for row in cells)


def listing(
    head: Sequence[str], items: Sequence[Mapping[str, Any]], row: Callable[[Any], Sequence[object]]
) -> str:
    """One row an item; where the items come from several servers, the first column names the server."""
    rows = [row(item) for item in items]
    if not any("server" in item for item in items):
        return table(head, rows)
    named = [(item.get("server"), *cells) for item, cells in zip(items, rows, strict=True)]
    return table(("SERVER", *head), named)


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]


def age(stamp: str | None, now: float) -> str:
    """Time since an RFC 3339 timestamp: `42 s`, `5 min`, `3 h`, `2 d`."""
    if not stamp:
        return UNKNOWN
    seconds = max(0.0, now - datetime.fromisoformat(stamp).astimezone(UTC).timestamp())
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


def figure(value: float | None) -> str:
    """A number in short form: 1234567 is `1.2M`; a small one keeps two digits: `0.017`."""
    if value is None:
        return UNKNOWN
    for power, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= power:
            return f"{value / (1e3 if letter == 'k' else power):.1f}{letter}"
    if 0 < value < 0.1:  # three batches an hour are not none
        return f"{value:.2g}" if value >= 0.001 else "<0.001"
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"


def read_rate(query: Mapping[str, Any]) -> float | None:
    """Input rate in rows per second; None for a query that does not run."""
    ended = query.get("status") in ("failed", "stopped", "finished", "lost", "unreachable", "retired")
    return None if ended else query.get("input_rows_per_second")


def backlog(query: Mapping[str, Any]) -> str:
    """The backlog in rows; in batches where the source's offsets do not count rows: `3 batches`."""
    rows, batches = query.get("lag_rows"), query.get("lag_batches")
    if rows is None and batches is not None:
        return f"{figure(batches)} batch{'' if batches == 1 else 'es'}"
    return figure(rows)


def shortened(text: str, width: int) -> str:
    """The text in at most `width` characters."""
    return text if len(text) <= width else text[: width - 1] + "…"


def query_name(query: dict[str, object]) -> str:
    """`app/name`, or `app/` with the first eight characters of the id of a query without a name."""
    return plain(f"{query.get('app')}/{query.get('name') or str(query.get('query_id'))[:8]}")
