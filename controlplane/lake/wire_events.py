"""Decode agent events (one wire envelope per line), derive their deduplication keys and add them to the
lake's rows.

Called by the jobs that bring events into the lake: ingest from the landing zone, offload from the store.
Pure.
"""

from __future__ import annotations

import hashlib
from typing import Any

from controlplane.events.progress import text, unix_seconds, whole
from controlplane.lake.rows import LakeRowBuilder, Producer
from listeners.protocol import wire
from listeners.protocol.errors import WireError

#: The server's limits: longer lines are rejected.
MAX_LINE_BYTES, MAX_INVENTORY_BYTES = 1024 * 1024, 4 * 1024 * 1024
#: Event types stored in `lifecycle`. Heartbeats, statuses and inventories describe only the present.
LIFECYCLE_EVENTS = frozenset(
    ("started", "idle", "terminated", "start_failed", "app_started", "app_ended", "dropped")
)
#: Events that occur once per run, whichever agent reports them.
ONCE_PER_RUN = frozenset(("started", "terminated"))
_NAMED = frozenset(("id", "runId", "name", "exception", "errorClass", "errorClassOnException"))


def decode_line(line: bytes) -> wire.Event:
    """Decode one line. WireError where it is not a valid event."""
    if len(line) > MAX_INVENTORY_BYTES:
        raise WireError(f"a line may have at most {MAX_INVENTORY_BYTES} bytes, not {len(line)}")
    event = wire.decode_event(line)
    if len(line) > MAX_LINE_BYTES and event.type != "inventory":
        raise WireError(f"a line may have at most {MAX_LINE_BYTES} bytes, not {len(line)}")
    return event


def deduplication_key(event: wire.Event) -> bytes:
    """A 16-byte key: events with equal keys are the same event, reported twice.

    A batch is identified by run, number and trigger; a start and a termination by the run, whichever agent
    reports them; every other event by agent and sequence number.
    """
    data = event.data
    run, when, batch = data.get("runId"), unix_seconds(data.get("timestamp")), whole(data.get("batchId"))
    key_parts: tuple[Any, ...] = (event.agent, event.seq)
    if isinstance(run, str) and run:
        if event.type == "progress" and when is not None and batch is not None:
            key_parts = ("progress", run, batch, when)
        elif event.type in ONCE_PER_RUN:
            key_parts = (event.type, run)
        elif event.type == "idle" and when is not None:
            key_parts = ("idle", run, when)
    return hashlib.blake2b(repr(key_parts).encode("utf-8", "replace"), digest_size=16).digest()


def add_event(rows: LakeRowBuilder, event: wire.Event) -> bool:
    """Add an event to the rows; return False for types that the lake does not store.

    ValueError states what is wrong with the event's data; then no row is added.
    """
    who = Producer(event.app.name, event.app.spark_version, "agent")
    if event.type == "progress":
        rows.progress(who, event.data, event.at, agent=event.agent, seq=event.seq)
        return True
    if event.type not in LIFECYCLE_EVENTS:
        return False
    data = event.data
    query_id, run_id = text(data.get("id"), 64), text(data.get("runId"), 64)
    if event.type in ("started", "idle", "terminated") and (query_id is None or run_id is None):
        raise ValueError(f"{'id' if query_id is None else 'runId'} must be text of 1 to 64 characters")
    rows.lifecycle(
        who,
        event.type,
        _occurred_at(event),
        query_id,
        run_id,
        text(data.get("name")),
        exception=text(data.get("exception")),
        error_class=text(data.get("errorClass")) or text(data.get("errorClassOnException")),
        agent=event.agent,
        seq=event.seq,
        rest={name: value for name, value in data.items() if name not in _NAMED},
    )
    return True


def _occurred_at(event: wire.Event) -> float:
    """Spark's own time where the event has one, so that two agents that report the same trigger agree."""
    key_parts = unix_seconds(event.data.get("timestamp")) if event.type in ("started", "idle") else None
    return event.at if key_parts is None else key_parts
