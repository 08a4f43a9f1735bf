"""Run reads of a lake that may hang in threads of their own, with a timeout. Used by
`controlplane.history.lake_cache`.

A network disk or an object store that does not answer must not block the server's threads.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from alerts.promql.errors import PromQLError
from controlplane.errors import ControlPlaneError, LakeError

log = logging.getLogger(__name__)
T = TypeVar("T")
#: Concurrent reads, including those that hang.
MAX_CONCURRENT_READS = 8
#: How long requests fail at once after a probe got no answer.
UNRESPONSIVE_SECONDS = 15.0


class TimeoutPool:
    """Calls with a timeout for the lake at `url`. `monotonic`: clock in seconds. Thread-safe."""

    def __init__(self, url: str, monotonic: Callable[[], float] = time.monotonic):
        self._url, self._monotonic = url, monotonic
        self._slots = threading.BoundedSemaphore(MAX_CONCURRENT_READS)
        self._unresponsive_until = float("-inf")

    def call(self, work: Callable[[], T], seconds: float, probe: bool = False) -> T:
        """Return the result of `work`. LakeError on timeout and for every error of the lake's file system
        except FileNotFoundError.

        `probe`: the work is small, so a timeout means that the lake hangs.
        """
        if self._monotonic() < self._unresponsive_until:
            raise LakeError(f"the lake at {self._url} does not answer")
        if seconds <= 0 or not self._slots.acquire(timeout=seconds):
            raise LakeError(
                f"the lake at {self._url} is slow: the read took too long. Request a shorter time range"
            )
        done: Future[T] = Future()
        threading.Thread(target=self._run, args=(work, done), name="lake-reader", daemon=True).start()
        if wait([done], seconds).not_done:
            if probe:
                self._unresponsive_until = self._monotonic() + UNRESPONSIVE_SECONDS
            raise LakeError(f"the lake at {self._url} did not answer within {seconds:.0f} s")
        try:
            return done.result()
        except (ControlPlaneError, PromQLError, FileNotFoundError):
            raise
        except Exception as error:  # file systems raise their own types: botocore's errors are not OSError
            log.debug("the lake cannot be read", exc_info=True)
            raise LakeError(f"the lake at {self._url} cannot be read: {error_line(error)}") from None

    def _run(self, work: Callable[[], T], done: Future[T]) -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)
        finally:
            self._slots.release()


def error_line(error: BaseException) -> str:
    """The first line of an error, or its type where it has no text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
