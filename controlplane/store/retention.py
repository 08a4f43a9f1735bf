"""Retention: delete by age and by size, oldest first, in small commits so that other writes come between.

Works on a full disk: deletions need a little space, which `controlplane.runtime.disk_reserve` keeps for them. Actions,
the audit log and every query whose name is still in use stay, with its newest run. With a lake, events past their
age are deleted only once the lake has them; the byte limit does not wait for the lake and counts the events lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from controlplane.errors import StoreDamaged, StoreUnavailable
from controlplane.runtime import disk_reserve
from controlplane.store import checkpoints, offload_marks, shapes
from controlplane.store.engine import checkpoint, is_sqlite, sqlite_file, unavailable, used_bytes, vacuum_step
from controlplane.store.tables import agents, batches, counters, events, queries, runs, status_changes
from controlplane.store.writer import Writer

#: Events that describe only the present; what they change is stored in other tables.
SHORT_LIVED = ("heartbeat", "status", "checkpoint_logs")
SHORT_LIVED_SECONDS = 24 * 3600.0
CHUNK = 1_000
T = TypeVar("T")
EventRows = Sequence[Any]  # rows with the columns `_COLUMNS`
#: Share of the byte limit to prune down to, so that not every new event causes a deletion.
LOW_WATER = 0.95
#: Share of the file to keep as empty pages for the next events.
FREE_PAGES_SHARE = 0.05


@dataclass(frozen=True)
class PruneResult:
    """Number of deleted rows, by table. `full`: the disk was full and the reserve was used.

    `lost`: events that the byte limit deleted before the lake had them.
    """

    events: int = 0
    queries: int = 0
    runs: int = 0
    agents: int = 0
    status_changes: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    full: bool = False
    lost: int = 0


def prune(
    writer: Writer,
    now: float,
    max_age_seconds: float,
    max_bytes: int,
    forget: Callable[[Sequence[str]], None] | None = None,
    forget_agents: Callable[[Sequence[str]], None] | None = None,
    hot_seconds: float | None = None,
) -> PruneResult:
    """Delete events older than `max_age_seconds`, then the oldest until the store is below `max_bytes`.

    `hot_seconds` is given with a lake: events are deleted at this age, and only those that the lake has. `forget` and
    `forget_agents` are called with the ids of deleted queries and agents, in the writer's thread. StoreUnavailable
    if the disk is full in spite of the reserve.
    """
    store = sqlite_file(writer.engine)
    if store is not None:
        disk_reserve.ensure(store)
    cutoff, before, work = now - max_age_seconds, used_store_bytes(writer.engine), _Pass(writer)
    lake = hot_seconds is not None
    deleted = work.delete_expired(cutoff if hot_seconds is None else now - hot_seconds, lake)
    deleted += work.delete_short_lived(now - SHORT_LIVED_SECONDS)
    deleted += work.delete_excess(max_bytes, lake)
    old_queries = work.write(lambda connection: _delete_queries(connection, cutoff), forget)
    pruned = PruneResult(
        events=deleted,
        queries=len(old_queries),
        runs=work.write(lambda connection: _delete_runs(connection, cutoff)),
        agents=len(work.write(lambda connection: _delete_agents(connection, cutoff), forget_agents)),
        status_changes=work.write(lambda connection: _delete_changes(connection, cutoff)),
        bytes_before=before,
        full=work.full,
        lost=work.lost,
    )
    work.free()
    if store is not None:
        disk_reserve.ensure(store)
    writer.store_bytes = used_store_bytes(writer.engine)
    return replace(pruned, bytes_after=writer.store_bytes)


def used_store_bytes(engine: Engine) -> int:
    """Bytes that the store uses. StoreUnavailable if it cannot be read."""
    try:
        with engine.connect() as connection:
            return used_bytes(connection)
    except DBAPIError as error:
        raise unavailable(error) from error


class _Pass:
    """One retention pass. A write that fails on a full disk releases the reserve and is retried once."""

    def __init__(self, writer: Writer):
        self._writer = writer
        self.full = False
        self.lost = 0

    def write(self, work: Callable[[Connection], T], then: Callable[[T], None] | None = None) -> T:
        work, then = self._writer.rows.changing(work, then)
        try:
            return self._writer.write(work, then)
        except StoreDamaged:
            raise
        except StoreUnavailable:
            store = sqlite_file(self._writer.engine)
            if store is None or not disk_reserve.release(store):
                raise
        self.full = True
        checkpoint(self._writer.engine)
        return self._writer.write(work, then)

    def _delete(self, choose: Callable[[Connection], EventRows]) -> int:
        deleted = self.write(lambda connection: _delete(connection, choose(connection)))
        if self.full:  # the WAL must not take the space that the deletions free
            checkpoint(self._writer.engine)
        return deleted

    def delete_expired(self, cutoff: float, lake: bool) -> int:
        """Delete by age. Events are stored about in order of time, so the first page without an old one is the last."""
        deleted = 0
        while step := self._delete(lambda connection: _expired(connection, cutoff, lake)):
            deleted += step
        return deleted

    def delete_short_lived(self, cutoff: float) -> int:
        """Delete events of the types SHORT_LIVED older than `cutoff`, beginning at the mark of the previous pass."""
        deleted, more = 0, True
        while more:
            step, more = self.write(lambda connection: _delete_short_lived(connection, cutoff))
            deleted += step
        return deleted

    def delete_excess(self, max_bytes: int, lake: bool) -> int:
        """Delete the oldest events until the size is below the limit; events differ in size, so measure again."""
        deleted, limit = 0, float(max_bytes)
        while (held := used_store_bytes(self._writer.engine)) > limit:
            limit = max_bytes * LOW_WATER
            stored = self.write(_count_events)
            surplus = math.ceil(stored * (held - limit) / held)
            while surplus > 0 and (step := self._delete_oldest(min(surplus, CHUNK), lake)):
                surplus -= step
                deleted += step
            if surplus > 0 or not stored:
                break  # the rest are not events
        return deleted

    def _delete_oldest(self, limit: int, lake: bool) -> int:
        lost = self.write(lambda connection: _count_lost(connection, limit)) if lake else 0
        step = self._delete(partial(_oldest, limit=limit))
        self.lost += lost
        return step

    def free(self) -> None:
        """Return empty pages to the disk, a few at a time; keep some unless the disk is full."""
        if is_sqlite(self._writer.engine):
            while self.write(partial(vacuum_step, keep=0.0 if self.full else FREE_PAGES_SHARE)):
                pass
            checkpoint(self._writer.engine)


# -- deletions -------------------------------------------------------------------------------------

_COLUMNS = (events.c.id, events.c.agent_key, events.c.seq, events.c.at, events.c.type)


def _expired(connection: Connection, cutoff: float, lake: bool) -> EventRows:
    """Events before `cutoff` among the oldest page; with a lake only up to its mark."""
    select = sa.select(*_COLUMNS).order_by(events.c.id).limit(CHUNK)
    if lake:
        select = select.where(
            events.c.id <= (offload_marks.value(connection, offload_marks.OFFLOADED_UNTIL) or 0)
        )
    page = select.subquery()
    return connection.execute(sa.select(page).where(page.c.at < cutoff)).all()


def _count_lost(connection: Connection, limit: int) -> int:
    """Count the oldest events that the lake should store but does not have yet, and add them to `LOST_EVENTS`."""
    safe = offload_marks.value(connection, offload_marks.OFFLOADED_UNTIL) or 0
    lost = sum(
        row.id > safe and row.type in offload_marks.LAKE_EVENT_TYPES for row in _oldest(connection, limit)
    )
    if lost:
        before = offload_marks.value(connection, offload_marks.LOST_EVENTS) or 0
        offload_marks.set_value(connection, offload_marks.LOST_EVENTS, before + lost)
    return lost


def _oldest(connection: Connection, limit: int) -> EventRows:
    return connection.execute(sa.select(*_COLUMNS).order_by(events.c.id).limit(limit)).all()


def _count_events(connection: Connection) -> int:
    return int(connection.execute(sa.select(sa.func.count()).select_from(events)).scalar() or 0)


def _delete_short_lived(connection: Connection, cutoff: float) -> tuple[int, bool]:
    """Delete the short-lived events of one page after the mark; False if the following events are too young."""
    mark = connection.execute(
        sa.select(counters.c.value).where(counters.c.name == "short_lived_deleted_until")
    ).scalar()
    page = sa.select(*_COLUMNS).where(events.c.id > (mark or 0)).order_by(events.c.id).limit(CHUNK)
    rows = connection.execute(page).all()
    seen = rows[: next((place for place, row in enumerate(rows) if row.at >= cutoff), len(rows))]
    deleted = _delete(connection, [row for row in seen if row.type in SHORT_LIVED])
    if seen and mark is None:
        connection.execute(sa.insert(counters).values(name="short_lived_deleted_until", value=seen[-1].id))
    elif seen:
        connection.execute(
            sa.update(counters)
            .where(counters.c.name == "short_lived_deleted_until")
            .values(value=seen[-1].id)
        )
    return deleted, len(seen) == CHUNK


def _delete(connection: Connection, rows: EventRows) -> int:
    """Delete these events and their rows of `batches`; store each agent's highest deleted sequence number."""
    if not rows:
        return 0
    ids = [row.id for row in rows]
    connection.execute(sa.delete(batches).where(batches.c.event_id.in_(ids)))
    connection.execute(sa.delete(events).where(events.c.id.in_(ids)))
    kept = [row.at for row in rows if row.type in offload_marks.LAKE_EVENT_TYPES]
    if kept:
        offload_marks.raise_to(connection, offload_marks.DELETED_UNTIL, math.ceil(max(kept) * 1000))
    pruned: dict[int, int] = {}
    for row in rows:
        pruned[row.agent_key] = max(row.seq, pruned.get(row.agent_key, 0))
    for agent_key, seq in pruned.items():
        update = sa.update(agents).where(agents.c.key == agent_key, agents.c.pruned_seq < seq)
        connection.execute(update.values(pruned_seq=seq))
    return len(ids)


