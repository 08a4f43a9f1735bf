"""Resolution of QUERY arguments: an id, a prefix of one, a name, or app/name. Pure.

An ambiguous text is an error that lists the candidates: no action is taken on a guess.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from controlplane.console.errors import UsageProblem
from controlplane.console.tables import plain, query_name

MIN_PREFIX = 4
MAX_CANDIDATES = 10
Query = dict[str, Any]


def resolve(text: str, queries: Sequence[Query]) -> str:
    """The query id; UsageProblem where nothing or several match. A whole id need not be listed."""
    whole = _whole_id(text)
    if whole:
        return whole
    matches: tuple[Callable[[Query], bool], ...] = (
        lambda q: f"{q['app']}/{q['name']}" == text,
        lambda q: q["name"] == text,
        lambda q: _has_prefix(q, text),
    )
    for match in matches:
        found = [query for query in queries if match(query)]
        if len(found) == 1:
            return str(found[0]["query_id"])
        if found:
            raise UsageProblem(f"{plain(text)} matches {_candidates(found)}; give app/name or the id")
    raise UsageProblem(f"no query matches {plain(text)}; controlplane queries lists them")


def _whole_id(text: str) -> str | None:
    try:
        return str(uuid.UUID(text)) if len(text) == 36 else None
    except ValueError:
        return None


def _has_prefix(query: Query, text: str) -> bool:
    prefix = text.lower().replace("-", "")
    hexadecimal = len(prefix) >= MIN_PREFIX and all(c in "0123456789abcdef" for c in prefix)
    return hexadecimal and str(query["query_id"]).replace("-", "").startswith(prefix)


def _candidates(found: Sequence[Query]) -> str:
    names = [f"{query_name(query)} ({query['query_id']})" for query in found[:MAX_CANDIDATES]]
    more = f" and {len(found) - MAX_CANDIDATES} more" if len(found) > MAX_CANDIDATES else ""
    return " or ".join(names) + more
