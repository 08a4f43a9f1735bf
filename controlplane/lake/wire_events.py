"""An agent's events, one wire envelope a line -> what makes each the same one, and rows of the lake.

Called by the jobs that bring events into the lake: ingest from the landing zone, move from the store. Pure.
"""

from __future__ import annotations

import hashlib
from typing import Any

from controlplane.events.progress import text, unix_seconds, whole
from controlplane.lake.rows import LakeRowBuilder, Producer
from listeners.protocol import wire
from listeners.protocol.errors import WireError

#: As the server has it: longer lines are no events.
MAX_LINE_BYTES, MAX_INVENTORY_BYTES = 1024 * 1024, 4 * 1024 * 1024
#: Types whose events are rows of `lifecycle`. Heartbeats, statuses and inventories are of the present only.
LIFECYCLE_EVENTS = frozenset(
    ("started", "idle", "terminated", "start_failed", "app_started", "app_ended", "dropped")
)
#: A run has one of each, whoever tells of it.
ONCE_PER_RUN = frozenset(("started", "terminated"))
_NAMED = frozenset(("id", "runId", "name", "exception", "errorClass", "errorClassOnException"))


def decode_line(line: bytes) -> wire.Event:
    """One line -> event. WireError says in one sentence what is wrong."""
    if len(line) > MAX_INVENTORY_BYTES:
        raise WireError(f"a line may have at most {MAX_LINE_BYTES} bytes, not {len(line)}")
    event = wire.decode_event(line)
    if len(line) > MAX_LINE_BYTES and event.type != "inventory":
        raise WireError(f"a line may have at most {MAX_LINE_BYTES} bytes, not {len(line)}")
    return event


def deduplication_key(event: wire.Event) -> bytes:
    """16 bytes: two events with the same are one, told twice.

    A batch is its run, number and trigger, and a run starts and ends once, whichever agent tells of it; all else is
    an agent's own, by its number.
    """
    data = event.data
    run, when, batch = data.get("runId"), unix_seconds(data.get("timestamp")), whole(data.get("batchId"))
    told: tuple[Any, ...] = (event.agent, event.seq)
    if isinstance(run, str) and run:
        if event.type == "progress" and when is not None and batch is not None:
            told = ("progress", run, batch, when)
        elif event.type in ONCE_PER_RUN:
            told = (event.type, run)
        elif event.type == "idle" and when is not None:
            told = ("idle", run, when)
    return hashlib.blake2b(repr(told).encode("utf-8", "replace"), digest_size=16).digest()


def add_event(rows: LakeRowBuilder, event: wire.Event) -> bool:
    """Take an event into the rows. False where it is of a kind that the lake does not keep.

    ValueError says in one sentence what is wrong with its data; nothing is kept of it then.
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
        _happened(event),
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


def _happened(event: wire.Event) -> float:
    """Spark's own time where it tells one: two who hear the same trigger then say the same."""
    told = unix_seconds(event.data.get("timestamp")) if event.type in ("started", "idle") else None
    return event.at if told is None else told
