"""The public entry point: `listeners.attach.attach(spark)`.

It registers a listener on the session, wraps the PySpark methods that start, stop and await queries, and
starts the agent's threads. It never raises into the program: where attaching fails, it logs one line and the
program runs without the agent.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any, Callable

from listeners import environment
from listeners.attachment import Attachment
from listeners.late_attach import LateAttach
from listeners.program_end import SigtermReport, record_uncaught_exception
from listeners.protocol.errors import AgentError, ConnectError
from listeners.protocol.wire import DETACHED, SIGTERM
from listeners.spark.guard import guarded

log = logging.getLogger("controlplane.agent")


class NotAttached:
    """Stand-in returned when attaching failed, so that the program needs no second code path. It is falsy.

    Where Spark did not answer, the agent attaches at the next start of a query, with the factories given here.
    """

    def __init__(self) -> None:
        self._factories: dict[str, Callable[..., Any]] = {}
        self._late: LateAttach | None = None

    def factory(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return the decorated function unchanged; keep it for an agent that attaches later."""

        def register(build: Callable[..., Any]) -> Callable[..., Any]:
            self._factories[name] = build
            return build

        return register

    def detach(self, reason: str = DETACHED, timeout: float = 2.0) -> None:
        """Do not attach later."""
        if self._late is not None:
            self._late.disarm()

    def __bool__(self) -> bool:
        return False

    def retry(self, session: Any, attach: Callable[[Any], Attachment]) -> None:
        """Attach when the next query starts. `attach` raises AgentError while Spark does not answer."""

        def attach_late(session: Any) -> Attachment | None:
            try:
                made = attach(session)
            except AgentError:
                return None
            log.warning("the control plane's agent is attached now")
            for name, build in self._factories.items():
                made.factory(name)(build)
            return made

        self._late = LateAttach(attach_late)
        self._late.arm(session)


_current: Attachment | None = None
_lock = threading.RLock()


def attach(
    spark: Any = None,
    server: str | None = None,
    app: str | None = None,
    labels: Mapping[str, str] | None = None,
    token: str | None = None,
    actions: str | None = None,
) -> Attachment | NotAttached:
    """Attach the agent to this driver. Called for another session, add that session to the same agent.

    Arguments left out come from `CONTROLPLANE_URL`, `_APP`, `_LABELS` (`k=v,k=v`), `_TOKEN` or
    `_TOKEN_FILE` (else `controlplane-data/agent.token`), `_ACTIONS` (`none`, `stop`, `all`).
    Never raises: on failure it logs one line and returns a `NotAttached`.
    """
    try:
        return _attach(spark, server, app, labels, token, actions)
    except Exception as error:
        log.warning("the control plane's agent is not attached: %s", error)
        stand_in = NotAttached()
        if isinstance(error, ConnectError) and error.retryable:
            log.warning("the agent tries again when the program starts a query")
            retry = partial(_attach, server=server, app=app, labels=labels, token=token, actions=actions)
            guarded(lambda: stand_in.retry(spark or _active_session(), retry))
        return stand_in


def _attach(spark: Any, server: Any, app: Any, labels: Any, token: Any, actions: Any) -> Attachment:
    global _current
    session = spark or _active_session()
    with _lock:
        if _current is not None and (_current.ending or not _current.is_of(session)):
            _current.detach(
                "session_stopped"
            )  # an earlier application; its end was not seen, or is under way
            _current = None
        if _current is None:
            made = Attachment(
                session,
                server or os.environ.get("CONTROLPLANE_URL") or environment.DEFAULT_SERVER,
                app or os.environ.get("CONTROLPLANE_APP"),
                environment.checked_labels(
                    labels
                    if labels is not None
                    else environment.parse_labels(os.environ.get("CONTROLPLANE_LABELS"))
                ),
                token or environment.find_token(),
                environment.checked_mode(actions or os.environ.get("CONTROLPLANE_ACTIONS")),
                _forget,
            )
            try:
                made.start(session)
            except Exception:
                made.detach("attach_failed", timeout=0.5)
                raise
            _current = made
            record_uncaught_exception(current)
            _sigterm.install()
        else:
            _current.add_session(session)
        return _current


def _active_session() -> Any:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise AgentError("there is no active SparkSession; call attach(spark) after getOrCreate()")
    return session


def _forget(attachment: Attachment) -> None:
    global _current
    with _lock:
        if _current is attachment:
            _current = None
            _sigterm.remove()


def current() -> Attachment | None:
    """The attachment of this process, or None; also None once its end has begun."""
    return None if _current is None or _current.ending else _current


@atexit.register
def _at_exit() -> None:
    _end("exit")


def _end(reason: str) -> None:
    """Report the end, or wait while another thread reports it."""
    attachment = _current
    if attachment is not None:
        guarded(partial(attachment.detach, reason))


_sigterm = SigtermReport(partial(_end, SIGTERM))


def _after_fork() -> None:
    global _current
    if _current is not None:
        _current.abandon()
        _current = None
        _sigterm.remove()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
