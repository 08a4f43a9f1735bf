"""Find the query that a text names, in every form that the product prints one. Pure.

`controlplane.cli` uses it for QUERY arguments, `controlplane.api` for `query_id` parameters.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

MIN_PREFIX = 4
MAX_CANDIDATES = 10
#: Before the name of an application, where the ledger has decisions about its driver.
APP_PREFIX = "app:"


class NamedQuery(NamedTuple):
    """A query as people refer to it."""

    query_id: str
    app: str
    name: str | None

    @property
    def printed(self) -> str:
        """`app/name`, or `app/` with the first eight characters of the id of a query without a name."""
        return f"{self.app}/{self.name or self.query_id[:8]}"


def whole_id(text: str) -> str | None:
    """The text as a query id; None if it is not one."""
    try:
        return str(uuid.UUID(text)) if len(text) == 36 else None
    except ValueError:
        return None


def matching(text: str, queries: Iterable[NamedQuery]) -> list[NamedQuery]:
    """The queries that `text` names: none, one, or the candidates of an ambiguous text.

    `text` is an id or a prefix of one, a name, app/name or app/prefix; a name goes before a prefix.
    """
    text = _printable(text.replace(" / ", "/"))
    readings: tuple[Callable[[NamedQuery], bool], ...] = (
        lambda q: q.query_id == whole_id(text),
        lambda q: _printable(q.printed) == text,
        lambda q: q.name is not None and _printable(q.name) == text,
        lambda q: _has_prefix(q, text),
        lambda q: text.startswith(f"{q.app}/") and _has_prefix(q, text[len(q.app) + 1 :]),
    )
    known = list(queries)
    found = ([query for query in known if reading(query)] for reading in readings)
    return next(filter(None, found), [])


def _printable(text: str) -> str:
    """The text as tables show it: without control characters."""
    return "".join(c if c.isprintable() else " " for c in text)


def _has_prefix(query: NamedQuery, text: str) -> bool:
    prefix = text.lower().replace("-", "")
    hexadecimal = len(prefix) >= MIN_PREFIX and all(c in "0123456789abcdef" for c in prefix)
    return hexadecimal and query.query_id.replace("-", "").startswith(prefix)


def candidates(found: Sequence[NamedQuery]) -> str:
    """`a/b (ID) or c/b (ID) and 3 more`."""
    names = [f"{_printable(query.printed)} ({query.query_id})" for query in found[:MAX_CANDIDATES]]
    more = f" and {len(found) - MAX_CANDIDATES} more" if len(found) > MAX_CANDIDATES else ""
    return " or ".join(names) + more
