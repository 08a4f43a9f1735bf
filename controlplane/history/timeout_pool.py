"""Reading a lake that may hang: on a thread of its own, waited for only so long. Used by `controlplane.history.lake_cache`.

A disk over the network or an object store that does not answer must not take the server's threads with it.
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
#: Reads at a time, those that hang among them.
MAX_CONCURRENT_READS = 8
#: Who asks so soon after a look at the lake that got no answer is told so at once.
UNRESPONSIVE_SECONDS = 15.0


class TimeoutPool:
    """With the lake at `url`. `monotonic`: seconds. From any thread."""

    def __init__(self, url: str, monotonic: Callable[[], float] = time.monotonic):
        self._url, self._monotonic = url, monotonic
        self._free = threading.BoundedSemaphore(MAX_CONCURRENT_READS)
        self._silent_until = float("-inf")

    def call(self, work: Callable[[], T], seconds: float, silence: bool = False) -> T:
        """What `work` gives. LakeError when it takes longer, and for all that the lake's file system complains of but
        a file that is not there (FileNotFoundError).

        `silence`: it is something small, so that the lake hangs if it takes longer.
        """
        if self._monotonic() < self._silent_until:
            raise LakeError(f"the lake at {self._url} does not answer")
        if seconds <= 0 or not self._free.acquire(timeout=seconds):
            raise LakeError(
                f"the lake at {self._url} is slow: reading it took too long; ask for a shorter time"
            )
        done: Future[T] = Future()
        threading.Thread(target=self._run, args=(work, done), name="lake-reader", daemon=True).start()
        if wait([done], seconds).not_done:
            if silence:
                self._silent_until = self._monotonic() + UNRESPONSIVE_SECONDS
            raise LakeError(f"the lake at {self._url} did not answer within {seconds:.0f} s")
        try:
            return done.result()
        except (ControlPlaneError, PromQLError, FileNotFoundError):
            raise
        except Exception as error:  # file systems have errors of their own: botocore's are no OSError
            log.debug("the lake cannot be read", exc_info=True)
            raise LakeError(f"the lake at {self._url} cannot be read: {error_line(error)}") from None

    def _run(self, work: Callable[[], T], done: Future[T]) -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)
        finally:
            self._free.release()


def error_line(error: BaseException) -> str:
    """The first line of an error, its name where it says nothing."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