def _delete_queries(connection: Connection, cutoff: float) -> list[str]:
    """Delete queries without events that were retired before `cutoff` or whose name a newer query has taken."""
    newer = queries.alias("newer")
    replaced = sa.exists().where(
        newer.c.app == queries.c.app,
        newer.c.name == queries.c.name,
        newer.c.described_at > queries.c.described_at,
    )
    old = (
        ((queries.c.retired_at < cutoff) | replaced)
        & (queries.c.described_at < cutoff)
        & ~sa.exists().where(events.c.query_key == queries.c.key)
        & ~sa.exists().where(runs.c.query_key == queries.c.key, runs.c.last_event_at >= cutoff)
    )
    rows = connection.execute(sa.select(queries.c.key, queries.c.query_id).where(old).limit(CHUNK)).all()
    keys = [row.key for row in rows]
    for table, column in ((runs, runs.c.query_key), (status_changes, status_changes.c.query_key)):
        connection.execute(sa.delete(table).where(column.in_(keys)))
    for delete in (checkpoints.delete_queries, shapes.delete_queries):
        delete(connection, [row.query_id for row in rows])
    connection.execute(sa.delete(queries).where(queries.c.key.in_(keys)))
    return [row.query_id for row in rows]


def _delete_runs(connection: Connection, cutoff: float) -> int:
    """Delete runs that ended before `cutoff`, except the newest of each query."""
    newest = sa.select(queries.c.newest_run).where(queries.c.newest_run.is_not(None))
    old = runs.c.ended_at.is_not(None) & (runs.c.last_event_at < cutoff) & runs.c.run_id.not_in(newest)
    return connection.execute(sa.delete(runs).where(old)).rowcount


def _delete_agents(connection: Connection, cutoff: float) -> list[str]:
    """Delete agents last seen before `cutoff` that have neither runs nor events."""
    unused = (
        (agents.c.last_seen_at < cutoff)
        & agents.c.key.not_in(sa.select(runs.c.agent_key))
        & ~sa.exists().where(events.c.agent_key == agents.c.key)
    )
    return list(connection.execute(sa.delete(agents).where(unused).returning(agents.c.agent)).scalars())


def _delete_changes(connection: Connection, cutoff: float) -> int:
    """Delete status changes before `cutoff`, except the last of each query."""
    last = sa.select(sa.func.max(status_changes.c.key)).group_by(status_changes.c.query_key)
    old = (status_changes.c.at < cutoff) & status_changes.c.key.not_in(last)
    return connection.execute(sa.delete(status_changes).where(old)).rowcount
