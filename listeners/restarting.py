"""May this query be started again, and how: by its recorded start, by a factory, or not at all.

One answer for the command that asks and for the page that shows it beforehand.
"""

from __future__ import annotations

from typing import NamedTuple

from listeners import classic
from listeners.registry import Entry, Registry, Start


class Way(NamedTuple):
    """`how`: `reuse`, `factory` or `needs_factory`; `code`: the word of a refusal, empty where there is none."""

    how: str
    code: str
    reason: str


REUSE = Way("reuse", "", "its recorded start can be repeated")
FACTORY = Way("factory", "", "a factory is registered for it")
UNSEEN = Way(
    "needs_factory", "needs_factory", "its start was not seen by the agent; register a factory for it"
)
CHANGED = Way(
    "needs_factory",
    "needs_factory",
    "its writer has been configured or started again since; register a factory for it",
)
TEMPORARY = Way(
    "needs_factory",
    "temporary_checkpoint",
    "it has no checkpointLocation, so a restart would begin from scratch; set one, or register a factory",
)
UNKNOWN = Way(
    "needs_factory", "needs_factory", "Spark does not tell its checkpoint; register a factory for it"
)


def way(registry: Registry, entry: Entry | None, name: str | None) -> Way:
    """How the query called `name` may be started again: reuse only where it provably resumes that query.

    Sources: a writer is mutable and starts whatever it was configured for last; it keeps the static
    DataFrames it was built with; without a checkpoint of its own a query begins from scratch.
    """
    if registry.factory(name) is not None:
        return FACTORY
    if entry is None or entry.start is None:
        return UNSEEN
    if registry.generation(entry.start.writer) != entry.start.generation:
        return CHANGED
    checkpoint = classic.checkpoint(entry.jsq)
    if not checkpoint:
        return UNKNOWN
    if classic.is_temporary(checkpoint):
        return TEMPORARY
    return _static(entry.start)


def _static(start: Start) -> Way:
    static = sorted(set(classic.static_leaves(start.writer)))
    if not static:
        return REUSE
    reason = (
        f"it joins or unites static data ({', '.join(static)}) that its writer would keep as it was at the "
        "first start; register a factory that rebuilds the query"
    )
    return Way("needs_factory", "needs_factory", reason)
