"""Text of the demo's status table: pure functions from API responses to lines.

Called by `controlplane.demo.watch`; numbers look as in the tables of the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from controlplane.console.tables import UNKNOWN, backlog, figure, read_rate

Query = Mapping[str, Any]


def of_fleet(found: Iterable[Query], wanted: Iterable[str], since: float) -> list[Query]:
    """The queries of this demonstration, in the API's order (worst first).

    Queries without an event since `since` (Unix seconds) belong to an earlier demonstration.
    """
    names = set(wanted)
    return [query for query in found if query.get("name") in names and last_event_at(query) >= since]


def last_event_at(query: Query) -> float:
    """Time of its last event in Unix seconds; 0 where it is unknown."""
    text = query.get("last_event_at")
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def shows_figures(query: Query) -> bool:
    """Whether one of its batches was reported."""
    return query.get("batch_id") is not None


def headline(counts: Mapping[str, int]) -> str:
    """`4 queries: 1 failed, 1 lagging, 2 running`."""
    known = [f"{number} {status}" for status, number in counts.items() if number]
    return queries(sum(counts.values())) + (": " + ", ".join(known) if known else "")


def queries(number: int) -> str:
    """`1 query`, `2 queries`."""
    return f"{number} {'query' if number == 1 else 'queries'}"


def row(query: Query, width: int) -> str:
    """One query on one line of at most `width` characters: status, name, numbers, reason."""
    rate = read_rate(query)
    cells = [
        f"{query.get('status', '?'):<10}",
        f"{query.get('app')}/{query.get('name')}".ljust(28),
        f"batch {query['batch_id']}".ljust(10) if shows_figures(query) else UNKNOWN.ljust(10),
        f"{figure(rate)}{'' if rate is None else '/s'}".rjust(8),
        f"lag {backlog(query)}".ljust(10),
        str(query.get("reason") or ""),
    ]
    line = "  " + "  ".join(cells)
    return line if len(line) <= width else line[: max(0, width - 1)] + "…"


def table(fleet: Sequence[Query], width: int) -> list[str]:
    """A headline and one line for each query of the fleet."""
    counts: dict[str, int] = {}
    for query in fleet:
        counts[query.get("status", "?")] = counts.get(query.get("status", "?"), 0) + 1
    alerts = sum(query.get("alerts") or 0 for query in fleet)
    firing = f"; {alerts} {'alert fires' if alerts == 1 else 'alerts fire'}" if alerts else ""
    return [headline(counts) + firing, *(row(query, width) for query in fleet)]


def waiting(seconds: float, fleet: Sequence[Query]) -> str:
    """What is missing before the first batches are reported."""
    what = f"{queries(len(fleet))} known, no batch finished yet" if fleet else "Spark is starting"
    return f"{seconds:3.0f} s: {what}"
