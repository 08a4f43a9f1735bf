"""Notifier: holds alert groups, flushes each when it is due, and records every outcome.

One thread watches the clock, others deliver (see `delivery_workers`). A message is sent, then recorded: a crash in
between leads to a second message of the same group, never to none.
Started and stopped by the alerting service.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from urllib.parse import quote

from alerts import grouping
from alerts.grouping import Group
from alerts.inhibition import Inhibitor
from alerts.notify.dispatch import after_flush, flush_group
from alerts.notify.message import AlertContext
from alerts.notify.reasons import NotificationState
from alerts.notify.stages import DELIVERY_FAILED, NotificationContext, NotificationOutcome
from alerts.state import Alert, AlertState
from controlplane.alerting.delivery import DeliveryFailure
from controlplane.alerting.delivery_workers import DeliveryWorkers, GroupName
from controlplane.alerting.evaluation import Reached, ignore_point
from controlplane.alerting.rulebook import Rulebook
from controlplane.alerting.silence_state import SilenceStates
from controlplane.errors import StoreUnavailable
from controlplane.records import DeliveryOutcome, NotificationLogEntry

log = logging.getLogger(__name__)
#: Longest sleep of the watching thread, so that a changed system clock has no effect.
MAX_SLEEP_SECONDS = 5.0
#: Newest notifications held in memory by alert, and entries held while the store is unavailable.
MAX_REMEMBERED = 5_000
Facts = Callable[[Alert], Mapping[str, str]]
StoreEntry = Callable[[NotificationLogEntry, NotificationState | None], None]
_DIGITS = re.compile(r"\d+(?:\.\d+)?")


class Notifier:
    """Call `take` with the alerts after each evaluation; notifications follow."""

    def __init__(
        self,
        book: Rulebook,
        silence_state: SilenceStates,
        keep: StoreEntry,
        page_url: str,
        clock: Callable[[], float] = time.time,
        reached: Reached = ignore_point,
        facts: Facts = lambda alert: {},
        may_send: Callable[[], bool] = lambda: True,
    ):
        """`keep` stores a log entry and the new notification state, or raises StoreUnavailable.

        `facts`: what notifications state about an alert's query, by name. `may_send`: False while another server may
        be the one that notifies.
        """
        self._may_send = may_send
        self._book, self._silence_state, self._keep = book, silence_state, keep
        self.page_url, self._clock, self._reached, self._facts = page_url, clock, reached, facts
        self._lock = threading.Lock()
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._groups: dict[GroupName, Group] = {}
        self._states: dict[GroupName, NotificationState] = {}
        self._alerts: tuple[Alert, ...] = ()
        self._inhibitor = Inhibitor((), ())
        self._workers = DeliveryWorkers(
            self._try, self._wake.set, lambda: not self._stopping.is_set() and may_send()
        )
        self._unsaved: deque[tuple[NotificationLogEntry, NotificationState | None]] = deque(
            maxlen=MAX_REMEMBERED
        )
        self._saving, self._store_unavailable = threading.Lock(), False
        self._last_entries: dict[GroupName, str] = {}
        self._newest: OrderedDict[str, NotificationLogEntry] = OrderedDict()
        self._failures: dict[str, DeliveryFailure] = {}
        self._thread: threading.Thread | None = None
        #: Totals since the start of this process.
        self.sent = self.failed = 0

    def load(
        self,
        alerts: Iterable[Alert],
        states: Mapping[GroupName, NotificationState],
        notes: Iterable[NotificationLogEntry],
    ) -> None:
        """Restore notification states and log. `notes`: newest first."""
        with self._lock:
            self._states, self._alerts = dict(states), _in_order(alerts)
            self._seed()
            for note in reversed(list(notes)):
                self._track_failure(note)
                self._remember(note)

    def replace(self, book: Rulebook) -> None:
        """Replace routes and receivers; notification states and timers stay, failures of former receivers do not."""
        with self._lock:
            self._book, known = book, self._groups
            self._failures.clear()
            self._seed()
            self._groups = grouping.with_timers(self._groups, known)
        self._wake.set()

    def _seed(self) -> None:
        """Rebuild the groups. A receiver that was notified of a firing alert is also notified of its end."""
        known = {fingerprint for state in self._states.values() for fingerprint in state.firing}
        fired = [
            replace(alert, state=AlertState.FIRING)
            for alert in self._alerts
            if alert.state is AlertState.RESOLVED and alert.fingerprint in known
        ]
        groups = grouping.add_alerts({}, fired, self._book.config.route)
        self._groups = grouping.add_alerts(groups, self._alerts, self._book.config.route)
        self._inhibitor = Inhibitor(self._book.config.inhibit_rules, self._alerts)

    def take(self, alerts: Iterable[Alert]) -> None:
        """Set the current alerts, including recently resolved ones."""
        with self._lock:
            self._alerts = _in_order(alerts)
            self._inhibitor = Inhibitor(self._book.config.inhibit_rules, self._alerts)
            self._groups = grouping.add_alerts(self._groups, self._alerts, self._book.config.route)
        self._wake.set()

    # -- threads --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the watching thread."""
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Wait up to `timeout` seconds for messages in flight; unrecorded ones would be sent again."""
        thread, self._thread = self._thread, None
        self._stopping.set()
        self._wake.set()
        until = time.monotonic() + timeout
        if thread is not None:
            thread.join(timeout)
        self._workers.join(until)  # only now: the watching thread may just have started one
        self._save()

    def problems(self) -> list[str]:
        """Why notifications do not run, as messages; empty if they do."""
        alive = self._thread is not None and self._thread.is_alive()
        return [] if alive else ["the notifier does not run"]

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(self._seconds_to_next())
            self._wake.clear()
            try:
                if not self._may_send():
                    self._stopping.wait(1.0)
                    continue
                self._round()
            except Exception:
                log.exception("a notification round failed")
                self._stopping.wait(1.0)

    def _seconds_to_next(self) -> float:
        with self._lock:
            busy = self._workers.busy
            free = {name: group for name, group in self._groups.items() if name not in busy}
        due = grouping.next_due_at(free)
        return MAX_SLEEP_SECONDS if due is None else min(max(due - self._clock(), 0.0), MAX_SLEEP_SECONDS)

    def _round(self) -> None:
        """Hand the groups that are due to the threads; retry storing entries."""
        with self._lock:
            now = self._clock()
            self._groups = {name: grouping.clamp_times(group, now) for name, group in self._groups.items()}
            due = [group.name for group in grouping.due(self._groups, now)]
        if self._stopping.is_set():
            return
        self._workers.add(due)
        if self._unsaved:
            self._workers.start(self._save)

    def _try(self, name: GroupName) -> None:
        try:
            self.look(name)
        except Exception:
            log.exception("notifying %s failed", name[1])
            with self._lock:
                if (group := self._groups.get(name)) is not None:
                    self._groups[name] = grouping.after_failure(group, self._clock())

    def look(self, name: GroupName) -> None:
        """Flush one group now. Blocks while its receivers do."""
        now = self._clock()
        with self._lock:
            seen, book = self._groups.get(name), self._book
            if seen is None:
                return
            context = self._context()
            keys = [(seen.key, receiver.name) for receiver in book.receivers.get(seen.receiver, ())]
            states = {key: self._states[key] for key in keys if key in self._states}
        self._reached("before the message")
        outcomes = flush_group(seen, states, book.receivers, context, now, self._record)
        with self._lock:
            current = self._groups.get(name)
            left = after_flush(current, seen, outcomes, self._clock()) if current is not None else None
            if left is not None:
                self._groups[name] = left
                return
            self._groups.pop(name, None)
            for outcome in outcomes:
                self._last_entries.pop((seen.key, outcome.receiver), None)

    def _context(self) -> NotificationContext:
        return NotificationContext(
            inhibitor=self._inhibitor,
            silences=self._silence_state.active(self._clock()),
            acknowledgements=self._silence_state.acknowledgements,
            external_url=self.page_url,
            generator_url=lambda alert: alert_url(self.page_url, alert),
            alert_context=lambda alert: alert_context(self.page_url, alert, self._facts(alert)),
        )

    # -- notification log ---------------------------------------------------------------------------------

    def _record(self, outcome: NotificationOutcome) -> None:
        """Record and store an outcome."""
        note = log_entry(outcome)
        if note.outcome is DeliveryOutcome.SENT:
            self._reached("message sent")
        with self._lock:
            state = self._new_state(outcome)
            self._count(note)
            self._track_failure(note)
            if not self._is_news(note) and state is None:
                return
            self._remember(note)
            self._set_state((note.group_key, note.receiver), state)
            self._unsaved.append((note, state))
        level = {DeliveryOutcome.FAILED: logging.WARNING, DeliveryOutcome.SENT: logging.INFO}
        log.log(level.get(note.outcome, logging.DEBUG), "%s", _log_line(note))
        # While the store is unavailable the next round retries: a slow store must not delay messages.
        if not self._store_unavailable:
            self._save()
        self._reached("message noted")

    def _new_state(self, outcome: NotificationOutcome) -> NotificationState | None:
        """The receiver's new state: empty once all alerts are resolved, even muted, so the next firing is notified."""
        name = outcome.group.key, outcome.receiver
        over = all(alert.state is AlertState.RESOLVED for alert in outcome.group.alerts.values())
        if outcome.state is None and over and not outcome.retries and name in self._states:
            return NotificationState(frozenset(), frozenset(), outcome.at)
        return outcome.state

    def _is_news(self, note: NotificationLogEntry) -> bool:
        """Whether the entry differs from the last in more than numbers: groups are flushed every few minutes."""
        name = note.group_key, note.receiver
        text = f"{note.outcome} {_DIGITS.sub('#', note.reason)}"
        known, self._last_entries[name] = self._last_entries.get(name), text
        return known != text or note.outcome is DeliveryOutcome.SENT

    def _count(self, note: NotificationLogEntry) -> None:
        self.sent += note.outcome is DeliveryOutcome.SENT
        self.failed += note.outcome is DeliveryOutcome.FAILED

    def _track_failure(self, note: NotificationLogEntry) -> None:
        if note.outcome is DeliveryOutcome.FAILED:
            first = self._failures.get(note.receiver)
            error = note.reason.rpartition(DELIVERY_FAILED)[2]
            self._failures[note.receiver] = DeliveryFailure(first.since if first else note.at, error)
        elif note.outcome is DeliveryOutcome.SENT:
            self._failures.pop(note.receiver, None)

    def _set_state(self, name: GroupName, state: NotificationState | None) -> None:
        if state is not None and state.firing:
            self._states[name] = state
        elif state is not None:
            self._states.pop(name, None)

    def _remember(self, note: NotificationLogEntry) -> None:
        for fingerprint in note.fingerprints if note.outcome is DeliveryOutcome.SENT else ():
            self._newest[fingerprint] = note
            self._newest.move_to_end(fingerprint)
        while len(self._newest) > MAX_REMEMBERED:
            self._newest.popitem(last=False)

    def _save(self) -> None:
        """Store entries in order; one thread at a time stores those of all threads."""
        while self._unsaved and self._saving.acquire(blocking=False):
            try:
                if not self._save_oldest():
                    return
            finally:
                self._saving.release()

    def _save_oldest(self) -> bool:
        with self._lock:
            if not self._unsaved:
                return False
            oldest = self._unsaved[0]
        try:
            self._keep(*oldest)
        except StoreUnavailable as error:
            level = logging.DEBUG if self._store_unavailable else logging.ERROR  # retried every few seconds
            log.log(level, "notifications cannot be recorded now: %s", error)
            self._store_unavailable = True
            return False
        except Exception:
            log.exception("a notification log entry cannot be stored and is dropped")
        self._store_unavailable = False
        with self._lock:
            if self._unsaved and self._unsaved[0] is oldest:
                self._unsaved.popleft()
        return True

    # -- reading ---------------------------------------------------------------------------------------

    def groups(self) -> tuple[Group, ...]:
        """The current alert groups."""
        with self._lock:
            return tuple(self._groups.values())

    @property
    def inhibitor(self) -> Inhibitor:
        """Inhibitor of the current alerts. Building one costs as much as querying it for all of them."""
        return self._inhibitor

    def failures(self) -> dict[str, DeliveryFailure]:
        """The receivers whose last delivery failed, by name in the notification log."""
        with self._lock:
            return dict(self._failures)

    def notified(self, fingerprint: str) -> NotificationLogEntry | None:
        """The newest notification of an alert."""
        return self._newest.get(fingerprint)


