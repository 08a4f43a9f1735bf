"""Notice that a signal ends the driver's JVM, while Python can still report it.

Under `spark-submit` the JVM is the parent: a pod's SIGTERM reaches the JVM, and Python is killed as soon as the JVM
has ended. A shutdown hook of the JVM calls Python back in between. Used by `listeners.spark.classic`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from typing import Any, Callable

from listeners.protocol.wire import SIGINT, SIGTERM
from listeners.spark.guard import REPORT_SECONDS, guarded, run_with_timeout

#: The JVM runs its shutdown hooks from a thread of this name; at an exit of its own there is none.
_HANDLERS = re.compile(r"\bSIG(TERM|INT|HUP) handler\b")


class ShutdownHook:
    """A `java.lang.Runnable` that calls `act(reason)` if a signal ends the JVM."""

    def __init__(self, jvm: Any, act: Callable[[str], None]):
        self._jvm, self._act = jvm, act

    def run(self) -> None:
        """py4j's callback, on a thread of its own. The JVM waits for it, so it takes REPORT_SECONDS at most."""
        with suppress(RuntimeError):  # Python is exiting too, and reports that
            run_with_timeout(partial(guarded, self._report), REPORT_SECONDS)

    def _report(self) -> None:
        signal = _HANDLERS.search(str(self._jvm.java.lang.Thread.getAllStackTraces().keySet().toString()))
        if signal is not None:
            self._act(SIGINT if signal.group(1) == "INT" else SIGTERM)

    #: py4j asks this for the Java interfaces of a callback.
    Java = type("Java", (), {"implements": ["java.lang.Runnable"]})


def on_signal(jvm: Any, act: Callable[[str], None]) -> Callable[[], None]:
    """Call `act(reason)` when a signal ends the JVM; returns a call that removes the hook.

    The callback server of py4j must run.
    """
    thread = jvm.java.lang.Thread(ShutdownHook(jvm, act))
    runtime = jvm.java.lang.Runtime.getRuntime()
    runtime.addShutdownHook(thread)
    return partial(_remove, runtime, thread)


def _remove(runtime: Any, thread: Any) -> None:
    with suppress(Exception):  # a JVM that shuts down refuses, one that has ended does not answer
        runtime.removeShutdownHook(thread)
