"""The job that moves events past the hot retention from the store to the lake; called by `controlplane history move`.

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
from controlplane.lake.deduplication import still_new
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import Part
from controlplane.lake.verification import verify
from controlplane.pipeline.offload import record_export
from controlplane.pipeline.offload.event_export import Task, read_only, stretches, tried
from controlplane.store import offload_marks
from controlplane.store.engine import open_engine, unavailable

#: Events of one commit, and of one task of it.
COMMIT_EVENTS, TASK_EVENTS = 400_000, 25_000
Told = Callable[[str], None]


@dataclass(frozen=True)
class Moving:
    """What is moved whereto. `cutoff`: younger events stay, Unix seconds."""

    database: str
    lake: str
    cutoff: float


@dataclass(frozen=True)
class OffloadSummary:
    """What a job did. `mended`: commits whose files were damaged, written again; `days`: of alerts and actions."""

    commits: int = 0
    mended: int = 0
    rows: int = 0
    days: int = 0
    until: int = 0
    account: OffloadCounts = field(default_factory=OffloadCounts)


def move(spark: SparkSession, moving: Moving, say: Told) -> OffloadSummary:
    """Move what is old enough; `say` is told of each commit. LakeError and StoreUnavailable end it in between."""
    lake = Lake.open(moving.lake, create=True)
    try:
        with lake.folder.held(JOB):
            lake.recover(JOB)
            return _opened(spark, lake, moving, say)
    except OSError as error:
        raise LakeError(f"the lake at {lake.folder} cannot be written: {error}") from None


def _opened(spark: SparkSession, lake: Lake, moving: Moving, say: Told) -> OffloadSummary:
    store = _store(moving.database)
    engine = read_only(moving.database)
    try:
        with engine.connect() as connection:
            return _move(spark, lake, moving, store, connection, say)
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


def _move(
    spark: SparkSession, lake: Lake, moving: Moving, store: str, connection: Connection, say: Told
) -> OffloadSummary:
    mark = offload_marks.value(connection, offload_marks.OFFLOADED_UNTIL) or 0
    name = offload_marks.offload_name(connection) or store
    damaged, mark = _standing(lake, name, mark)
    until = offload_marks.last_id_before(connection, mark, moving.cutoff)
    ahead = stretches(connection, EventRange(name, mark, until), COMMIT_EVENTS) if until > mark else iter(())
    found = OffloadSummary(mended=len(damaged), until=until)
    for stretch in (*damaged, *ahead):
        found = _commit(spark, lake, moving, stretch, connection, found)
        say(f"moved events {stretch.after + 1} to {stretch.until} of at most {until}, {found.rows} rows")
    days = record_export.carry(connection, lake, store)
    return OffloadSummary(found.commits, found.mended, found.rows, days, found.until, found.account)


def _standing(lake: Lake, store: str, mark: int) -> tuple[list[EventRange], int]:
    """Commits since the mark that are damaged, and how far all of them reach."""
    manifest, damaged = lake.manifest(), []
    for stretch, commit in offload_commits.onwards(manifest, store, mark):
        try:
            verify(lake, commit, manifest)
        except LakeError:
            damaged.append(stretch)
        mark = stretch.until
    return damaged, mark


def _commit(
    spark: SparkSession,
    lake: Lake,
    moving: Moving,
    stretch: EventRange,
    connection: Connection,
    before: OffloadSummary,
) -> OffloadSummary:
    staging, held = lake.stage(JOB, stretch.batch), lake.manifest()
    tasks = [
        Task(number, piece, staging, moving.database, str(lake.folder))
        for number, piece in enumerate(stretches(connection, stretch, TASK_EVENTS))
    ]
    results = spark.sparkContext.parallelize(tasks, len(tasks)).map(tried).collect() if tasks else []
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
    check = still_new(lake, staging, parts, held)
    commit = lake.commit(staging, parts, offload_commits.facts(stretch, account), check=check)
    return OffloadSummary(
        before.commits + 1,
        before.mended,
        before.rows + commit.rows,
        0,
        before.until,
        before.account + account,
    )
