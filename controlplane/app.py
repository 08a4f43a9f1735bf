"""Control plane: the server's services, wired by `build`, started in order and stopped in reverse.

Called by the command line and by tests and passed to `controlplane.api`. There are no globals: the ControlPlane holds
every service.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy.engine import Connection, Engine

from alerts.durations import DAY_SECONDS
from controlplane import job_intervals as every
from controlplane.actions.outbox import Outbox
from controlplane.actions.service import ActionService
from controlplane.alerting.alert_facts import AlertFacts
from controlplane.alerting.alert_queries import AlertQueries
from controlplane.alerting.evaluation import Reached, ignore_point
from controlplane.alerting.service import AlertingService
from controlplane.apps.drain import QueryDrain
from controlplane.apps.rollback import VersionEvidence
from controlplane.apps.service import AppService
from controlplane.checkpoints.changes import ChangeService
from controlplane.checkpoints.service import CheckpointService
from controlplane.errors import NotFound, StoreUnavailable
from controlplane.events.window import Window
from controlplane.events.window_loading import complete_window
from controlplane.failover.election import Election, OnlyServer, ServerRole, not_active
from controlplane.failover.follower import Followed, StoreFollower
from controlplane.health.listening import ListeningTime
from controlplane.health.verdicts import StatusChange, VerdictLog
from controlplane.history.service import HistoryService
from controlplane.ingest.service import IngestService
from controlplane.metrics.baselines import BaselineStore, from_stored
from controlplane.metrics.remote_write.service import RemoteWriteService
from controlplane.metrics.series.scrape import ServerMetrics
from controlplane.metrics.series.service import SeriesService
from controlplane.metrics.series.stored_samples import StoredSamples
from controlplane.model import QueryView
from controlplane.runtime import data_dir
from controlplane.runtime.certificate import ServerCertificate, certificate_of
from controlplane.runtime.scheduler import Job, Scheduler
from controlplane.runtime.tokens import TokenRegistry
from controlplane.settings import Settings
from controlplane.store import actions as action_rows
from controlplane.store import audit, dictionary, retention
from controlplane.store import baselines as baseline_rows
from controlplane.store import queries as query_rows
from controlplane.store.engine import (
    default_url,
    migrate,
    open_engine,
    prepare,
    probe_write,
    snapshots,
    sqlite_path,
)
from controlplane.store.shared.bounded_reads import BoundedReads
from controlplane.store.writer import Writer
from controlplane.stored_tokens import StoredTokens
from controlplane.supervision.service import SupervisionService
from listeners.protocol.wire import Event

log = logging.getLogger(__name__)
Clock = Callable[[], float]
#: Events after which the status of a query may change at once.
LIFECYCLE_EVENTS = frozenset({"started", "start_failed", "terminated", "idle"})
WRITE_PROBE_SECONDS = 3.0


@dataclass(frozen=True)
class ControlPlane:
    """The services of a server. Made by `build`; call `start` before use and `stop` after."""

    settings: Settings
    clock: Clock
    engine: Engine
    reads: BoundedReads
    writer: Writer
    window: Window
    ingest: IngestService
    tokens: TokenRegistry
    stored_tokens: StoredTokens
    outbox: Outbox
    actions: ActionService
    checkpoints: CheckpointService
    listening: ListeningTime
    verdicts: VerdictLog
    baselines: BaselineStore
    series: SeriesService
    alerting: AlertingService
    remote_write: RemoteWriteService
    history: HistoryService
    supervision: SupervisionService
    apps: AppService
    election: OnlyServer
    follower: StoreFollower
    scheduler: Scheduler
    certificate: ServerCertificate | None
    resources: contextlib.ExitStack

    @property
    def alerts(self) -> AlertQueries:
        """Reads and changes of alerts for the API."""
        return self.alerting.queries

    def start(self) -> None:
        """Become active, or follow the store as the standby."""
        if self.election.start(self._take_over):
            self._activate()
        else:
            log.info("standby: the active server is %s", self.election.active_address)
            self.follower.start()

    def _take_over(self) -> None:
        """Become active as the standby; where that fails the process ends, and another server takes the lease."""
        try:
            self.follower.stop()
            self.listening.begin(self.clock())  # contacts are not stored, so silence before is unknown
            self._activate()
        except Exception:
            log.exception("this server cannot become active")
            self.election.resign()

    def _activate(self) -> None:
        """Load the state from the store, then start the periodic jobs."""
        migrate(self.engine, self.election.fence)
        self.writer.start()
        self.stored_tokens.ensure_local()
        self.ingest.refresh_dictionary()
        self.follower.catch_up()
        loading = partial(self.reads.open, None)  # large reads, for which nobody waits
        with loading() as conn:
            self.actions.load(action_rows.open_actions(conn))
            self.baselines.replace(map(from_stored, baseline_rows.current(conn)))
            self.alerting.load(conn)
            self.history.load(conn)
        complete = partial(complete_window, self.window, loading)
        complete()
        self.supervision.start()
        self.apps.load()
        self.checkpoints.start()
        self.scheduler.start()
        self.alerting.start(complete)
        self.remote_write.start()
        self.election.active_since = self.clock()
        log.info("ready: %d queries known", len(self.window.views()))

    def stop(self) -> None:
        """Stop the services in reverse order, hand over to the standby and close the store."""
        self.election.settle()
        self.remote_write.stop()
        self.alerting.stop()
        self.scheduler.stop()
        self.follower.stop()
        self.history.stop()
        self.apps.stop()
        self.checkpoints.stop()
        if self.election.role is ServerRole.ACTIVE:
            self.series.save()
        self.writer.stop()
        self.election.stop()
        self.close()

    def close(self) -> None:
        """Close the store and unlock the data directory; also for a control plane that was never started."""
        self.resources.close()

    def reading(self) -> contextlib.AbstractContextManager[Connection]:
        """A short read transaction; database errors become StoreUnavailable."""
        return self.reads.open()

    # -- requests of the API --------------------------------------------------------------------------

    def app_of(self, agent: str) -> str | None:
        """The app of an agent; None for an unknown agent."""
        return known.app if (known := self.window.agent(agent)) else None

    def fleet(self) -> list[QueryView]:
        """All queries except those replaced by a newer query of the same name."""
        return self.window.fleet()

    def starts_of(self, query_id: str) -> int:
        """Number of starts of a query that were seen."""
        return int(self.window.totals(query_id).get("starts", 0))

    def retire(self, query_id: str, actor: str, via: str, reason: str) -> None:
        """Retire a query and record it in the audit log; NotFound for an unknown query."""
        now = self.clock()

        def work(conn: Connection) -> None:
            if not query_rows.retire(conn, query_id, now):
                raise NotFound(f"there is no query {query_id}")
            audit.record(conn, now, actor, via, "query.retire", query_id, {"reason": reason})

        self.writer.write(*self.writer.rows.changing(work, lambda _: self.window.retire(query_id, now)))

    def readiness_problems(self) -> list[str]:
        """Why this server takes no events, without confidential details; empty when it is ready."""
        if self.election.role is not ServerRole.ACTIVE:
            return [str(not_active(self.election.active_address))]
        try:
            self.writer.write(lambda conn: probe_write(conn, int(self.clock())), timeout=WRITE_PROBE_SECONDS)
        except StoreUnavailable as error:
            log.warning("not ready: %s", error)
            return [error.reason, *self._overdue_jobs()]
        return [*self.reads.damage, *self._overdue_jobs()]

    def stages(self) -> dict[str, float | None]:
        """Seconds that the last run of each stage took; None before the first."""
        scrape = self.series.figures().seconds
        return {"commit": self.writer.commit_seconds, "scrape": scrape, "follow": self.follower.seconds}

    def _overdue_jobs(self) -> list[str]:
        return [*self.scheduler.overdue(), *self.alerting.problems()]

    def server_metrics(self) -> ServerMetrics:
        """The server's own metrics for `/metrics` and the rules."""
        series, offload = self.series.figures(), self.history.status()
        pushed, written = self.alerting.pushes.totals(), self.remote_write.totals()
        return ServerMetrics(
            **self.alerting.figures(),
            alertmanager_alerts_sent=pushed[0],
            alertmanager_alerts_failed=pushed[1],
            remote_write_sent=written.sent,
            remote_write_dropped=written.dropped,
            remote_write_pending=written.pending,
            series=series.series,
            series_refused=series.refused,
            scrape_seconds=series.seconds,
            lake_events_lost=None if offload.lake is None else offload.lost,
            lake_verified_at=offload.verified_at,
            **self.ingest.figures(),
            apps_given_up=self.apps.given_up(),
            **(self.certificate.figures() if self.certificate else {}),
            commit_seconds=self.writer.commit_seconds,
            store_bytes=self.writer.store_bytes,
            polls=self.outbox.held_polls,
            window_loading=self.window.loading,
            judge_seconds=self.verdicts.seconds,
            verdicts_judged=self.verdicts.judged,
            open_actions=self.actions.open_count,
            active=self.election.role is ServerRole.ACTIVE,
            agents=sum(agent.ended_at is None for agent in self.window.agents()),
        )

    def tick(self) -> None:
        """Store the status changes of the fleet and advance the open actions."""
        views = [view for view in self.window.views() if self.window.is_complete(view.query_id)]
        self._store_changes(self.verdicts.changes(views, self.clock()))
        self.actions.tick()

    def tick_checkpoints(self) -> None:
        """Time out checkpoint inventories and decide the starts that wait for them."""
        self.checkpoints.tick()
        self.actions.tick_checkpoints()

    def on_events(self, events: Sequence[Event]) -> None:
        """Store the status of queries that started, became idle or ended, without waiting for the next tick."""
        for query_id in {str(e.data.get("id")) for e in events if e.type in LIFECYCLE_EVENTS}:
            self.record_status(query_id)

    def record_status(self, query_id: str) -> None:
        """Store the status of a query if it has changed."""
        view = self.window.view(query_id)
        if view is not None:
            self._store_changes(self.verdicts.changes_of([view], self.clock()))

    def _store_changes(self, found: list[StatusChange]) -> None:
        changes = self.verdicts.claim(found)
        if changes:
            rows = [change.row() for change in changes]
            done = self.writer.submit(lambda conn: query_rows.record_statuses(conn, rows))
            done.add_done_callback(lambda f: self.verdicts.release(changes) if f.exception() else None)
            self.alerting.on_status_changes(s for change in changes for s in (change.status, change.before))
            self.supervision.note(change.query_id for change in changes)

    def prune(self) -> None:
        """Run retention."""
        settings = self.settings
        age, size = settings.retention_days * DAY_SECONDS, settings.retention_bytes
        forget = self.window.forget, self.window.forget_agents
        deleted = retention.prune(self.writer, self.clock(), age, size, *forget, self.history.hot_seconds)
        self.history.lost(deleted.lost)
        self.alerting.prune(self.clock() - age)
        self.series.prune(self.clock() - age)
        self.supervision.prune(self.clock() - age)
        log.log(logging.INFO if deleted.events else logging.DEBUG, "retention: %s", deleted)

    def train_dictionary(self) -> None:
        """Train a compression dictionary on the fleet's events and use it for the next ones."""
        if dictionary.train_dictionary(self.writer, self.clock()) is not None:
            self.ingest.refresh_dictionary()


