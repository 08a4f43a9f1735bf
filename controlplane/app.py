"""Control plane: the server's services, wired by `build`, started in order and stopped in reverse.

Called by the command line and by tests and passed to `controlplane.api`. There are no globals: the ControlPlane holds
every service.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError

from alerts.durations import DAY_SECONDS
from controlplane.actions.outbox import Outbox
from controlplane.actions.service import ActionService
from controlplane.alerting.alert_facts import AlertFacts
from controlplane.alerting.alert_queries import AlertQueries
from controlplane.alerting.evaluation import Reached, ignore_point
from controlplane.alerting.service import AlertingService
from controlplane.checkpoints.service import CheckpointService
from controlplane.errors import ControlPlaneError, NotFound
from controlplane.events.window import Window
from controlplane.health.verdicts import StatusChange, VerdictLog
from controlplane.history.service import HistoryService
from controlplane.ingest.service import IngestService
from controlplane.metrics.baselines import BaselineStore, from_stored
from controlplane.metrics.series.scrape import ServerMetrics
from controlplane.metrics.series.service import SeriesService
from controlplane.model import QueryStatus, QueryView, Role
from controlplane.runtime import data_dir
from controlplane.runtime.scheduler import Job, Scheduler
from controlplane.runtime.tokens import Token, TokenRegistry, issue, read_secret, write_secret
from controlplane.settings import Settings
from controlplane.store import actions as action_rows
from controlplane.store import audit, dictionary, retention
from controlplane.store import baselines as baseline_rows
from controlplane.store import queries as query_rows
from controlplane.store import tokens as token_rows
from controlplane.store.engine import default_url, open_engine, probe_write, unavailable, upgrade
from controlplane.store.writer import Writer
from listeners.protocol.wire import Event

log = logging.getLogger(__name__)
Clock = Callable[[], float]
#: Events after which the status of a query may change at once.
LIFECYCLE_EVENTS = frozenset({"started", "start_failed", "terminated", "idle"})
JUDGE_SECONDS = 5.0
RETENTION_SECONDS = 600.0
OFFLOAD_SECONDS = 10.0
CHECKPOINT_SECONDS = 1.0
TOKEN_RELOAD_SECONDS = 5.0
DICTIONARY_SECONDS = 6 * 3600.0
FIRST_RUN_SECONDS = 20.0  # soon after the start, so that the disk reserve is created
WRITE_PROBE_SECONDS = 3.0
RULE_RELOAD_SECONDS = 10.0
SAVE_SERIES_SECONDS = 300.0


@dataclass(frozen=True)
class ControlPlane:
    """The services of a server. Made by `build`; call `start` before use and `stop` after."""

    settings: Settings
    clock: Clock
    engine: Engine
    writer: Writer
    window: Window
    ingest: IngestService
    tokens: TokenRegistry
    outbox: Outbox
    actions: ActionService
    checkpoints: CheckpointService
    verdicts: VerdictLog
    baselines: BaselineStore
    series: SeriesService
    alerting: AlertingService
    history: HistoryService
    scheduler: Scheduler
    resources: contextlib.ExitStack

    @property
    def alerts(self) -> AlertQueries:
        """Reads and changes of alerts for the API."""
        return self.alerting.queries

    def start(self) -> None:
        """Load the state from the store, then start the periodic jobs."""
        self.writer.start()
        self.ensure_local_tokens()
        self.reload_tokens()
        with self.reading() as conn:
            self.window.load(conn)
            self.checkpoints.load(conn)
            self.verdicts.load(_restored_changes(query_rows.latest_statuses(conn)))
            self.actions.load(action_rows.open_actions(conn))
            self.baselines.replace(map(from_stored, baseline_rows.current(conn)))
            self.alerting.load(conn)
            self.history.load(conn)
        self.checkpoints.start()
        self.scheduler.start()
        self.alerting.start()
        log.info("ready: %d queries known", len(self.window.views()))

    def stop(self) -> None:
        """Stop the services in reverse order and close the store."""
        self.alerting.stop()
        self.scheduler.stop()
        self.history.stop()
        self.checkpoints.stop()
        self.series.save()
        self.writer.stop()
        self.close()

    def close(self) -> None:
        """Close the store and unlock the data directory; also for a control plane that was never started."""
        self.resources.close()

    def reading(self) -> contextlib.AbstractContextManager[Connection]:
        """A short read transaction; database errors become StoreUnavailable."""
        return _reading(self.engine)

    # -- tokens --------------------------------------------------------------------------------------

    def reload_tokens(self) -> None:
        """Read all tokens from the store."""
        with self.reading() as conn:
            rows = token_rows.all(conn)
        self.tokens.replace(Token(**{**row, "role": Role(row["role"])}) for row in rows)

    def ensure_local_tokens(self) -> None:
        """Write `admin.token` and `agent.token` to the data directory, for the UI, CLI and agents of this machine."""
        self.reload_tokens()
        files = {Role.ADMIN: self.settings.admin_token_file, Role.AGENT: self.settings.agent_token_file}
        for role, path in files.items():
            secret = read_secret(path)
            known = self.tokens.find(secret) if secret else None
            if known is None or known.role != role:
                write_secret(path, self.add_token(f"local {role.value}", role))

    def add_token(self, name: str, role: Role) -> str:
        """Issue a token and return its secret."""
        secret, token = issue(name, role, self.clock())
        self.writer.write(lambda conn: token_rows.insert(conn, **token.columns()))
        return secret

    # -- requests of the API --------------------------------------------------------------------------

    def app_of(self, agent: str) -> str | None:
        """The app of an agent; None for an unknown agent."""
        known = self.window.agent(agent)
        return known.app if known else None

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

        self.writer.write(work, lambda _: self.window.retire(query_id, now))

    def readiness_problems(self) -> list[str]:
        """Why this server is not ready, without confidential details; empty when it is ready."""
        now = int(self.clock())
        try:
            self.writer.write(lambda conn: probe_write(conn, now), timeout=WRITE_PROBE_SECONDS)
        except ControlPlaneError as error:
            log.warning("not ready: %s", error)
            return ["the store does not accept writes; see the server log", *self._overdue_jobs()]
        return self._overdue_jobs()

    def _overdue_jobs(self) -> list[str]:
        return [*self.scheduler.overdue(), *self.alerting.problems()]

    def server_metrics(self) -> ServerMetrics:
        """The server's own metrics for `/metrics` and the rules."""
        rules, notifier, series = self.alerting.evaluation, self.alerting.notifier, self.series.figures()
        offload = self.history.status()
        return ServerMetrics(
            rule_evaluations=rules.evaluations,
            rule_evaluation_failures=rules.failures,
            notifications_sent=notifier.sent,
            notifications_failed=notifier.failed,
            series=series.series,
            series_refused=series.refused,
            scrape_seconds=series.seconds,
            lake_events_lost=None if offload.lake is None else offload.lost,
            lake_verified_at=offload.verified_at,
            events_stored=self.ingest.stored,
            events_duplicate=self.ingest.duplicates,
            events_rejected=self.ingest.rejected,
            commit_seconds=self.writer.commit_seconds,
            open_actions=self.actions.open_count,
            agents=sum(1 for agent in self.window.agents() if agent.ended_at is None),
        )

    # -- periodic jobs --------------------------------------------------------------------------------

    def tick(self) -> None:
        """Store the status changes of the fleet and advance the open actions."""
        self._store_changes(self.verdicts.changes(self.window.views(), self.clock()))
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
            done = self.writer.submit(lambda conn: _insert_changes(conn, changes))
            done.add_done_callback(lambda f: self.verdicts.release(changes) if f.exception() else None)
            self.alerting.on_status_changes(s for change in changes for s in (change.status, change.before))

    def prune(self) -> None:
        """Run retention."""
        settings = self.settings
        age, size = settings.retention_days * DAY_SECONDS, settings.retention_bytes
        forget = self.window.forget, self.window.forget_agents
        deleted = retention.prune(self.writer, self.clock(), age, size, *forget, self.history.hot_seconds)
        self.history.lost(deleted.lost)
        self.alerting.prune(self.clock() - age)
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
        engine = open_engine(settings.database_url or default_url(settings.data_dir))
        resources.callback(engine.dispose)
        upgrade(engine)
        writer = Writer(engine)
        window = Window(length=settings.window_length)
        ingest = IngestService(writer, window, clock)
        outbox = Outbox()
        reading = partial(_reading, engine)
        checkpoints = CheckpointService(writer, window, outbox, reading, clock, settings.checkpoint_roots)
        actions = ActionService(writer, window, outbox, clock, checkpoints)
        checkpoints.listeners.append(actions.on_checkpoint_checked)
        ingest.listeners += [actions.on_events, checkpoints.on_events]
        verdicts = VerdictLog(clock())
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
        )
        facts = AlertFacts(window, verdicts, reading, clock)
        alerting = AlertingService(settings, series, writer, reading, clock, reached, facts)
        jobs: list[Job] = []
        plane = ControlPlane(
            settings=settings,
            clock=clock,
            engine=engine,
            writer=writer,
            window=window,
            ingest=ingest,
            tokens=TokenRegistry(clock),
            outbox=outbox,
            actions=actions,
            checkpoints=checkpoints,
            verdicts=verdicts,
            baselines=baselines,
            series=series,
            alerting=alerting,
            history=history,
            scheduler=Scheduler(jobs),
            resources=resources.pop_all(),
        )
        ingest.listeners.append(plane.on_events)
        actions.listeners.append(plane.record_status)
        jobs += [
            Job("judge", JUDGE_SECONDS, plane.tick),
            Job("checkpoints", CHECKPOINT_SECONDS, plane.tick_checkpoints),
            Job("tokens", TOKEN_RELOAD_SECONDS, plane.reload_tokens),
            Job("retention", RETENTION_SECONDS, plane.prune, first=FIRST_RUN_SECONDS),
            Job("history", OFFLOAD_SECONDS, history.tick, first=FIRST_RUN_SECONDS),
            Job("rule files", RULE_RELOAD_SECONDS, alerting.reload),
            Job("series", SAVE_SERIES_SECONDS, series.save),
            Job("dictionary", DICTIONARY_SECONDS, plane.train_dictionary),
        ]
        return plane


@contextlib.contextmanager
def _reading(engine: Engine) -> Iterator[Connection]:
    try:
        with engine.connect() as connection:
            yield connection
    except DBAPIError as error:
        raise unavailable(error) from error


def _insert_changes(conn: Connection, changes: list[StatusChange]) -> None:
    for change in changes:
        query_rows.record_status(conn, change.query_id, change.at, change.status.value, change.reason)


def _restored_changes(latest: dict[str, dict[str, object]]) -> Iterator[StatusChange]:
    for query_id, row in latest.items():
        at = float(str(row["at"]))
        yield StatusChange(query_id, at, QueryStatus(str(row["status"])), str(row["reason"]))
