"""Tells people: groups of alerts, when each is due, and a note of every look.

One thread watches the clock; each receiver has a lane of its own, so that one that hangs keeps nobody else
waiting. A message is sent, then noted: an end of the process in between leads to a second message of the same
group, never to none. Started and stopped by `controlplane.app`.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from alerts import grouping
from alerts.grouping import Group
from alerts.inhibition import Inhibitor
from alerts.notify.dispatch import after_flush, flush_group
from alerts.notify.reasons import NotificationState
from alerts.notify.stages import NotificationContext, NotificationOutcome
from alerts.state import Alert, AlertState
from controlplane.alerting.evaluation import Reached, ignore_point
from controlplane.alerting.rulebook import Rulebook
from controlplane.alerting.silence_state import SilenceStates
from controlplane.errors import StoreUnavailable
from controlplane.records import DeliveryOutcome, NotificationLogEntry

log = logging.getLogger(__name__)
#: The longest the watching thread sleeps, so that a clock that was set does not matter.
MAX_SLEEP_SECONDS = 5.0
#: Newest messages that are remembered by alert, for the page.
MAX_REMEMBERED = 5_000
GroupName = tuple[str, str]
StoreEntry = Callable[[NotificationLogEntry, NotificationState | None], None]
_DIGITS = re.compile(r"\d+(?:\.\d+)?")


class Notifier:
    """`take` the alerts after each evaluation; the rest happens by itself."""

    def __init__(
        self,
        book: Rulebook,
        silence_state: SilenceStates,
        keep: StoreEntry,
        page_url: str,
        clock: Callable[[], float] = time.time,
        reached: Reached = ignore_point,
    ):
        """`keep` stores a note with what its receiver now knows, or raises StoreUnavailable."""
        self._book, self._silence_state, self._keep = book, silence_state, keep
        self._page_url, self._clock, self._reached = page_url, clock, reached
        self._lock = threading.Lock()
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._groups: dict[GroupName, Group] = {}
        self._told: dict[GroupName, NotificationState] = {}
        self._alerts: tuple[Alert, ...] = ()
        self._inhibitor = Inhibitor((), ())
        self._busy: set[str] = set()
        self._unsaved: deque[tuple[NotificationLogEntry, NotificationState | None]] = deque(
            maxlen=MAX_REMEMBERED
        )
        self._saving, self._away = threading.Lock(), False
        self._lanes: set[threading.Thread] = set()
        self._said: dict[GroupName, str] = {}
        self._newest: OrderedDict[str, NotificationLogEntry] = OrderedDict()
        self._thread: threading.Thread | None = None
        #: Totals since the start of this process.
        self.sent = self.failed = 0

    def load(
        self,
        alerts: Iterable[Alert],
        told: Mapping[GroupName, NotificationState],
        notes: Iterable[NotificationLogEntry],
    ) -> None:
        """Take up what was told before this start. `notes`: newest first."""
        with self._lock:
            self._told, self._alerts = dict(told), _in_order(alerts)
            self._seed()
            for note in reversed(list(notes)):
                self._remember(note)

    def replace(self, book: Rulebook) -> None:
        """Other routes and receivers from now on; what was told stays told."""
        with self._lock:
            self._book = book
            self._seed()
        self._wake.set()

    def _seed(self) -> None:
        """Groups made anew. One that was told that an alert fires is also to hear of its end."""
        known = {fingerprint for told in self._told.values() for fingerprint in told.firing}
        fired = [
            replace(alert, state=AlertState.FIRING)
            for alert in self._alerts
            if alert.state is AlertState.RESOLVED and alert.fingerprint in known
        ]
        groups = grouping.add_alerts({}, fired, self._book.config.route)
        self._groups = grouping.add_alerts(groups, self._alerts, self._book.config.route)
        self._inhibitor = Inhibitor(self._book.config.inhibit_rules, self._alerts)

    def take(self, alerts: Iterable[Alert]) -> None:
        """All alerts as they are now, resolved ones for a while too."""
        with self._lock:
            self._alerts = _in_order(alerts)
            self._inhibitor = Inhibitor(self._book.config.inhibit_rules, self._alerts)
            self._groups = grouping.add_alerts(self._groups, self._alerts, self._book.config.route)
        self._wake.set()

    # -- the thread and its lanes ----------------------------------------------------------------------

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """What is sent now is waited for and noted, or it would be sent again; but not for longer than `timeout`."""
        thread, self._thread = self._thread, None
        self._stopping.set()
        self._wake.set()
        until = time.monotonic() + timeout
        if thread is not None:
            thread.join(timeout)
        for lane in self._lanes:  # only now: that thread may just have opened one
            lane.join(max(0.0, until - time.monotonic()))
        self._save()

    def problems(self) -> list[str]:
        """Why nobody is told, in words."""
        alive = self._thread is not None and self._thread.is_alive()
        return [] if alive else ["the notifier does not run"]

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(self._nap())
            self._wake.clear()
            try:
                self._round()
            except Exception:
                log.exception("a round of notification failed")
                self._stopping.wait(1.0)

    def _nap(self) -> float:
        with self._lock:
            free = {name: group for name, group in self._groups.items() if group.receiver not in self._busy}
        due = grouping.next_due_at(free)
        return MAX_SLEEP_SECONDS if due is None else min(max(due - self._clock(), 0.0), MAX_SLEEP_SECONDS)

    def _round(self) -> None:
        """Give each receiver that is free its groups that are due; store what could not be stored before."""
        lanes: dict[str, list[GroupName]] = {}
        with self._lock:
            now = self._clock()
            self._groups = {name: grouping.clamp_times(group, now) for name, group in self._groups.items()}
            for group in grouping.due(self._groups, now):
                if group.receiver not in self._busy:
                    lanes.setdefault(group.receiver, []).append(group.name)
            self._busy |= lanes.keys()
        for receiver, names in lanes.items():
            self._open(self._lane, receiver, names)
        if self._unsaved:
            self._open(self._save)

    def _open(self, work: Callable[..., None], *arguments: object) -> None:
        """A lane of its own, that does not keep the process from ending."""
        if not self._stopping.is_set():
            lane = threading.Thread(target=work, args=arguments, name="notify", daemon=True)
            lane.start()
            self._lanes = {lane, *(one for one in self._lanes if one.is_alive())}

    def _lane(self, receiver: str, names: Iterable[GroupName]) -> None:
        try:
            for name in names:
                if not self._stopping.is_set():
                    self._try(name)
        finally:
            with self._lock:
                self._busy.discard(receiver)
            self._wake.set()

    def _try(self, name: GroupName) -> None:
        try:
            self.look(name)
        except Exception:
            log.exception("telling %s failed", name[1])
            with self._lock:
                if (group := self._groups.get(name)) is not None:
                    self._groups[name] = grouping.after_failure(group, self._clock())

    def look(self, name: GroupName) -> None:
        """Look at one group now and tell its receivers if there is something to tell. Blocks while they do."""
        now = self._clock()
        with self._lock:
            seen, told, book = self._groups.get(name), dict(self._told), self._book
            context = self._context()
        if seen is None:
            return
        self._reached("before the message")
        looks = flush_group(seen, told, book.receivers, context, now, self._note)
        with self._lock:
            current = self._groups.get(name)
            left = after_flush(current, seen, looks, self._clock()) if current is not None else None
            if left is not None:
                self._groups[name] = left
                return
            self._groups.pop(name, None)
            for outcome in looks:
                self._said.pop((seen.key, outcome.receiver), None)

    def _context(self) -> NotificationContext:
        return NotificationContext(
            inhibitor=self._inhibitor,
            silences=self._silence_state.active(self._clock()),
            acknowledgements=self._silence_state.acknowledgements,
            external_url=self._page_url,
            generator_url=lambda alert: alert_url(self._page_url, alert),
        )

    # -- what was told ---------------------------------------------------------------------------------

    def _note(self, outcome: NotificationOutcome) -> None:
        """Remember and store what became of a look."""
        note = log_entry(outcome)
        if note.outcome is DeliveryOutcome.SENT:
            self._reached("message sent")
        with self._lock:
            told = self._now_told(outcome)
            self._count(note)
            if not self._is_news(note) and told is None:
                return
            self._remember(note)
            self._know((note.group_key, note.receiver), told)
            self._unsaved.append((note, told))
        level = {DeliveryOutcome.FAILED: logging.WARNING, DeliveryOutcome.SENT: logging.INFO}
        log.log(level.get(note.outcome, logging.DEBUG), "%s", _log_line(note))
        if not self._away:  # else the next round tries it: a store that hangs must not delay messages
            self._save()
        self._reached("message noted")

    def _now_told(self, outcome: NotificationOutcome) -> NotificationState | None:
        """What the receiver knows now: nothing where all is over, even if that was muted, so that it hears the next."""
        name = outcome.group.key, outcome.receiver
        over = all(alert.state is AlertState.RESOLVED for alert in outcome.group.alerts.values())
        if outcome.state is None and over and not outcome.retries and name in self._told:
            return NotificationState(frozenset(), frozenset(), outcome.at)
        return outcome.state

    def _is_news(self, note: NotificationLogEntry) -> bool:
        """Whether it says more than another number: a group is looked at every few minutes."""
        name = note.group_key, note.receiver
        said = f"{note.outcome} {_DIGITS.sub('#', note.words)}"
        known, self._said[name] = self._said.get(name), said
        return known != said or note.outcome is DeliveryOutcome.SENT

    def _count(self, note: NotificationLogEntry) -> None:
        self.sent += note.outcome is DeliveryOutcome.SENT
        self.failed += note.outcome is DeliveryOutcome.FAILED

    def _know(self, name: GroupName, told: NotificationState | None) -> None:
        if told is not None and told.firing:
            self._told[name] = told
        elif told is not None:
            self._told.pop(name, None)

    def _remember(self, note: NotificationLogEntry) -> None:
        for fingerprint in note.fingerprints if note.outcome is DeliveryOutcome.SENT else ():
            self._newest[fingerprint] = note
            self._newest.move_to_end(fingerprint)
        while len(self._newest) > MAX_REMEMBERED:
            self._newest.popitem(last=False)

    def _save(self) -> None:
        """In the order of the notes: whoever is at it stores those of the others too."""
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
            level = logging.DEBUG if self._away else logging.ERROR  # it is tried every few seconds
            log.log(level, "what was told cannot be stored now: %s", error)
            self._away = True
            return False
        except Exception:
            log.exception("a note cannot be stored at all")
        self._away = False
        with self._lock:
            if self._unsaved and self._unsaved[0] is oldest:
                self._unsaved.popleft()
        return True

    # -- reading ---------------------------------------------------------------------------------------

    def groups(self) -> tuple[Group, ...]:
        with self._lock:
            return tuple(self._groups.values())

    @property
    def inhibitor(self) -> Inhibitor:
        """Of the alerts that were taken last. To make one takes as long as to ask it of them all."""
        return self._inhibitor

    def notified(self, fingerprint: str) -> NotificationLogEntry | None:
        """The newest message that told of an alert."""
        return self._newest.get(fingerprint)


def _in_order(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    """Those that fire last: where two rules give the same labels, a group is to know the one that fires."""
    return tuple(sorted(alerts, key=lambda alert: alert.state is AlertState.FIRING))


def alert_url(page_url: str, alert: Alert) -> str:
    """Where an alert can be looked at."""
    return f"{page_url}/alerts?alert={alert.fingerprint}" if page_url else ""


def log_entry(outcome: NotificationOutcome) -> NotificationLogEntry:
    """An outcome as a line of the log."""
    told = outcome.message.alerts if outcome.message else tuple(outcome.group.alerts.values())
    became = DeliveryOutcome.NOT_SENT
    if outcome.sent:
        became = DeliveryOutcome.SENT
    elif outcome.error is not None:
        became = DeliveryOutcome.FAILED
    fingerprints = tuple(alert.fingerprint for alert in told)
    return NotificationLogEntry(
        outcome.at, outcome.receiver, outcome.group.key, became, outcome.explanation, fingerprints
    )


def _log_line(note: NotificationLogEntry) -> str:
    told = {DeliveryOutcome.SENT: "told", DeliveryOutcome.FAILED: "could not tell"}.get(
        note.outcome, "did not tell"
    )
    return f"{told} {note.receiver} of {len(note.fingerprints)} alerts ({note.group_key[:200]}): {note.words}"
