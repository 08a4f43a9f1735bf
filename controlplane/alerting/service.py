"""Alerting service: wires rules, scheduler, notifier and queries; starts them in order, stops them in reverse.

Built by `controlplane.app`. Rule files and the configuration are reloaded when one of them has changed; where they
contain errors, the loaded rules stay active and the log names the errors.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy.engine import Connection

from alerts import state
from alerts.acknowledgements import Acknowledgement
from alerts.notify.config import Config
from alerts.notify.reasons import NotificationState
from alerts.rules.model import RuleGroup
from alerts.silences import Silence
from controlplane.alerting import immediate_rules, rulebook
from controlplane.alerting.alert_queries import AlertQueries, ReadConnection
from controlplane.alerting.alertmanager_push import AlertmanagerPushes
from controlplane.alerting.evaluation import Evaluation, Reached, Sources, ignore_point
from controlplane.alerting.notifier import MAX_REMEMBERED, Facts, Notifier, alert_url
from controlplane.alerting.received_alerts import RECEIVED, PostedAlert, ReceivedAlerts
from controlplane.alerting.rule_scheduler import RuleScheduler
from controlplane.alerting.rulebook import Rulebook
from controlplane.alerting.silence_state import SilenceStates
from controlplane.errors import SettingsError
from controlplane.model import QueryStatus
from controlplane.records import NotificationLogEntry
from controlplane.settings import Settings
from controlplane.store import alerting as rows
from controlplane.store.alerting import AlertChange, StoredAlert
from controlplane.store.writer import Writer

log = logging.getLogger(__name__)
#: A store that does not respond must not block notifications.
STORE_TIMEOUT_SECONDS = 5.0
LoadAlerts = Callable[[Iterable[StoredAlert], Mapping[str, float], float], None]


class SeriesProvider(Sources, Protocol):
    """What alerting needs of the series; implemented by `controlplane.metrics.series.service`."""

    step: float

    def keep_for(self, groups: Sequence[RuleGroup]) -> None: ...
    def scrape(self, at: float) -> None: ...
    def load(self) -> None: ...
    def fill(self) -> None: ...


class AlertingService:
    """Call `load` and `start` before use, `stop` after. `queries` serves the API."""

    def __init__(
        self,
        settings: Settings,
        series: SeriesProvider,
        writer: Writer,
        reading: ReadConnection,
        clock: Callable[[], float],
        reached: Reached = ignore_point,
        facts: Facts = lambda alert: {},
        may_send: Callable[[], bool] = lambda: True,
    ):
        """Raises SettingsError with every error in the rule files and the configuration.

        `may_send`: whether this server is the one that notifies. `reached` is called with the name of each point of
        an alert's path, for tests that kill the process there.
        """
        self._settings, self._series, self._writer = settings, series, writer
        self._reading, self._clock = reading, clock
        book = rulebook.load(settings)
        self._files = _stamps(settings, book.config)
        self._failed_files: tuple[object, ...] | None = None
        url = settings.dashboard_url
        self.silence_state = SilenceStates()
        self.evaluation = Evaluation(book, series, self._save, url, reached)
        self.received = ReceivedAlerts(self._save, book.config.resolve_timeout)
        self._notifying = threading.Lock()
        self.pushes = AlertmanagerPushes(clock, partial(alert_url, url), may_send)
        self._push_to(book)
        self.notifier = Notifier(
            book, self.silence_state, self._store_entry, url, clock, reached, facts, may_send
        )
        self.queries = AlertQueries(
            book,
            self.evaluation,
            self.notifier,
            self.silence_state,
            writer,
            reading,
            clock,
            self.alerts,
            self.pushes.statuses,
        )
        self.scheduler = RuleScheduler(series.step, self.tick, self.evaluate_immediate, clock, series.load)
        self._watched: frozenset[QueryStatus | None] = immediate_rules.watched_statuses(book.groups)
        series.keep_for(book.groups)

    def load(self, connection: Connection) -> None:
        """Restore alerts, notification states, silences and acknowledgements."""
        self._load(connection, self.evaluation.load)

    def follow(self, connection: Connection) -> None:
        """The same on a standby: it shows what the active server has stored, and stores nothing."""
        self._load(connection, lambda stored, at, _: self.evaluation.show(stored, at))

    def _load(self, connection: Connection, evaluation: LoadAlerts) -> None:
        now = self._clock()
        stored = rows.recent_alerts(connection, now - state.RESOLVED_RETENTION_SECONDS)
        self.silence_state.load(rows.all_silences(connection), rows.all_acknowledgements(connection))
        ruled = [item for item in stored if item.group != RECEIVED]
        evaluation(ruled, rows.evaluated_at(connection), now)
        self.received.load((item for item in stored if item.group == RECEIVED), now)
        states, alerts = rows.notification_states(connection), [item.alert for item in self.alerts()]
        notified = {name for item in states.values() for name in item.firing} - {
            a.fingerprint for a in alerts
        }
        ended = [item.alert for item in rows.last_resolved(connection, sorted(notified))]
        self.notifier.load([*alerts, *ended], states, rows.logged_notifications(connection, MAX_REMEMBERED))

    def start(self, prepare: Callable[[], bool]) -> None:
        """Start notifier and scheduler. Rules are evaluated when `prepare` has no work left."""
        self.notifier.start()
        self.pushes.start()
        self.scheduler.start(prepare)

    def stop(self) -> None:
        """Stop scheduler and notifier."""
        self.scheduler.stop()
        self.pushes.stop()
        self.notifier.stop()

    def problems(self) -> list[str]:
        """Why rules or notifications do not run, as messages; empty if they do."""
        return [*self.scheduler.problems(), *self.notifier.problems()]

    def alerts(self) -> tuple[StoredAlert, ...]:
        """Alerts of the rules and those that other programs posted."""
        return (*self.evaluation.alerts(), *self.received.alerts())

    def _push_to(self, book: Rulebook) -> None:
        """Send alerts to the configured Alertmanagers; each stays valid for four intervals of its group."""
        self._intervals = {group.key: group.interval or book.interval for group in book.groups}
        self.pushes.replace(book.alertmanagers, book.config.external_labels, book.interval)

    def figures(self) -> dict[str, Any]:
        """Totals of evaluations and notifications, duration and delay of the last evaluation, as in `ServerMetrics`."""
        return {
            "rule_evaluations": self.evaluation.evaluations,
            "rule_evaluation_failures": self.evaluation.failures,
            "rule_evaluation_seconds": self.evaluation.seconds,
            "rule_slot_lateness_seconds": self.scheduler.lateness,
            "notifications_sent": self.notifier.sent,
            "notifications_failed": self.notifier.failed,
        }

    # -- evaluation ----------------------------------------------------------------------------------

    def tick(self, at: float) -> None:
        """Process one slot: scrape, evaluate due groups, pass the alerts to the notifier."""
        self._series.scrape(at)
        self.evaluation.tick(at)
        self.received.expire(at)
        self._notify()

    def post_alerts(self, posted: Iterable[PostedAlert], sender: str) -> int:
        """Take alerts of another program and notify of them. Returns the number refused by the limit."""
        refused = self.received.take(posted, sender, self._clock())
        self._notify()
        return refused

    def on_status_changes(self, statuses: Iterable[QueryStatus | None]) -> None:
        """Request an immediate evaluation where a rule reads one of these statuses."""
        if not self._watched.isdisjoint(statuses):
            self.scheduler.request()

    def evaluate_immediate(self, now: float) -> None:
        """Evaluate the immediate rules."""
        self.evaluation.evaluate_immediate(now)
        self._notify()

    def _notify(self) -> None:
        with self._notifying:  # rules and posts come from two threads; the newest alerts must win
            items = self.evaluation.alerts()
            ruled = [item.alert for item in items]
            self.notifier.take([*ruled, *(item.alert for item in self.received.alerts())])
            intervals = {
                i.alert.fingerprint: self._intervals[i.group] for i in items if i.group in self._intervals
            }
            self.pushes.take(ruled, intervals)  # a received alert would go round between two servers

    # -- the store -------------------------------------------------------------------------------------

    def _save(self, changes: Sequence[AlertChange], evaluated: Mapping[str, float]) -> None:
        self._writer.write(
            lambda conn: rows.record_changes(conn, changes, evaluated), timeout=STORE_TIMEOUT_SECONDS
        )

    def _store_entry(self, note: NotificationLogEntry, states: NotificationState | None) -> None:
        self._writer.write(
            lambda conn: rows.log_notification(conn, note, states), timeout=STORE_TIMEOUT_SECONDS
        )

    def prune(self, cutoff: float) -> None:
        """Delete what ended before `cutoff` (Unix seconds), in the store and in memory."""

        def work(conn: Connection) -> tuple[list[Silence], list[Acknowledgement]]:
            rows.prune(conn, cutoff)
            return rows.all_silences(conn), rows.all_acknowledgements(conn)

        self._writer.write(work, lambda left: self.silence_state.load(*left))

    # -- reload -----------------------------------------------------------------------------------------

    def reload(self) -> None:
        """Reload the files if one has changed. Errors are logged and change nothing."""
        stamps = _stamps(self._settings, self.queries.config)
        if stamps in (self._files, self._failed_files):
            return
        self._failed_files = stamps  # cleared on success: errors are logged once
        try:
            book = rulebook.load(self._settings)
        except SettingsError as error:
            for line in str(error).splitlines():
                log.error("rules not reloaded, the loaded ones stay active: %s", line)
            return
        self._files = _stamps(self._settings, book.config)
        self._series.keep_for(book.groups)
        self._series.fill()
        self._watched = immediate_rules.watched_statuses(book.groups)
        self.evaluation.replace(book, self._clock())
        self.received.resolve_timeout = book.config.resolve_timeout
        self.queries.replace(book)
        self.notifier.replace(book)
        self._push_to(book)
        log.info("rules reloaded: %d groups", len(book.groups))


def _stamps(settings: Settings, config: Config) -> tuple[object, ...]:
    """Modification time and size of each file, including secrets; None where a file cannot be read."""
    paths = [Path(name) for name in settings.rules if name != rulebook.SHIPPED]
    paths += filter(None, [settings.notify])
    files = rulebook.configuration_files(settings)
    paths += [Path(files.path(name)) for name in config.files()]
    paths += files.matching(config.templates)
    return tuple(_stamp(path) for path in paths)


def _stamp(path: Path) -> tuple[float, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime, found.st_size
