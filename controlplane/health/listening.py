"""Since when this server receives events without a pause: what it did not receive before is not a driver's silence.

Asked with every verdict and every group of events, so a pause shows at the first of these after it. Shared by
`controlplane.health.verdicts` and `controlplane.ingest.write_batcher`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

#: The periodic job asks every 5 s. After more, the process was stopped (SIGSTOP, a paused VM) or its clock was set.
MAX_PAUSE_SECONDS = 20.0


class ListeningTime:
    """The start of the server, its take-over as the active one or the end of its last pause. Thread-safe.

    `wall` is the clock that shows a pause, in Unix seconds.
    """

    def __init__(self, since: float = 0.0, wall: Callable[[], float] = time.time):
        self._since, self._wall = since, wall
        self._lock = threading.Lock()
        self._asked_at = wall()

    def since(self, now: float) -> float:
        """Since when silence counts, Unix seconds: `now` if the process was paused."""
        with self._lock:
            before, self._asked_at = self._asked_at, self._wall()
            if abs(self._asked_at - before) > MAX_PAUSE_SECONDS:
                self._since = now
            return self._since

    def begin(self, at: float) -> None:
        """Count silence from `at`, Unix seconds: nothing was received before, as another server was killed."""
        with self._lock:
            self._since, self._asked_at = at, self._wall()
