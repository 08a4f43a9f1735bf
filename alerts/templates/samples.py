"""Functions of query results in templates: `query "up" | sortByLabel "job" | first | value`.

A sample is a mapping with `Labels` and `Value`. `rule_functions` binds those functions that depend on the
evaluation: its time, the server's URL, and the series that `query` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol
from urllib.parse import quote_plus, urlsplit

from alerts.matching.labels import Labels

#: Queries of one text.
MAX_QUERIES = 20
Samples = Sequence[Mapping[str, Any]]


class QuerySample(Protocol):
    """An element of a query's result."""

    @property
    def labels(self) -> Labels: ...
    @property
    def value(self) -> float: ...


Query = Callable[[str], Sequence[QuerySample]]


def rule_functions(query: Query | None, now: float, external_url: str) -> dict[str, Callable[..., Any]]:
    """Functions that depend on the evaluation. Without `query`, every query gives no samples."""
    asked = 0

    def samples(expression: Any) -> list[dict[str, Any]]:
        nonlocal asked
        asked += 1
        if asked > MAX_QUERIES:
            raise ValueError(f"a template may make {MAX_QUERIES} queries")
        found = query(str(expression)) if query else ()
        return [{"Labels": dict(sample.labels), "Value": float(sample.value)} for sample in found]

    return {
        "query": samples,
        "now": lambda: now,
        "since": lambda moment: datetime.fromtimestamp(now, UTC) - moment,
        "externalURL": lambda: external_url,
        "pathPrefix": lambda: urlsplit(external_url).path,
    }


#: The functions that `rule_functions` binds.
BOUND = frozenset(rule_functions(None, 0.0, ""))


def first(samples: Samples) -> Mapping[str, Any]:
    """The first sample. Raises ValueError where there is none."""
    if not samples:
        raise ValueError("first() called on vector with no elements")
    return samples[0]


def sort_by_label(name: Any, samples: Samples) -> list[Mapping[str, Any]]:
    """The samples by the value of a label; equal ones keep their order."""
    return sorted(samples, key=lambda sample: str(sample["Labels"].get(str(name), "")))


def numbered(*values: Any) -> dict[str, Any]:
    """Several values as one: `arg0`, `arg1` and so on (`args`)."""
    return {f"arg{index}": value for index, value in enumerate(values)}


def expression_link(tab: int) -> Callable[[Any], str]:
    """A function from an expression to the path of its graph (0) or table (1)."""
    return lambda expression: f"/graph?g0.expr={quote_plus(str(expression), safe='-_.~')}&g0.tab={tab}"


def moment(seconds: float) -> datetime:
    """A time from Unix seconds. Raises ValueError out of range."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        raise ValueError(f"{seconds:g} is no time") from None


def span(seconds: float) -> timedelta:
    """A duration from seconds. Raises ValueError out of range."""
    try:
        return timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        raise ValueError(f"{seconds:g} is no duration") from None