def _in_order(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    """Firing alerts last: where two rules give the same labels, the group must hold the firing one."""
    return tuple(sorted(alerts, key=lambda alert: alert.state is AlertState.FIRING))


def alert_url(page_url: str, alert: Alert) -> str:
    """URL of an alert's origin, by default its page of the dashboard; empty without a dashboard URL."""
    page = f"{page_url}/alerts?alert={alert.fingerprint}" if page_url else ""
    return alert.generator_url or page


def alert_context(page_url: str, alert: Alert, facts: Mapping[str, str]) -> AlertContext:
    """Links of an alert to its query, its incident and a new silence; empty without a dashboard URL."""
    query_id = alert.labels.get("query_id", "")
    query = f"{page_url}/query?query_id={quote(query_id, safe='')}" if page_url and query_id else ""
    silence = f"{page_url}/alerts?alert={alert.fingerprint}&silence=new" if page_url else ""
    incident_id = alert.labels.get("incident", "")
    incident = (
        f"{page_url}/incidents?incident={quote(incident_id, safe='')}" if page_url and incident_id else ""
    )
    return AlertContext(query, silence, facts, incident)


def log_entry(outcome: NotificationOutcome) -> NotificationLogEntry:
    """Convert an outcome to a log entry."""
    alerts = outcome.message.alerts if outcome.message else tuple(outcome.group.alerts.values())
    became = DeliveryOutcome.NOT_SENT
    if outcome.sent:
        became = DeliveryOutcome.SENT
    elif outcome.error is not None:
        became = DeliveryOutcome.FAILED
    fingerprints = tuple(alert.fingerprint for alert in alerts)
    return NotificationLogEntry(
        outcome.at, outcome.receiver, outcome.group.key, became, outcome.explanation, fingerprints
    )


def _log_line(note: NotificationLogEntry) -> str:
    result = {DeliveryOutcome.SENT: "notified", DeliveryOutcome.FAILED: "failed to notify"}.get(
        note.outcome, "did not notify"
    )
    return (
        f"{result} {note.receiver} of {len(note.fingerprints)} alerts ({note.group_key[:200]}): {note.reason}"
    )