def build(settings: Settings, clock: Clock = time.time, reached: Reached = ignore_point) -> ControlPlane:
    """Open the store and create all services. SettingsError names what is wrong with the settings.

    `reached`: see `controlplane.alerting.service`.
    """
    with contextlib.ExitStack() as resources:
        resources.enter_context(data_dir.locked(settings.data_dir))
        url = settings.database_url or default_url(settings.data_dir)
        resources.enter_context(data_dir.locked_store(sqlite_path(url)))
        election = OnlyServer() if sqlite_path(url) else Election(url, settings.advertised_url)
        engine = open_engine(url, election.connection_name)
        resources.callback(engine.dispose)
        prepare(engine)
        writer = Writer(engine)
        writer.fence = election.fence
        window, listening = Window(settings.window_length, clock), ListeningTime(clock())
        ingest = IngestService(writer, window, clock, settings, listening)
        outbox, reads = Outbox(), BoundedReads(engine)
        reading = reads.open
        tokens = TokenRegistry(clock)
        stored_tokens = StoredTokens(tokens, settings, writer, reading, clock)
        checkpoints = CheckpointService(writer, window, outbox, reading, clock, settings.checkpoint_roots)
        actions = ActionService(writer, window, outbox, clock, checkpoints)
        checkpoints.listeners.append(actions.on_checkpoint_checked)
        ingest.listeners += [actions.on_events, checkpoints.on_events]
        verdicts = VerdictLog(listening, window.view)
        checkpoints.changes = ChangeService(actions, window, verdicts, checkpoints.request, settings, clock)
        history = HistoryService(settings, writer, reading, clock)
        baselines = BaselineStore()
        series = SeriesService(
            window,
            verdicts,
            clock,
            lambda: plane.server_metrics(),  # noqa: PLW0108 - `plane` is not assigned yet
            reading,
            settings.data_dir,
            settings.series_step,
            settings.max_series,
            history.series_source(window),
            baselines,
            StoredSamples(writer, reading, settings.series_step),
        )
        facts = AlertFacts(window, verdicts, reading, clock)
        alerting = AlertingService(settings, series, writer, reading, clock, reached, facts, election.holds)
        remote_write = RemoteWriteService(
            lambda: alerting.queries.book.remote_write, series.live, clock, election.holds
        )
        supervision = SupervisionService(writer, window, verdicts, actions, reading, clock, alerting, outbox)
        drain, held = QueryDrain(window, actions), supervision.leases.held_from
        evidence = VersionEvidence(window, checkpoints, reading, clock)
        apps = AppService(settings, writer, window, drain, reading, clock, supervision.book, evidence, held)
        followed = Followed(window, verdicts, checkpoints, alerting, series, supervision)
        jobs: list[Job] = []
        plane = ControlPlane(
            settings=settings,
            clock=clock,
            engine=engine,
            reads=reads,
            writer=writer,
            window=window,
            ingest=ingest,
            tokens=tokens,
            stored_tokens=stored_tokens,
            outbox=outbox,
            actions=actions,
            checkpoints=checkpoints,
            listening=listening,
            verdicts=verdicts,
            baselines=baselines,
            series=series,
            alerting=alerting,
            remote_write=remote_write,
            history=history,
            supervision=supervision,
            apps=apps,
            election=election,
            follower=StoreFollower(
                partial(BoundedReads(snapshots(engine)).open, None), followed, stored_tokens.reload, clock
            ),
            scheduler=Scheduler(jobs),
            certificate=certificate_of(settings),
            resources=resources.pop_all(),
        )
        ingest.listeners += [plane.on_events, supervision.drivers.on_events]
        actions.listeners.append(plane.record_status)
        jobs += [
            Job("judge", every.JUDGE_SECONDS, plane.tick),
            Job("supervision", every.SUPERVISION_SECONDS, supervision.tick),
            Job("bulk actions", every.BULK_SECONDS, supervision.bulk.tick),
            Job("checkpoints", every.CHECKPOINT_SECONDS, plane.tick_checkpoints),
            Job("tokens", every.TOKEN_RELOAD_SECONDS, stored_tokens.reload),
            Job("retention", every.RETENTION_SECONDS, plane.prune, first=every.FIRST_RUN_SECONDS),
            Job("history", every.OFFLOAD_SECONDS, history.tick, first=every.FIRST_RUN_SECONDS),
            Job("applications", every.APPS_SECONDS, apps.tick),
            Job("rule files", every.RULE_RELOAD_SECONDS, alerting.reload),
            Job("series", every.SAVE_SERIES_SECONDS, series.save),
            Job("dictionary", every.DICTIONARY_SECONDS, plane.train_dictionary),
        ]
        return plane
