"""Leases of checkpoints: one driver may write to each, and two that do are seen.

`settle` decides who holds a checkpoint, from the open runs on it: the holder keeps it while it may live, then the newest
run's driver takes it and raises the number. The leases are in the store, so the numbers outlive the server. Ticked with the
supervisor; the guard of actions names the holder, the metric of overlapping drivers raises the alert.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from sqlalchemy.engine import Connection

from controlplane.errors import ControlPlaneError
from controlplane.health.checkpoint_drivers import going_on
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import Agent, QueryView
from controlplane.store.supervision import checkpoint_leases as rows
from controlplane.store.writer import Writer
from controlplane.supervision_model import CheckpointLease, CheckpointWriter

log = logging.getLogger(__name__)
#: After that without contact the holder may be gone, and the driver of a newer run takes its checkpoint.
SILENT_SECONDS = DEFAULTS.unresponsive_seconds


class ClaimedViews(Protocol):
    """The part of `controlplane.events.window.Window` that the leases use."""

    def view(self, query_id: str) -> QueryView | None: ...

    def agent(self, agent: str) -> Agent | None: ...

    def knows(self, query_id: str) -> bool: ...

    def take_claims(self) -> set[str]: ...

    def set_supervised(self, query_id: str, **changes: Any) -> None: ...


def settle(
    known: CheckpointLease | None, writers: Sequence[CheckpointWriter], now: float
) -> CheckpointLease | None:
    """The lease of a checkpoint after `known`, by the open runs on it; unchanged without one."""
    held = next((w for w in writers if known is not None and w.agent == known.agent), None)
    if known is not None and held is not None and (len(writers) == 1 or held.was_seen(now, SILENT_SECONDS)):
        return replace(known, query_id=held.query_id, run_id=held.run_id, app=held.app)
    newest = max(writers, key=lambda w: (w.started_at, w.run_id), default=None)
    if newest is None:
        return known
    number, app = (known.number, known.app) if known is not None else (0, newest.app)
    return CheckpointLease(
        newest.checkpoint,
        number + 1,
        newest.query_id,
        newest.run_id,
        newest.agent,
        newest.app,
        now,
        app if app != newest.app else None,
    )


def checkpoint_of(view: QueryView) -> str:
    """The identity of the checkpoint of a query that runs.

    A run that has not reported its location yet is on that of the other runs of its query: the checkpoint has the id.
    """
    known = (writer.checkpoint for writer in view.writers if writer.checkpoint != view.query_id)
    own = view.writers[0].checkpoint
    return own if own != view.query_id else next(known, own)


def writers_of(view: QueryView) -> list[CheckpointWriter]:
    """The open runs on the checkpoint of a query. A copy of it elsewhere is another checkpoint."""
    place = checkpoint_of(view) if view.writers else ""
    found = (writer for writer in view.writers if writer.checkpoint in (place, view.query_id))
    return [replace(writer, checkpoint=place) for writer in found]


class CheckpointLeases:
    """The leases, by checkpoint. `tick` runs in one thread at a time."""

    def __init__(self, window: ClaimedViews, writer: Writer, clock: Callable[[], float]):
        self._window, self._writer, self._clock = window, writer, clock
        self._leases: dict[str, CheckpointLease] = {}
        self._failed: set[str] = set()

    def load(self, stored: Iterable[CheckpointLease]) -> None:
        """Take over the stored leases."""
        self._leases = {lease.checkpoint: lease for lease in stored}
        for lease in self._leases.values():
            self._window.set_supervised(lease.query_id, lease=lease)

    def tick(self) -> None:
        """Settle the leases of the queries whose writers changed or are several."""
        claims, self._failed = self._window.take_claims() | self._failed, set()
        views = [view for query_id in sorted(claims) if (view := self._window.view(query_id)) is not None]
        changed = {lease.checkpoint: lease for view in views if (lease := self._settled(view)) is not None}
        try:
            if changed:
                self._writer.write(lambda conn: self._store(conn, changed.values()))
        except ControlPlaneError as error:
            log.warning("the leases of %d checkpoints are not stored: %s", len(changed), error)
            self._failed = claims
            return
        self._leases |= changed
        for view in views:
            lease = self._leases.get(checkpoint_of(view)) if view.writers else view.supervised.lease
            if lease != view.supervised.lease:
                self._window.set_supervised(view.query_id, lease=lease)

    def held_from(self, app: str) -> Iterable[tuple[CheckpointLease, Agent]]:
        """The checkpoints of this application that drivers of other ones hold, with their agents.

        They have taken them over, or a query of this application has ended while theirs went on.
        """
        for lease in list(self._leases.values()):
            view, agent = self._window.view(lease.query_id), self._window.agent(lease.agent)
            if view is None or agent is None:
                continue
            taken = writers_of(view) if lease.previous_app == app else []
            kept = going_on(view, self._clock()) if view.app == app != lease.app else []
            if any(writer.run_id == lease.run_id for writer in (*taken, *kept)):
                yield lease, agent

    def prune(self) -> None:
        """Delete the leases of queries that were deleted."""
        gone = [lease.checkpoint for lease in self._leases.values() if not self._window.knows(lease.query_id)]
        if gone:
            self._writer.write(lambda conn: rows.delete(conn, gone))
            for checkpoint in gone:
                self._leases.pop(checkpoint, None)

    def _settled(self, view: QueryView) -> CheckpointLease | None:
        """The new lease of a query's checkpoint; None if it has not changed."""
        if not view.writers:
            return None
        known = self._leases.get(checkpoint_of(view))
        settled = settle(known, writers_of(view), self._clock())
        if settled is None or settled == known:
            return None
        if known is not None and known.number != settled.number:
            holder = f"{settled.app}/{settled.agent[:8]}"
            log.info("%s: %s is holder %d of the checkpoint", settled.checkpoint, holder, settled.number)
        return settled

    def _store(self, conn: Connection, leases: Iterable[CheckpointLease]) -> None:
        for lease in leases:
            rows.put(conn, lease)
