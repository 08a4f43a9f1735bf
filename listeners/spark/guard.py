"""Run code of the agent inside the user's program without ever raising into it.

Called wherever PySpark or a Spark thread calls the agent: wrapped methods, listeners, event streams.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Callable

log = logging.getLogger("controlplane.agent")
#: One warning a minute for each type of error.
WARNING_INTERVAL_SECONDS = 60.0


class StartRefused(Exception):
    """A start that preflight refused; raised into the user's program on purpose."""


_last_warning: dict[type, float] = {}


def guarded(act: Callable[[], Any]) -> None:
    """Run `act`; log an error of the agent instead of raising it. `StartRefused` passes."""
    try:
        act()
    except StartRefused:
        raise
    except Exception as error:
        log_error(error)


def log_error(error: Exception) -> None:
    """Log an error of the agent as one warning, at most once a minute for each type of error."""
    now = time.monotonic()
    if now - _last_warning.get(type(error), now - WARNING_INTERVAL_SECONDS) >= WARNING_INTERVAL_SECONDS:
        _last_warning[type(error)] = now
        log.warning("internal error in the control plane's agent, which continues: %r", error)
