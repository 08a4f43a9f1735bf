"""Export events of a store to rows of the lake, on the executors of
`controlplane.pipeline.offload.offload_job`.

Each task opens the store read-only and writes the parts of its range. No pyspark: a task is a plain function.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, make_url
from sqlalchemy.exc import DBAPIError

from controlplane.errors import ControlPlaneError
from controlplane.history.offload_commits import EVENT_TABLES, EventRange, OffloadCounts
from controlplane.lake import wire_events
from controlplane.lake.deduplication import drop_stored_rows
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import Part
from controlplane.lake.rows import LakeRowBuilder
from controlplane.lake.staging import Staging
from controlplane.store import offload_marks
from controlplane.store.engine import open_engine, unavailable
from controlplane.store.offload_marks import OffloadEvent
from listeners.protocol import wire

#: Rows of all tables that a task buffers.
MAX_BUFFERED_ROWS = 200_000


@dataclass(frozen=True)
class OffloadTask:
    """A part of a commit's range, for one task. `database`: URL of the store; `lake`: URL of the lake."""

    number: int
    event_range: EventRange
    staging: Staging
    database: str
    lake: str


EXPORT_SECONDS = 600.0  # for the database to answer a statement of the job


def open_read_only(database: str) -> Engine:
    """A read-only engine: SQLite opens the file read-only, PostgreSQL's session is set to read-only."""
    url = make_url(database)
    if url.get_backend_name() == "sqlite":
        return sa.create_engine(f"sqlite:///file:{quote(url.database or '')}?mode=ro&uri=true")
    given = url.query.get("options", "")
    options = f"{given if isinstance(given, str) else ' '.join(given)} -c default_transaction_read_only=on"
    url = url.update_query_dict({"options": options.strip()})
    # No transaction over the whole job: it would prevent the store's vacuuming.
    engine = open_engine(url.render_as_string(hide_password=False))
    return engine.execution_options(isolation_level="AUTOCOMMIT", answer_seconds=EXPORT_SECONDS)


def try_export(task: OffloadTask) -> tuple[list[Part], OffloadCounts] | str:
    """`export_events`, or its error in one line: Spark would wrap an exception in a hundred lines."""
    try:
        return export_events(task)
    except (ControlPlaneError, OSError) as error:
        return str(error)
    except DBAPIError as error:
        return str(unavailable(error))


def export_events(task: OffloadTask) -> tuple[list[Part], OffloadCounts]:
    """Write the rows of one task; return the parts and the counts."""
    engine = open_read_only(task.database)
    lake = Lake.open(task.lake)
    parts: list[Part] = []
    counts, rows = OffloadCounts(), LakeRowBuilder()
    try:
        with engine.connect() as connection:
            for event in offload_marks.events_to_offload(
                connection, task.event_range.after, task.event_range.until
            ):
                counts += add_stored_event(rows, event)
                if len(rows) >= MAX_BUFFERED_ROWS:
                    counts += _write(task, lake, rows, parts)
    finally:
        engine.dispose()
    counts += _write(task, lake, rows, parts)
    return parts, counts


def _write(task: OffloadTask, lake: Lake, rows: LakeRowBuilder, parts: list[Part]) -> OffloadCounts:
    """Write the rows that the lake does not have, in files numbered in order."""
    if not len(rows):
        return OffloadCounts()
    tables = rows.take()
    kept, _ = drop_stored_rows(lake, tables, (task.staging.job, task.staging.batch))
    known = sum(tables[name].num_rows - kept[name].num_rows for name in EVENT_TABLES)
    for table, found in kept.items():
        parts += task.staging.write(table, found, f"{task.number:05d}-{len(parts):04d}")
    return OffloadCounts(duplicates=known)


def add_stored_event(rows: LakeRowBuilder, event: OffloadEvent) -> OffloadCounts:
    """Add one event to the rows; an unreadable one is counted and does not affect others."""
    app = wire.App(event.app, event.app_id, event.spark_version)
    wire_event = wire.Event(event.agent, event.seq, event.at, app, event.type, event.data)
    try:
        stored = wire_events.add_event(rows, wire_event)
    except (ValueError, TypeError, OverflowError):
        stored = False
    numbers = offload_marks.seq_residue(event.seq)
    return OffloadCounts(events=1, stored=int(stored), malformed=int(not stored), checksum=numbers)


def split_range(connection: Connection, whole: EventRange, size: int) -> Iterator[EventRange]:
    """Split a range into parts of about `size` events."""
    after = whole.after
    for until in offload_marks.split_range(connection, whole.after, whole.until, size):
        yield EventRange(whole.store, after, until)
        after = until
