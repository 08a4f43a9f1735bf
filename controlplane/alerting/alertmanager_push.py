"""Send the alerts of the rules to Alertmanagers, as Prometheus does, and read their silences.

A firing alert is sent when it fires and each minute after, a resolved one each minute for 15 minutes; each Alertmanager
has a thread of its own, so that a slow one delays no other. A failed batch is sent again soon. The notifications of this
server do not depend on it. Where two servers share a store, only the one that certainly is active sends. Started and
stopped by the alerting service.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from alerts.errors import ReceiverError
from alerts.matching.labels import Labels
from alerts.notify.alertmanagers import MAX_BATCH_ALERTS, AlertmanagerEndpoint, postable
from alerts.silences import Silence
from alerts.state import Alert, AlertState

log = logging.getLogger(__name__)
RESEND_SECONDS = 60.0
SILENCES_SECONDS = 15.0
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 5.0, 60.0
#: Longest sleep, so that a changed system clock has no effect.
MAX_SLEEP_SECONDS = 5.0
LinkTo = Callable[[Alert], str]
NO_INTERVALS: Mapping[str, float] = {}


@dataclass(frozen=True)
class AlertmanagerStatus:
    """How an Alertmanager fares. `failing_since` (Unix seconds), `error`: the first failure since the last success.

    `silences`: those that have not expired, as of `silences_at`.
    """

    name: str
    url: str
    failing_since: float | None = None
    error: str | None = None
    silences: tuple[Silence, ...] = ()
    silences_at: float | None = None


def due(alerts: Iterable[Alert], sent: Mapping[str, float], now: float) -> Iterator[Alert]:
    """The alerts to send now; `sent`: when each was last sent, by fingerprint (Unix seconds)."""
    for alert in alerts:
        at = sent.get(alert.fingerprint)
        ended = alert.resolved_at is not None and (at is None or alert.resolved_at > at)
        fired = alert.fired_at is not None and (at is None or alert.fired_at > at)
        if alert.state is not AlertState.PENDING and (
            ended or fired or at is None or not at <= now < at + RESEND_SECONDS
        ):
            yield alert


class AlertmanagerPush:
    """Sends alerts to one Alertmanager. `round` does what is due; `start` calls it in a thread."""

    def __init__(
        self,
        endpoint: AlertmanagerEndpoint,
        clock: Callable[[], float],
        link: LinkTo,
        external: Labels,
        interval: float,
        may_send: Callable[[], bool] = lambda: True,
    ):
        """`link`: the `generatorURL` of an alert. `interval`: seconds between evaluations. `may_send`: whether this
        server is the one that sends."""
        self.endpoint, self._clock, self._link, self._may_send = endpoint, clock, link, may_send
        self._external, self._interval = external, interval
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._alerts: tuple[Alert, ...] = ()
        self._intervals = NO_INTERVALS
        self._sent: dict[str, float] = {}
        self._failures, self._resumes_at = 0, 0.0
        self._status = AlertmanagerStatus(endpoint.name, endpoint.url)
        self._silences_due = 0.0
        #: Alerts since the start of this process, each time they were sent.
        self.sent = self.failed = 0

    @property
    def status(self) -> AlertmanagerStatus:
        return self._status

    def take(self, alerts: Sequence[Alert], intervals: Mapping[str, float] = NO_INTERVALS) -> None:
        """Set the current alerts; where two have the same labels the last one is sent.

        `intervals`: seconds between evaluations of an alert's group by fingerprint, where they are not the usual.
        """
        self._intervals = intervals
        self._alerts = tuple({alert.fingerprint: alert for alert in alerts}.values())
        self._wake.set()

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="alertmanager", daemon=True).start()

    def stop(self) -> None:
        """Ask the thread to end; it may finish a request."""
        self._stopping.set()
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.round()
            except Exception:
                log.exception("alerts could not be sent to %s", self.endpoint.name)
            self._wake.wait(MAX_SLEEP_SECONDS)
            self._wake.clear()

    def round(self) -> None:
        """Send what is due, then read the silences if they are old. Blocks while the Alertmanager does."""
        now = self._clock()
        if now < self._resumes_at <= now + MAX_RETRY_SECONDS:
            return
        alerts = self._alerts
        self._sent = {a.fingerprint: self._sent[a.fingerprint] for a in alerts if a.fingerprint in self._sent}
        try:
            self._send(list(due(alerts, self._sent, now)), now)
            self._read_silences(now)
        except ReceiverError as error:
            self._fail(error, now)

    def _send(self, alerts: Sequence[Alert], now: float) -> None:
        for start in range(0, len(alerts), MAX_BATCH_ALERTS):
            if not self._may_send():  # it may have changed during the last request
                return
            batch = alerts[start : start + MAX_BATCH_ALERTS]
            try:
                self._post(batch, now)
            except ReceiverError as error:
                self.failed += len(batch)
                if error.retryable:
                    raise
                log.error("%s refused %d alerts: %s", self.endpoint.name, len(batch), error)
                self._note_failure(error, now)
            self._sent |= dict.fromkeys((alert.fingerprint for alert in batch), now)

    def _post(self, batch: Sequence[Alert], now: float) -> None:
        known, default = self._intervals, self._interval
        bodies = [
            postable(a, self._external, self._link(a), known.get(a.fingerprint, default), now) for a in batch
        ]
        self.endpoint.post_alerts(bodies)
        self.sent += len(batch)
        self._succeed()

    def _read_silences(self, now: float) -> None:
        if now < self._silences_due <= now + SILENCES_SECONDS:
            return
        self._silences_due = now + SILENCES_SECONDS
        found = self.endpoint.silences()
        if self._failures:
            self._succeed()
        self._update(silences=found, silences_at=now)

    def _succeed(self) -> None:
        if self._failures:
            log.info("%s takes alerts again", self.endpoint.name)
        self._failures, self._resumes_at = 0, 0.0
        self._update(failing_since=None, error=None)

    def _fail(self, error: ReceiverError, now: float) -> None:
        wait = min(FIRST_RETRY_SECONDS * 2.0**self._failures, MAX_RETRY_SECONDS)
        self._resumes_at = now + min(max(wait, error.retry_after or 0.0), MAX_RETRY_SECONDS)
        if not self._failures:
            log.warning("alerts cannot be sent to an Alertmanager now: %s", error)
        self._failures = min(self._failures + 1, 10)
        self._note_failure(error, now)

    def _note_failure(self, error: ReceiverError, now: float) -> None:
        since = now if self._status.failing_since is None else self._status.failing_since
        self._update(failing_since=since, error=str(error))

    def _update(self, **changes: object) -> None:
        self._status = AlertmanagerStatus(**{**self._status.__dict__, **changes})


class AlertmanagerPushes:
    """The threads for all Alertmanagers of the configuration."""

    def __init__(self, clock: Callable[[], float], link: LinkTo, may_send: Callable[[], bool] = lambda: True):
        self._clock, self._link, self._may_send = clock, link, may_send
        self._lock = threading.Lock()
        self._pushes: tuple[AlertmanagerPush, ...] = ()
        self._alerts: tuple[Alert, ...] = ()
        self._intervals = NO_INTERVALS
        self._started = False
        self._sent = self._failed = 0

    def replace(self, endpoints: Sequence[AlertmanagerEndpoint], external: Labels, interval: float) -> None:
        """Send to these Alertmanagers from now on."""
        with self._lock:
            self._end()
            self._pushes = tuple(
                AlertmanagerPush(endpoint, self._clock, self._link, external, interval, self._may_send)
                for endpoint in endpoints
            )
            for push in self._pushes:
                push.take(self._alerts, self._intervals)
                if self._started:
                    push.start()

    def take(self, alerts: Iterable[Alert], intervals: Mapping[str, float] = NO_INTERVALS) -> None:
        """Set the current alerts, including recently resolved ones; `intervals` as of AlertmanagerPush."""
        with self._lock:
            self._intervals = intervals
            self._alerts = tuple(sorted(alerts, key=lambda alert: alert.state is AlertState.FIRING))
            for push in self._pushes:
                push.take(self._alerts, intervals)

    def start(self) -> None:
        """Start the threads."""
        with self._lock:
            self._started = True
            for push in self._pushes:
                push.start()

    def stop(self) -> None:
        """End the threads."""
        with self._lock:
            self._end()
            self._started, self._pushes = False, ()

    def _end(self) -> None:
        for push in self._pushes:
            push.stop()
            self._sent, self._failed = self._sent + push.sent, self._failed + push.failed

    def statuses(self) -> tuple[AlertmanagerStatus, ...]:
        """Every Alertmanager of the configuration."""
        return tuple(push.status for push in self._pushes)

    def totals(self) -> tuple[int, int]:
        """Alerts sent, and alerts whose sending failed, since the start of this process."""
        pushes = self._pushes
        return self._sent + sum(p.sent for p in pushes), self._failed + sum(p.failed for p in pushes)
