"""Run code of the agent inside the user's program without ever raising into it.

Called wherever PySpark or a Spark thread calls the agent: wrapped methods, listeners, event streams.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Callable

log = logging.getLogger("controlplane.agent")
#: One warning a minute for each type of error.
WARNING_INTERVAL_SECONDS = 60.0
#: How long SIGTERM may be delayed; a pod's grace period is 30 s, and rarely below 5 s.
REPORT_SECONDS = 3.0


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


def run_with_timeout(act: Callable[[], None], seconds: float) -> bool:
    """Run `act` on another thread for at most `seconds`, so that a hanging JVM cannot block the program.

    True if it has finished. RuntimeError if the interpreter is exiting and starts no more threads (3.12).
    """
    thread = threading.Thread(target=act, name="controlplane-aside", daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()
