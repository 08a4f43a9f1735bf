"""The offload job: moves events past the hot retention from the store to the lake. Called by `controlplane
history offload`.

One commit per range of event ids: an interrupted job continues where it stopped, and a repeated one replaces
its own commit. The job deletes nothing from the store; the server does that once it has verified the commit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from controlplane.errors import LakeError
from controlplane.history import offload_commits
from controlplane.history.offload_commits import JOB, EventRange, OffloadCounts
from controlplane.lake.deduplication import conflict_check
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import Part
from controlplane.lake.verification import verify_commit
from controlplane.pipeline.offload import alert_export
from controlplane.pipeline.offload.event_export import OffloadTask, open_read_only, split_range, try_export
from controlplane.store import offload_marks
from controlplane.store.engine import open_engine, unavailable

#: Events per commit, and per task of it.
EVENTS_PER_COMMIT, EVENTS_PER_TASK = 400_000, 25_000
Log = Callable[[str], None]


@dataclass(frozen=True)
class OffloadRequest:
    """What to offload to which lake. `cutoff`: younger events stay, Unix seconds."""

    database: str
    lake: str
    cutoff: float


@dataclass(frozen=True)
class OffloadSummary:
    """Result of a job. `repaired`: commits rewritten because their files were damaged; `days`: days of alerts
    and actions.
    """

    commits: int = 0
    repaired: int = 0
    rows: int = 0
    days: int = 0
    until: int = 0
    counts: OffloadCounts = field(default_factory=OffloadCounts)


def offload(spark: SparkSession, request: OffloadRequest, log: Log) -> OffloadSummary:
    """Offload what is old enough; `log` is called for each commit. Raises LakeError and StoreUnavailable."""
    lake = Lake.open(request.lake, create=True)
    try:
        with lake.folder.lock(JOB):
            lake.recover(JOB)
            return _with_store(spark, lake, request, log)
    except OSError as error:
        raise LakeError(f"the lake at {lake.folder} cannot be written: {error}") from None


def _with_store(spark: SparkSession, lake: Lake, request: OffloadRequest, log: Log) -> OffloadSummary:
    store = _store(request.database)
    engine = open_read_only(request.database)
    try:
        with engine.connect() as connection:
            return _offload_events(spark, lake, request, store, connection, log)
    except DBAPIError as error:
        raise unavailable(error) from None
    finally:
        engine.dispose()


def _store(database: str) -> str:
    """The id of the store, created here where the server has not done so."""
    engine = open_engine(database)
    try:
        with engine.connect() as connection:
            known = offload_marks.value(connection, offload_marks.STORE_ID)
        if known is not None:
            return offload_marks.format_id(known)
        with engine.connect().execution_options(writes=True) as connection, connection.begin():
            return offload_marks.store_id(connection)
    except DBAPIError as error:
        raise unavailable(error) from None
    finally:
        engine.dispose()


def _offload_events(
    spark: SparkSession, lake: Lake, request: OffloadRequest, store: str, connection: Connection, log: Log
) -> OffloadSummary:
    mark = offload_marks.value(connection, offload_marks.OFFLOADED_UNTIL) or 0
    name = offload_marks.offload_name(connection) or store
    damaged_ranges, mark = _verify_existing(lake, name, mark)
    until = offload_marks.last_id_before(connection, mark, request.cutoff)
    new_ranges = (
        split_range(connection, EventRange(name, mark, until), EVENTS_PER_COMMIT)
        if until > mark
        else iter(())
    )
    found = OffloadSummary(repaired=len(damaged_ranges), until=until)
    for event_range in (*damaged_ranges, *new_ranges):
        found = _commit(spark, lake, request, event_range, connection, found)
        log(
            f"offloaded events {event_range.after + 1} to {event_range.until} of at most {until}, {found.rows} rows"
        )
    days = alert_export.export_days(connection, lake, store)
    return OffloadSummary(found.commits, found.repaired, found.rows, days, found.until, found.counts)


def _verify_existing(lake: Lake, store: str, mark: int) -> tuple[list[EventRange], int]:
    """Ranges of damaged commits since the mark, and the last event id of all commits."""
    manifest, damaged_ranges = lake.manifest(), []
    for event_range, commit in offload_commits.contiguous_commits(manifest, store, mark):
        try:
            verify_commit(lake, commit, manifest)
        except LakeError:
            damaged_ranges.append(event_range)
        mark = event_range.until
    return damaged_ranges, mark


def _commit(
    spark: SparkSession,
    lake: Lake,
    request: OffloadRequest,
    event_range: EventRange,
    connection: Connection,
    previous: OffloadSummary,
) -> OffloadSummary:
    staging, held = lake.stage(JOB, event_range.batch), lake.manifest()
    tasks = [
        OffloadTask(number, piece, staging, request.database, str(lake.folder))
        for number, piece in enumerate(split_range(connection, event_range, EVENTS_PER_TASK))
    ]
    results = spark.sparkContext.parallelize(tasks, len(tasks)).map(try_export).collect() if tasks else []
    parts: list[Part] = []
    counts = OffloadCounts()
    for found in results:
        if isinstance(found, str):
            # Remove the staged files: they would occupy disk space that may be short.
            with contextlib.suppress(OSError, LakeError):
                lake.folder.remove(staging.path)
            raise LakeError(
                f"events {event_range.after + 1} to {event_range.until} were not offloaded: {found}"
            )
        written, counted = found
        parts += written
        counts += counted
    check = conflict_check(lake, staging, parts, held)
    commit = lake.commit(staging, parts, offload_commits.commit_facts(event_range, counts), check=check)
    return OffloadSummary(
        previous.commits + 1,
        previous.repaired,
        previous.rows + commit.rows,
        0,
        previous.until,
        previous.counts + counts,
    )
