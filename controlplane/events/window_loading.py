"""Load the samples that the start of a server has left out, in steps beside its other work.

Called by `controlplane.app` at the start, so that a small fleet is complete before anything is judged, and by the
thread of the rules until the window is complete: a rule must not resolve an alert for want of samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy.engine import Connection

from controlplane.events.window import Window

#: Queries in one step, and seconds in which steps begin.
STEP_QUERIES, COMPLETE_SECONDS = 20, 0.5


def complete_window(
    window: Window,
    reading: Callable[[], AbstractContextManager[Connection]],
    monotonic: Callable[[], float] = time.monotonic,
) -> bool:
    """Load the samples of as many queries as COMPLETE_SECONDS allow; whether some are left."""
    if not window.loading:
        return False
    until = monotonic() + COMPLETE_SECONDS
    with reading() as connection:
        while window.complete(connection, STEP_QUERIES) and monotonic() < until:
            pass
    return window.loading > 0
