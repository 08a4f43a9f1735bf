"""One receiver of remote write: samples are taken at each interval, queued, and sent in order.

A receiver that is away costs memory only up to MAX_QUEUED_BYTES; then the oldest samples are dropped and counted. What a
receiver refuses for good (4xx but 429) is dropped. Nothing is kept over a restart of the server.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from alerts.errors import ReceiverError
from alerts.matching.labels import Labels, Matcher, matches
from alerts.notify.http.client import HttpClient, checked, redacted_url
from alerts.promql.series import METRIC_NAME
from controlplane.metrics.remote_write import protocol
from listeners.protocol.catalogue import BY_NAME

log = logging.getLogger(__name__)
MAX_SERIES_PER_REQUEST = 2_000
MAX_QUEUED_BYTES = 64 * 1024 * 1024
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 60.0
#: How often types and help texts are sent.
METADATA_SECONDS = 600.0
NamedSample = tuple[str, Mapping[str, str], float]
Key = tuple[str, frozenset[tuple[str, str]]]


@dataclass(frozen=True, repr=False)
class RemoteWriteTarget:
    """A receiver. `selectors`: the series to send, empty for all; `interval`: seconds between two samples."""

    url: str
    client: HttpClient
    headers: Mapping[str, str] = field(default_factory=dict)
    interval: float = 15.0
    selectors: tuple[tuple[Matcher, ...], ...] = ()
    external_labels: Labels = field(default_factory=dict)
    name: str = ""

    @property
    def title(self) -> str:
        """The configured name, else scheme and host of the URL."""
        return self.name or redacted_url(self.url)

    def send(self, body: bytes) -> None:
        """Send a request. Raises ReceiverError."""
        headers = {**self.headers, **protocol.HEADERS}
        checked(self.url, self.client.request("POST", self.url, body, headers))


@dataclass
class RemoteWriteStats:
    """Totals since the start: samples sent, dropped, and those in the queue. `error` of the last try, if it failed."""

    sent: int = 0
    dropped: int = 0
    pending: int = 0
    error: str | None = None


@dataclass(frozen=True)
class _Queued:
    body: bytes
    samples: int


class RemoteWriteQueue:
    """Samples on their way to one receiver. `sample` and `send_next` are called by two threads."""

    def __init__(self, target: RemoteWriteTarget):
        self.target, self.stats = target, RemoteWriteStats()
        self._lock = threading.Lock()
        self._queue: deque[_Queued] = deque()
        self._bytes = 0
        self._labels: dict[Key, bytes] = {}
        self._metadata_at = -math.inf

    def take_over(self, former: RemoteWriteQueue) -> None:
        """Go on where the queue of a former configuration ended: with its requests, and the series that it sent.

        With other external labels those series are others, which end with the receiver's look-back.
        """
        with former._lock:
            self._queue, self._bytes = former._queue.copy(), former._bytes
        self.stats.pending = sum(queued.samples for queued in self._queue)
        if former.target.external_labels == self.target.external_labels:
            self._labels = former._labels

    # -- taking samples --------------------------------------------------------------------------------

    def sample(self, samples: Iterable[NamedSample], at: float) -> None:
        """Queue the samples of `at` (Unix seconds), and a staleness marker for each series that is gone."""
        before, self._labels = self._labels, {}
        values: list[tuple[bytes, float]] = []
        for name, labels, value in samples:
            if self._is_wanted(name, labels):
                key = name, frozenset(labels.items())
                encoded = before.pop(key, None) or self._encoded(name, labels)
                self._labels[key] = encoded
                values.append((encoded, value))
        values += ((encoded, protocol.STALE_MARKER) for encoded in before.values())
        self._put_all(values, at)

    def _is_wanted(self, name: str, labels: Mapping[str, str]) -> bool:
        selectors = self.target.selectors
        return not selectors or any(matches(item, {METRIC_NAME: name, **labels}) for item in selectors)

    def _encoded(self, name: str, labels: Mapping[str, str]) -> bytes:
        return protocol.encoded_labels({**self.target.external_labels, **labels, METRIC_NAME: name})

    def _put_all(self, values: Sequence[tuple[bytes, float]], at: float) -> None:
        left = iter(values)
        while chunk := list(islice(left, MAX_SERIES_PER_REQUEST)):
            self._put(_Queued(protocol.write_request(chunk, at), len(chunk)))
        if not self._metadata_at <= at < self._metadata_at + METADATA_SECONDS:
            self._metadata_at = at
            names = {name for name, _ in self._labels} & BY_NAME.keys()
            self._put(_Queued(protocol.write_request((), at, [BY_NAME[name] for name in sorted(names)]), 0))

    def _put(self, item: _Queued) -> None:
        with self._lock:
            self._queue.append(item)
            self._bytes += len(item.body)
            while self._bytes > MAX_QUEUED_BYTES and len(self._queue) > 1:
                self.stats.dropped += self._remove(self._queue[0])
            self.stats.pending = sum(queued.samples for queued in self._queue)

    def _remove(self, item: _Queued) -> int:
        """Remove the oldest request if it is this one; returns its number of samples."""
        if not self._queue or self._queue[0] is not item:
            return 0
        self._queue.popleft()
        self._bytes -= len(item.body)
        self.stats.pending -= item.samples
        return item.samples

    # -- sending ---------------------------------------------------------------------------------------

    def send_next(self) -> float | None:
        """Send the oldest request. Returns the seconds to wait before the next try; None: the queue is empty."""
        with self._lock:
            item = self._queue[0] if self._queue else None
        if item is None:
            return None
        try:
            self.target.send(item.body)
        except ReceiverError as error:
            return self._failed(item, error)
        if self.stats.error is not None:
            log.info("%s takes samples again", self.target.title)
        with self._lock:
            self.stats.sent += item.samples
            self.stats.error = None
            self._remove(item)
        return 0.0

    def _failed(self, item: _Queued, error: ReceiverError) -> float:
        if self.stats.error is None:
            log.warning("samples cannot be sent: %s", error)
        self.stats.error = str(error)
        if error.retryable:
            return max(FIRST_RETRY_SECONDS, error.retry_after or 0.0)
        with self._lock:
            self.stats.dropped += self._remove(item)
        return 0.0


class RemoteWriteThreads:
    """The two threads of a queue."""

    def __init__(
        self,
        queue: RemoteWriteQueue,
        live: Callable[[float], Iterable[NamedSample]],
        clock: Callable[[], float],
        may_send: Callable[[], bool] = lambda: True,
    ):
        """`live`: all current samples at a time. `may_send`: else the samples wait in the queue."""
        self.queue, self._live, self._clock, self._may_send = queue, live, clock, may_send
        self._stopping, self._filled = threading.Event(), threading.Event()
        for work in (self._sample, self._send):
            threading.Thread(target=work, name="remote write", daemon=True).start()

    def stop(self) -> None:
        """Ask the threads to end."""
        self._stopping.set()
        self._filled.set()

    def _sample(self) -> None:
        interval = self.queue.target.interval
        while not self._stopping.wait(max(0.01, interval - self._clock() % interval)):
            at = math.floor(self._clock() / interval) * interval
            try:
                self.queue.sample(self._live(self._clock()), at)
            except Exception:
                log.exception("samples for %s could not be taken", self.queue.target.title)
            self._filled.set()

    def _send(self) -> None:
        wait, retry = 0.0, FIRST_RETRY_SECONDS
        while not self._stopping.wait(wait):
            if not self._may_send():
                wait = FIRST_RETRY_SECONDS
                continue
            try:
                asked = self.queue.send_next()
            except Exception:
                log.exception("samples could not be sent to %s", self.queue.target.title)
                asked = MAX_RETRY_SECONDS
            if asked is None:
                self._filled.wait()
                self._filled.clear()
            wait = min(max(asked, retry), MAX_RETRY_SECONDS) if asked else 0.0
            retry = min(retry * 2, MAX_RETRY_SECONDS) if asked else FIRST_RETRY_SECONDS
