"""Parse events: which query and run they concern, and what Spark reported. Pure.

Called by `controlplane.ingest.service` on the API's threads, before the writer;
`controlplane.events.progress` reads Spark's JSON.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.cached_properties import cached_property
from controlplane.events import progress
from controlplane.model import ProgressSample, RunFacts, StatusSample
from listeners.protocol import wire
from listeners.protocol.errors import WireError

#: Events whose `id` and `runId`, where they are present, are those of a query and its run.
QUERY_EVENTS = frozenset(
    ("progress", "started", "idle", "terminated", "checkpoint_logs", "inventory", "start_failed", "status")
)
_CANONICAL = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class StatusEntry:
    """One query in a status event. Not `active`: it had ended when it was polled; only its facts count.

    Not `described`: Spark listed the query and did not report its status.
    """

    query_id: str
    name: str | None
    status: StatusSample
    facts: RunFacts
    active: bool = True
    described: bool = True


@dataclass(frozen=True)
class ParsedEvent:
    """A parsed event: which query and run it concerns, and what Spark reported."""

    event: wire.Event
    query_id: str | None = None
    run_id: str | None = None
    sample: ProgressSample | None = None
    entries: tuple[StatusEntry, ...] = ()
    #: Of a status event: when the agent listed all queries of its driver; None if it could not.
    listed_at: float | None = None
    #: Stored unparsed: applying the event raised an unexpected error, and the event must not be lost.
    raw: bool = False

    @cached_property
    def batch(self) -> ProgressSample | None:
        """The sample, unless it only repeats an earlier batch."""
        return None if self.sample is None or progress.is_idle(self.sample) else self.sample


def parse(event: wire.Event, shift: float = 0.0) -> ParsedEvent:
    """Parse an event; ValueError names the error in its data.

    `shift`: seconds by which `event.at` was corrected; other times of the agent's clock get the same.
    """
    data = event.data
    match event.type:
        case "progress":
            query_id, run_id = progress.identity(data, "id"), progress.identity(data, "runId")
            return ParsedEvent(event, query_id, run_id, sample=progress.sample(data, event.at))
        case "started" | "idle" | "terminated" | "checkpoint_logs":
            return ParsedEvent(event, progress.identity(data, "id"), progress.identity(data, "runId"))
        case "inventory":
            if not isinstance(data.get("inventory"), dict):
                raise ValueError("data.inventory must be a JSON object")
            return ParsedEvent(event, progress.identity(data, "id"), progress.text(data.get("runId"), 64))
        case "start_failed":
            return ParsedEvent(event, progress.text(data.get("id"), 64))
        case "status":
            entries = tuple(_entry(item, event.at, shift) for item in progress.items(data.get("queries")))
            listed_at = progress.listed_at(data, event.at, shift)
            return ParsedEvent(event, entries=entries, listed_at=listed_at)
        case _:
            return ParsedEvent(event, progress.text(data.get("id"), 64), progress.text(data.get("runId"), 64))


def named_ids(event: wire.Event) -> Iterator[str]:
    """The ids of all queries and runs that an unparsed event names."""
    for data in (event.data, *progress.items(event.data.get("queries"))):
        yield from (name for name in (data.get("id"), data.get("runId")) if isinstance(name, str))


def normalize_ids(event: wire.Event) -> None:
    """Write the ids of queries and runs in an event's data as Spark does, in lower case; WireError for no UUID.

    An id in another notation would be another query to the server, but the same one to the routes of the API.
    """
    if event.type not in QUERY_EVENTS:
        return
    for data in (event.data, *progress.items(event.data.get("queries"))):
        for key in ("id", "runId"):
            value = data.get(key)
            if isinstance(value, str) and not _CANONICAL.fullmatch(value):
                try:
                    # Python would take digits of any script, and underscores.
                    if not value.isascii() or "_" in value:
                        raise ValueError
                    data[key] = str(uuid.UUID(value))
                except ValueError:
                    raise WireError(f"data.{key} must be a UUID") from None


def _entry(data: Mapping[str, Any], at: float, shift: float) -> StatusEntry:
    return StatusEntry(
        progress.identity(data, "id"),
        query_name(data),
        progress.status(data, at, shift),
        progress.facts(data.get("facts")),
        active=data.get("active") is not False,
        described="isTriggerActive" in data,
    )


def query_name(data: Mapping[str, Any]) -> str | None:
    """The query's name in an event's data, cut to `wire.MAX_NAME_CHARS`."""
    return progress.text(data.get("name"), wire.MAX_NAME_CHARS)
