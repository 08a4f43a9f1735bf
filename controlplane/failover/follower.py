"""Standby: keeps window, verdicts and alerts like those of the active server by following the store.

One thread reads the new events each second and the rest each few seconds, in transactions with one view of the store.
Another one samples the series, so that rules have their past when this server becomes active. Built and started by
`controlplane.app`; it writes nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection

from controlplane.alerting.rule_scheduler import RuleScheduler
from controlplane.alerting.service import AlertingService
from controlplane.checkpoints.service import CheckpointService
from controlplane.errors import StoreUnavailable
from controlplane.events import progress
from controlplane.events.window import START_SAMPLES, Window
from controlplane.health.verdicts import StatusChange, VerdictLog
from controlplane.metrics.series.service import SeriesService
from controlplane.model import QueryStatus
from controlplane.records import Changes
from controlplane.store import actions as action_rows
from controlplane.store import queries as query_rows
from controlplane.store.engine import is_current
from controlplane.store.shared import following
from controlplane.supervision.service import SupervisionService

log = logging.getLogger(__name__)
FOLLOW_SECONDS = 1.0
#: How often everything that no event announces is read: retired and deleted queries, reports, alerts, silences.
REST_SECONDS = 5.0
#: Events in one step, so that memory stays bounded after an outage of the database.
PAGE_EVENTS = 2_000
#: Queries in one step whose samples the first load has left out.
COMPLETE_QUERIES = 200


@dataclass(frozen=True)
class Followed:
    """The services that follow the store."""

    window: Window
    verdicts: VerdictLog
    checkpoints: CheckpointService
    alerting: AlertingService
    series: SeriesService
    supervision: SupervisionService


class StoreFollower:
    """Call `start` on the standby; `stop`, then `catch_up`, when it becomes active."""

    def __init__(
        self,
        reading: Callable[[], AbstractContextManager[Connection]],
        followed: Followed,
        refresh: Callable[[], None],
        clock: Callable[[], float],
    ):
        """`reading`: a transaction whose statements all see one state of the store; StoreUnavailable if it fails.

        `refresh` reads the tokens.
        """
        self._reading, self._to, self._refresh = reading, followed, refresh
        #: Whether the window is that of the store; if not, `catch_up` loads it.
        self.warm = False
        #: Seconds that the last step took; None before the first.
        self.seconds: float | None = None
        self._event = self._status_change = 0
        self._reports_since = 0.0
        self._next_rest = float("-inf")
        self._sampling = False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._sampler = RuleScheduler(
            followed.series.step, followed.series.scrape, lambda now: None, clock, followed.series.load
        )

    def start(self) -> None:
        """Start the threads."""
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the threads; wait for a step in progress, but not for the sampling of series: a take-over is urgent."""
        self._stopping.set()
        self._sampler.stop(0.0)
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def catch_up(self) -> None:
        """Bring window and verdicts to the end of the store."""
        with self._reading() as connection:
            if self.warm:
                self._follow(connection)
                self._follow_queries(connection)
                self._to.checkpoints.load(connection, self._reports_since)
            else:
                self._load(connection)

    # -- the threads ---------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._step()
            except StoreUnavailable as error:
                log.warning("the store cannot be followed now: %s", error)
            except Exception:
                log.exception("the store cannot be followed; the window is loaded again")
                self.warm = False
            self._stopping.wait(FOLLOW_SECONDS)

    def _step(self) -> None:
        began = time.monotonic()
        with self._reading() as connection:
            if self.warm:
                self._follow(connection)
                self._to.window.complete(connection, COMPLETE_QUERIES)
            elif is_current(connection):  # a standby of a newer release migrates when it becomes active
                self._load(connection)
                self._start_sampling()
            if self.warm and began >= self._next_rest:
                self._follow_rest(connection)
                self._next_rest = time.monotonic() + REST_SECONDS
        self.seconds = time.monotonic() - began

    def _start_sampling(self) -> None:
        if not self._sampling:
            self._sampling = True
            self._sampler.start()

    def _load(self, connection: Connection) -> None:
        self._event = following.last_event(connection)
        self._to.window.load(connection, START_SAMPLES)
        self._status_change = following.last_status_change(connection)
        self._to.verdicts.load(status_changes(query_rows.latest_statuses(connection)))
        self._reports_since = self._to.checkpoints.load(connection)
        self._to.supervision.follow(connection)
        self.warm = True
        log.info("standby: %d queries known", len(self._to.window.views()))

    def _follow(self, connection: Connection) -> None:
        last = following.last_event(connection)
        while self._event < last:
            until = min(last, self._event + PAGE_EVENTS)
            self._to.window.apply(changes_between(connection, self._event, until))
            self._event = until
        found = following.status_changes_after(connection, self._status_change)
        for row in found:
            self._to.verdicts.load(status_changes({row["query_id"]: row}))
            self._status_change = row["key"]

    def _follow_rest(self, connection: Connection) -> None:
        self._refresh()
        self._follow_queries(connection)
        self._reports_since = self._to.checkpoints.load(connection, self._reports_since)
        self._to.alerting.follow(connection)

    def _follow_queries(self, connection: Connection) -> None:
        """Retired and deleted queries, deleted agents, the open actions, policies and desired states."""
        window, known = self._to.window, following.known_queries(connection)
        opened = {action.query_id: action for action in reversed(action_rows.open_actions(connection))}
        views = window.views()
        window.forget(view.query_id for view in views if view.query_id not in known)
        for view in views:
            retired_at, action = known.get(view.query_id), opened.get(view.query_id)
            if retired_at is not None and retired_at != view.retired_at:
                window.retire(view.query_id, retired_at)
            if action != view.action:
                window.set_action(view.query_id, action)
        agents = following.known_agents(connection)
        window.forget_agents([agent.agent for agent in window.agents() if agent.agent not in agents])
        self._to.supervision.follow(connection)


def changes_between(connection: Connection, after: int, until: int) -> Changes:
    """The changes of the commits whose events have after < id <= until, as the window applies them."""
    reports = following.reports(connection, after, until)
    samples = progress.samples(report for _, report in reports)
    batches = [(query_id, sample) for (query_id, _), sample in zip(reports, samples, strict=True)]
    return Changes(*following.changed_rows(connection, after, until), batches)


def status_changes(latest: Mapping[str, Mapping[str, Any]]) -> Iterator[StatusChange]:
    """Stored status changes, by query id, as values."""
    for query_id, row in latest.items():
        at = float(str(row["at"]))
        yield StatusChange(query_id, at, QueryStatus(str(row["status"])), str(row["reason"]))
