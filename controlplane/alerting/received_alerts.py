"""Alerts that other programs post, such as a Prometheus or amtool: held until they end or are not sent again.

As in Alertmanager, an alert without an end is resolved when it is not posted again within `resolve_timeout`. Its label
`alert_source` distinguishes it from the alerts of this server's rules. Transitions are stored like those of rules;
after a restart a firing alert waits one `resolve_timeout` for its sender. Thread-safe.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from alerts import state
from alerts.matching.labels import fingerprint
from alerts.state import ALERT_NAME, Alert, AlertState, Transition
from controlplane.errors import StoreUnavailable
from controlplane.store.alerting import AlertChange, StoredAlert

log = logging.getLogger(__name__)
#: Key of the group and of the rule of these alerts in the store.
RECEIVED = "received"
#: Names the origin of an alert; a sender may give it another value.
SOURCE_LABEL, EXTERNAL = "alert_source", "external"
MAX_RECEIVED_ALERTS = 10_000
#: Transitions held while the store is unavailable.
MAX_UNSAVED = 20_000
Save = Callable[[Sequence[AlertChange], Mapping[str, float]], None]


@dataclass(frozen=True)
class PostedAlert:
    """An alert as posted; times are Unix seconds, None: not given."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str] = field(default_factory=dict)
    starts_at: float | None = None
    ends_at: float | None = None
    generator_url: str = ""


@dataclass(frozen=True)
class _Held:
    """`ends_at`: when the alert ends unless it is posted again; `reason` of its state."""

    alert: Alert
    ends_at: float
    reason: str


class ReceivedAlerts:
    """The alerts that were posted, by fingerprint."""

    def __init__(self, save: Save, resolve_timeout: float):
        """`save` stores transitions or raises StoreUnavailable. `resolve_timeout`: seconds."""
        self._save, self.resolve_timeout = save, resolve_timeout
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}
        self._unsaved: list[AlertChange] = []

    def load(self, stored: Iterable[StoredAlert], now: float) -> None:
        """Replace all alerts by the stored ones."""
        with self._lock:
            self._held.clear()
            for item in stored:
                ends_at = item.alert.resolved_at or now + self.resolve_timeout
                self._held[item.alert.fingerprint] = _Held(item.alert, ends_at, item.reason)

    def take(self, posted: Iterable[PostedAlert], sender: str, now: float) -> int:
        """Hold posted alerts and store what changes. Returns the number of alerts refused by the limit."""
        with self._lock:
            changes, refused = [], 0
            for item in posted:
                labels = _labels(item.labels)
                known = self._held.get(fingerprint(labels))
                if known is None and len(self._held) >= MAX_RECEIVED_ALERTS:
                    refused += 1
                    continue
                changes += self._put(
                    _merged(known, item, labels, sender, now, self.resolve_timeout), known, now
                )
            self._store(changes)
        return refused

    def _put(self, after: _Held | None, known: _Held | None, now: float) -> list[AlertChange]:
        if after is None:
            return []
        self._held[after.alert.fingerprint] = after
        before = known.alert.state if known and known.alert.active_at == after.alert.active_at else None
        return [] if before is after.alert.state else [_change(after, before, now)]

    def expire(self, now: float) -> None:
        """Resolve the alerts that were not posted again in time; forget those that ended long ago."""
        oldest = now - state.RESOLVED_RETENTION_SECONDS
        with self._lock:
            over = [h for h in self._held.values() if h.ends_at <= now and h.alert.state is AlertState.FIRING]
            changes = [change for held in over for change in self._put(_ended(held, now), held, now)]
            self._held = {key: held for key, held in self._held.items() if not _is_old(held.alert, oldest)}
            if changes or self._unsaved:
                self._store(changes)

    def _store(self, changes: Sequence[AlertChange]) -> None:
        """Notifications go out even where the transitions cannot be stored now."""
        self._unsaved = [*self._unsaved, *changes][-MAX_UNSAVED:]
        if not self._unsaved:
            return
        try:
            self._save(tuple(self._unsaved), {})
            self._unsaved.clear()
        except StoreUnavailable as error:
            log.error("received alerts cannot be stored now; notifications are sent anyway: %s", error)

    def alerts(self) -> tuple[StoredAlert, ...]:
        """Firing and recently resolved alerts."""
        with self._lock:
            return tuple(StoredAlert(RECEIVED, RECEIVED, h.alert, h.reason) for h in self._held.values())


def _labels(given: Mapping[str, str]) -> dict[str, str]:
    return {SOURCE_LABEL: EXTERNAL, **{name: value for name, value in given.items() if value}}


def _merged(
    known: _Held | None, item: PostedAlert, labels: Mapping[str, str], sender: str, now: float, timeout: float
) -> _Held | None:
    """The alert after a post; None where the post ends an alert that does not fire here."""
    firing = known.alert if known is not None and known.alert.state is AlertState.FIRING else None
    ends_at = item.ends_at if item.ends_at is not None else now + timeout
    if ends_at <= now:
        ended = replace(known, ends_at=ends_at) if known is not None else None
        return _ended(ended, now) if ended is not None and firing is not None else None
    began = now if item.starts_at is None else min(item.starts_at, now)
    if firing is not None:
        began = firing.active_at  # the stored episode goes on
    elif known is not None:
        began = max(began, known.ends_at)  # a new episode, after the stored one
    alert = Alert(
        rule=labels.get(ALERT_NAME, RECEIVED),
        labels=labels,
        annotations=item.annotations,
        value=1.0,
        state=AlertState.FIRING,
        active_at=began,
        fired_at=began,
        generator_url=item.generator_url,
    )
    return _Held(alert, ends_at, f"posted by {sender}")


def _ended(held: _Held, now: float) -> _Held:
    at = max(min(held.ends_at, now), held.alert.active_at)
    alert = replace(held.alert, state=AlertState.RESOLVED, resolved_at=at)
    return _Held(alert, at, "its sender ended it or no longer posts it")


def _change(held: _Held, before: AlertState | None, now: float) -> AlertChange:
    transition = Transition(held.alert, before, held.alert.state, now, held.reason)
    return AlertChange(RECEIVED, RECEIVED, transition)


def _is_old(alert: Alert, oldest: float) -> bool:
    return alert.resolved_at is not None and alert.resolved_at <= oldest
