"""The end of the driver's JVM: notice a signal while Python can still report it, and find out how a JVM has ended.

Under `spark-submit` the JVM is the parent: a pod's SIGTERM reaches the JVM, and Python is killed as soon as the JVM
has ended. A shutdown hook of the JVM calls Python back in between. Used by `listeners.spark.classic`.
"""

from __future__ import annotations

import re
import socket
import subprocess
from contextlib import suppress
from functools import partial
from typing import Any, Callable

from listeners.protocol.wire import JVM_EXITED, SIGINT, SIGTERM
from listeners.spark.engine import SparkOutage
from listeners.spark.guard import REPORT_SECONDS, guarded, run_with_timeout

#: The JVM runs its shutdown hooks from a thread of this name; at an exit of its own there is none.
_HANDLERS = re.compile(r"\bSIG(TERM|INT|HUP) handler\b")
#: Exit codes of a JVM that SIGTERM ended.
SIGTERM_CODES = (-15, 143)
#: For the one connection that finds out whether the JVM still listens.
CONNECT_SECONDS = 1.0
#: Seconds for a JVM that refuses connections to have ended.
EXIT_SECONDS = 10.0


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


def jvm_end(gateway: Any) -> SparkOutage | None:
    """How the JVM behind a py4j gateway has ended; None while it runs.

    A JVM whose port refuses connections has ended. PySpark knows the process if it started the JVM, and not under
    `spark-submit`, where the JVM started Python.
    """
    process = getattr(gateway, "proc", None)
    code = None if process is None else process.poll()
    if code is None and not _refuses_connections(gateway.gateway_parameters):
        return None
    if process is None:
        return SparkOutage(JVM_EXITED, "the driver's JVM has ended: its port refuses connections", True)
    try:  # the kernel closes a process' sockets some time before it has ended
        code = process.wait(EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    return SparkOutage(JVM_EXITED, f"the driver's JVM has ended {how}", True, code in SIGTERM_CODES)


def _refuses_connections(where: Any) -> bool:
    try:
        socket.create_connection((where.address, where.port), CONNECT_SECONDS).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        pass  # a full backlog or a slow host: nothing is known
    return False
