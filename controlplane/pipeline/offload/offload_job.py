"""The job that moves events past the hot retention from the store to the lake; called by `controlplane history offload`.

One commit a stretch of event ids, so that a job that was cut off goes on where it was, and one that is done again
replaces its own. It takes nothing out of the store: the server does that, once it has verified the commit.
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

#: Events of one commit, and of one task of it.
EVENTS_PER_COMMIT, EVENTS_PER_TASK = 400_000, 25_000
Log = Callable[[str], None]


@dataclass(frozen=True)
class OffloadRequest:
    """What is moved whereto. `cutoff`: younger events stay, Unix seconds."""

    database: str
    lake: str
    cutoff: float


@dataclass(frozen=True)
class OffloadSummary:
    """What a job did. `repaired`: commits whose files were damaged, written again; `days`: of alerts and actions."""

    commits: int = 0
    repaired: int = 0
    rows: int = 0
    days: int = 0
    until: int = 0
    counts: OffloadCounts = field(default_factory=OffloadCounts)


def offload(spark: SparkSession, moving: OffloadRequest, say: Log) -> OffloadSummary:
    """Move what is old enough; `say` is told of each commit. LakeError and StoreUnavailable end it in between."""
    lake = Lake.open(moving.lake, create=True)
    try:
        with lake.folder.lock(JOB):
            lake.recover(JOB)
            return _with_store(spark, lake, moving, say)
    except OSError as error:
        raise LakeError(f"the lake at {lake.folder} cannot be written: {error}") from None


def _with_store(spark: SparkSession, lake: Lake, moving: OffloadRequest, say: Log) -> OffloadSummary:
    store = _store(moving.database)
    engine = open_read_only(moving.database)
    try:
        with engine.connect() as connection:
            return _offload_events(spark, lake, moving, store, connection, say)
    except DBAPIError as error:
        raise unavailable(error) from None
    finally:
        engine.dispose()


def _store(database: str) -> str:
    """The identity of the store, which gets one here where the server has not given it one."""
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
    spark: SparkSession, lake: Lake, moving: OffloadRequest, store: str, connection: Connection, say: Log
) -> OffloadSummary:
    mark = offload_marks.value(connection, offload_marks.OFFLOADED_UNTIL) or 0
    name = offload_marks.offload_name(connection) or store
    damaged, mark = _verify_existing(lake, name, mark)
    until = offload_marks.last_id_before(connection, mark, moving.cutoff)
    ahead = (
        split_range(connection, EventRange(name, mark, until), EVENTS_PER_COMMIT)
        if until > mark
        else iter(())
    )
    found = OffloadSummary(repaired=len(damaged), until=until)
    for stretch in (*damaged, *ahead):
        found = _commit(spark, lake, moving, stretch, connection, found)
        say(f"moved events {stretch.after + 1} to {stretch.until} of at most {until}, {found.rows} rows")
    days = alert_export.export_days(connection, lake, store)
    return OffloadSummary(found.commits, found.repaired, found.rows, days, found.until, found.counts)


def _verify_existing(lake: Lake, store: str, mark: int) -> tuple[list[EventRange], int]:
    """Commits since the mark that are damaged, and how far all of them reach."""
    manifest, damaged = lake.manifest(), []
    for stretch, commit in offload_commits.contiguous_commits(manifest, store, mark):
        try:
            verify_commit(lake, commit, manifest)
        except LakeError:
            damaged.append(stretch)
        mark = stretch.until
    return damaged, mark


def _commit(
    spark: SparkSession,
    lake: Lake,
    moving: OffloadRequest,
    stretch: EventRange,
    connection: Connection,
    before: OffloadSummary,
) -> OffloadSummary:
    staging, held = lake.stage(JOB, stretch.batch), lake.manifest()
    tasks = [
        OffloadTask(number, piece, staging, moving.database, str(lake.folder))
        for number, piece in enumerate(split_range(connection, stretch, EVENTS_PER_TASK))
    ]
    results = spark.sparkContext.parallelize(tasks, len(tasks)).map(try_export).collect() if tasks else []
    parts: list[Part] = []
    account = OffloadCounts()
    for found in results:
        if isinstance(found, str):
            # Left behind, what was staged would take the room that is missing.
            with contextlib.suppress(OSError, LakeError):
                lake.folder.remove(staging.path)
            raise LakeError(f"events {stretch.after + 1} to {stretch.until} were not moved: {found}")
        written, counted = found
        parts += written
        account += counted
    check = conflict_check(lake, staging, parts, held)
    commit = lake.commit(staging, parts, offload_commits.commit_facts(stretch, account), check=check)
    return OffloadSummary(
        before.commits + 1,
        before.repaired,
        before.rows + commit.rows,
        0,
        before.until,
        before.counts + account,
    )
