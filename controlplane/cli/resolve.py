"""Which query a person means: an id, a prefix of one, a name, or app/name. Pure.

What may mean more than one query is a mistake that names them: nothing is ever stopped on a guess.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from controlplane.console.errors import UsageProblem
from controlplane.console.tables import plain, query_name

LEAST_PREFIX = 4
SHOWN = 10
Query = dict[str, Any]


def resolve(text: str, queries: Sequence[Query]) -> str:
    """The query id; Mistake where nothing, or more than one, is meant. A whole id need not be listed."""
    whole = _whole_id(text)
    if whole:
        return whole
    ways: tuple[Callable[[Query], bool], ...] = (
        lambda q: f"{q['app']}/{q['name']}" == text,
        lambda q: q["name"] == text,
        lambda q: _has_prefix(q, text),
    )
    for way in ways:
        found = [query for query in queries if way(query)]
        if len(found) == 1:
            return str(found[0]["query_id"])
        if found:
            raise UsageProblem(f"{plain(text)} may be {_candidates(found)}; say app/name or the id")
    raise UsageProblem(f"there is no query {plain(text)}; controlplane queries lists them")


def _whole_id(text: str) -> str | None:
    try:
        return str(uuid.UUID(text)) if len(text) == 36 else None
    except ValueError:
        return None


def _has_prefix(query: Query, text: str) -> bool:
    prefix = text.lower().replace("-", "")
    hexadecimal = len(prefix) >= LEAST_PREFIX and all(c in "0123456789abcdef" for c in prefix)
    return hexadecimal and str(query["query_id"]).replace("-", "").startswith(prefix)


def _candidates(found: Sequence[Query]) -> str:
    names = [f"{query_name(query)} ({query['query_id']})" for query in found[:SHOWN]]
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return " or ".join(names) + more
