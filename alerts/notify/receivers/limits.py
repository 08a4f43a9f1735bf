"""Limits of a receiver: after a failure that a retry may mend, it is left alone until the stated time.

Without them each group of a receiver would wait for a service that does not answer, and every group would repeat a
request that the service asked to delay (`Retry-After`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from alerts.errors import ReceiverError
from alerts.notify.message import Message
from alerts.notify.receivers.base import Receiver

#: Pause after a failure without `Retry-After`; doubles up to the longest while failures follow each other.
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 2.0, 60.0


class LimitedReceiver:
    """Passes messages to a receiver, except while it has to be left alone."""

    def __init__(self, receiver: Receiver, clock: Callable[[], float] = time.monotonic):
        self.receiver, self._clock = receiver, clock
        self._lock = threading.Lock()
        self._until, self._failures, self._cause = 0.0, 0, ""
        self._paused_at = float("-inf")

    @property
    def name(self) -> str:
        return self.receiver.name

    @property
    def sends_resolved(self) -> bool:
        return self.receiver.sends_resolved

    def __repr__(self) -> str:
        return f"LimitedReceiver({self.receiver!r})"

    def send(self, message: Message) -> None:
        """Send a message, or raise a retryable ReceiverError while the receiver is left alone."""
        began = self._clock()
        with self._lock:
            left, cause = self._until - began, self._cause
        if left > 0:
            raise ReceiverError(f"not tried for another {left:.0f} s after: {cause}", True, retry_after=left)
        try:
            self.receiver.send(message)
        except ReceiverError as error:
            if error.retryable and (error.status in (None, 429) or error.retry_after is not None):
                self._pause(error, began)  # not after another status: it may concern this message alone
            raise
        with self._lock:
            if began > self._paused_at:
                self._failures = 0

    def _pause(self, error: ReceiverError, began: float) -> None:
        with self._lock:
            if began > self._paused_at:  # else it was at work when another message failed: one failure
                self._failures += 1
            own = min(FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures - 1, 10), MAX_PAUSE_SECONDS)
            self._paused_at = self._clock()
            self._until = self._paused_at + (own if error.retry_after is None else error.retry_after)
            self._cause = str(error)[:300]
