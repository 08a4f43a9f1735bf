"""The alerting room, wired: rules, beat, notifier and desk; started in order, stopped in reverse.

Made by `controlplane.app`. Rule files and the configuration are read again when one of them has changed; where
there is a mistake in them, the rules that run go on and the log names it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from sqlalchemy.engine import Connection

from alerts import state
from alerts.acknowledgements import Acknowledgement
from alerts.notify.config import Config
from alerts.notify.reasons import NotificationState
from alerts.rules.model import RuleGroup
from alerts.silences import Silence
from controlplane.alerting import immediate_rules, rulebook
from controlplane.alerting.alert_queries import AlertQueries, ReadConnection
from controlplane.alerting.evaluation import Evaluation, Reached, Sources, ignore_point
from controlplane.alerting.notifier import MAX_REMEMBERED, Notifier
from controlplane.alerting.rule_scheduler import RuleScheduler
from controlplane.alerting.silence_state import SilenceStates
from controlplane.errors import SettingsError
from controlplane.model import QueryStatus
from controlplane.records import NotificationLogEntry
from controlplane.settings import Settings
from controlplane.store import alerting as rows
from controlplane.store.alerting import AlertChange
from controlplane.store.writer import Writer

log = logging.getLogger(__name__)
#: A store that does not answer must not keep people from being told.
STORE_TIMEOUT_SECONDS = 5.0


class SeriesProvider(Sources, Protocol):
    """What the room asks of the series: see `controlplane.metrics.series.service`."""

    step: float

    def keep_for(self, groups: Sequence[RuleGroup]) -> None: ...
    def scrape(self, at: float) -> None: ...
    def load(self) -> None: ...
    def fill(self) -> None: ...


class AlertingService:
    """`load` and `start` before use, `stop` after. `desk` is what the API asks."""

    def __init__(
        self,
        settings: Settings,
        series: SeriesProvider,
        writer: Writer,
        reading: ReadConnection,
        clock: Callable[[], float],
        reached: Reached = ignore_point,
    ):
        """SettingsError names every mistake in the rule files and the configuration.

        `reached` is told the names of points on the way of an alert, for tests that end the process there.
        """
        self._settings, self._series, self._writer = settings, series, writer
        self._reading, self._clock = reading, clock
        book = rulebook.load(settings)
        self._files = _stamps(settings, book.config)
        self._failed_files: tuple[object, ...] | None = None
        url = settings.dashboard_url
        self.silence_state = SilenceStates()
        self.evaluation = Evaluation(book, series, self._save, url, reached)
        self.notifier = Notifier(book, self.silence_state, self._store_entry, url, clock, reached)
        self.queries = AlertQueries(
            book, self.evaluation, self.notifier, self.silence_state, writer, reading, clock
        )
        self.scheduler = RuleScheduler(series.step, self.tick, self.evaluate_immediate, clock, series.load)
        self._watched: frozenset[QueryStatus | None] = immediate_rules.watched_statuses(book.groups)
        series.keep_for(book.groups)

    def load(self, connection: Connection) -> None:
        """Take up alerts, what was told of them, silences and acknowledgements."""
        now = self._clock()
        stored = rows.recent_alerts(connection, now - state.RESOLVED_RETENTION_SECONDS)
        self.silence_state.load(rows.all_silences(connection), rows.all_acknowledgements(connection))
        self.evaluation.load(stored, rows.evaluated_at(connection), now)
        told, alerts = rows.notification_states(connection), [one.alert for one in self.evaluation.alerts()]
        unheard = {name for one in told.values() for name in one.firing} - {a.fingerprint for a in alerts}
        ended = [one.alert for one in rows.last_resolved(connection, sorted(unheard))]
        self.notifier.load([*alerts, *ended], told, rows.logged_notifications(connection, MAX_REMEMBERED))

    def start(self) -> None:
        self.notifier.start()
        self.scheduler.start()

    def stop(self) -> None:
        self.scheduler.stop()
        self.notifier.stop()

    def problems(self) -> list[str]:
        """Why the rules do not run or nobody is told, in words."""
        return [*self.scheduler.problems(), *self.notifier.problems()]

    # -- the beat --------------------------------------------------------------------------------------

    def tick(self, at: float) -> None:
        """One slot: scrape, evaluate what is due, hand the alerts on."""
        self._series.scrape(at)
        self.evaluation.tick(at)
        self._notify()

    def on_status_changes(self, statuses: Iterable[QueryStatus | None]) -> None:
        """Queries took or left these statuses: look at once where a rule asks about one of them."""
        if not self._watched.isdisjoint(statuses):
            self.scheduler.request()

    def evaluate_immediate(self, now: float) -> None:
        """Something happened to a query: evaluate what reads it."""
        self.evaluation.evaluate_immediate(now)
        self._notify()

    def _notify(self) -> None:
        self.notifier.take([one.alert for one in self.evaluation.alerts()])

    # -- the store -------------------------------------------------------------------------------------

    def _save(self, changes: Sequence[AlertChange], evaluated: Mapping[str, float]) -> None:
        self._writer.write(
            lambda conn: rows.record_changes(conn, changes, evaluated), timeout=STORE_TIMEOUT_SECONDS
        )

    def _store_entry(self, note: NotificationLogEntry, told: NotificationState | None) -> None:
        self._writer.write(
            lambda conn: rows.log_notification(conn, note, told), timeout=STORE_TIMEOUT_SECONDS
        )

    def prune(self, cutoff: float) -> None:
        """Forget what ended before `cutoff`, in the store and in memory."""

        def work(conn: Connection) -> tuple[list[Silence], list[Acknowledgement]]:
            rows.prune(conn, cutoff)
            return rows.all_silences(conn), rows.all_acknowledgements(conn)

        self._writer.write(work, lambda left: self.silence_state.load(*left))

    # -- other files -----------------------------------------------------------------------------------

    def reload(self) -> None:
        """Read the files again if one has changed. Mistakes are logged and change nothing."""
        stamps = _stamps(self._settings, self.queries.config)
        if stamps in (self._files, self._failed_files):
            return
        self._failed_files = stamps  # until it is taken: a mistake is logged once
        try:
            book = rulebook.load(self._settings)
        except SettingsError as error:
            for line in str(error).splitlines():
                log.error("the rules stay as they were: %s", line)
            return
        self._files = _stamps(self._settings, book.config)
        self._series.keep_for(book.groups)
        self._series.fill()
        self._watched = immediate_rules.watched_statuses(book.groups)
        self.evaluation.replace(book, self._clock())
        self.queries.replace(book)
        self.notifier.replace(book)
        log.info("rules read again: %d groups", len(book.groups))


def _stamps(settings: Settings, config: Config) -> tuple[object, ...]:
    """What tells that a file is another, a secret's too: its time and size, None where it cannot be read."""
    paths = [Path(name) for name in settings.rules if name != rulebook.SHIPPED]
    paths += filter(None, [settings.notify])
    hooks = (hook for receiver in config.receivers.values() for hook in receiver.webhooks)
    paths += [Path(name) for hook in hooks for name in (hook.url_file, hook.token_file) if name]
    return tuple(_stamp(path) for path in paths)


def _stamp(path: Path) -> tuple[float, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime, found.st_size
