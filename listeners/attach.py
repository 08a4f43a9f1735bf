"""The one call a user makes: `listeners.attach.attach(spark)`.

It puts our listener on the session, wraps the few PySpark methods that start, stop and await queries,
and starts the agent's threads. It never raises into the user's program: what cannot be done is
logged once and the program goes on without it.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections.abc import Mapping
from typing import Any, Callable

from listeners import awaiting, classic, environment, redaction, wire
from listeners.agent import Agent, Identity, spool_root
from listeners.commands import Executor
from listeners.errors import AgentError
from listeners.inbox import Inbox
from listeners.listener import RawListener
from listeners.patching import Patches
from listeners.prober import Prober
from listeners.registry import Entry, Registry, Start
from listeners.transport import HttpTransport

log = logging.getLogger("controlplane.agent")

DEFAULT_SERVER = "http://127.0.0.1:8420"
#: Methods of DataStreamWriter that change what a later start() would start.
BUILDERS = [
    "outputMode",
    "format",
    "option",
    "options",
    "partitionBy",
    "clusterBy",
    "queryName",
    "trigger",
    "foreach",
    "foreachBatch",
]


class Attachment:
    """The agent in this process. Made by `attach()`; `detach()` takes it out again."""

    def __init__(
        self, session: Any, server: str, app: str, labels: Mapping[str, str], token: str | None, mode: str
    ):
        context = session.sparkContext
        self.registry = Registry()
        self.inbox = Inbox()
        self.listener = RawListener(self.inbox, self._heard)
        self._sessions: dict[int, weakref.ReferenceType[Any]] = {}
        self._removals: list[Callable[[], None]] = []
        self._patches = Patches()
        self._lock = threading.RLock()
        self._ended = False
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        #: How the program ended, where somebody knows (`listeners.run`).
        self.exception: str | None = None
        secret = redaction.compiled(context.getConf().get("spark.redaction.regex"))
        self._redact = lambda text: redaction.redact(text, secret)
        identity = Identity(
            app=wire.App(app, context.applicationId, context.version, context.master, context.uiWebUrl),
            labels=labels,
            actions=mode,
        )
        prober = Prober(self.registry, self._live_sessions, redact=self._redact)
        self.agent = Agent(
            identity,
            self.inbox,
            HttpTransport(server, token, os.environ.get("CONTROLPLANE_CA_FILE")),
            spool_root(os.environ.get("CONTROLPLANE_SPOOL_DIR")),
            {"app": app, "server": server},
            Executor(self.registry, mode, self._redact, self._start_failed).execute,
            prober.probe,
            lambda: {
                "callback": self.listener.figures.read(),
                "sessions": len(self._sessions),
                **prober.driver,
            },
            self._redact,
        )

    # -- for users -------------------------------------------------------------------------------

    def factory(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorator: the function builds and starts the query called `name` anew and returns it.

        A restart by command then calls it instead of repeating the recorded start: for queries
        whose writer cannot be used again (stream-static joins, one writer for several queries).
        """

        def register(build: Callable[..., Any]) -> Callable[..., Any]:
            self.registry.register_factory(name, build)
            return build

        return register

    def detach(self, reason: str = "exit", timeout: float = 2.0) -> None:
        """Take the agent out: deliver what is left, unwrap what is still ours, free every waiter."""
        _forget(self)
        with self._lock:
            if self._ended:
                return
            self._ended = True
        self._patches.undo()
        self.registry.close()
        for remove in self._removals:
            _quietly(remove)
        text = self._redact(self.exception) if self.exception else None
        reason = "exception" if text else reason
        self.inbox.put("app_ended", wire.dumps({"reason": reason, "exception": text}))
        self.agent.stop(timeout)

    def abandon(self) -> None:
        """In a forked child: nothing of this is the child's."""
        self._patches.retired = True
        self.agent.abandon()

    # -- wiring ----------------------------------------------------------------------------------

    def begin(self, session: Any) -> None:
        self.agent.start()
        self.inbox.put("app_started", wire.dumps(environment.process_facts(self.agent.identity.actions)))
        self._wrap()
        self.add_session(session)

    def add_session(self, session: Any) -> None:
        """Hear the queries of this session too; a listener of one session hears nothing of another's."""
        key = classic.session_key(session)
        with self._lock:
            if key in self._sessions or self._ended:
                return
            wrapped = classic.add_listener(session, self.listener)
            self._sessions[key] = alive = weakref.ref(session)
            self._removals.append(lambda: _remove_listener(alive, wrapped))

    def _live_sessions(self) -> list[Any]:
        found = {key: session for key, ref in list(self._sessions.items()) if (session := ref()) is not None}
        for entry in self.registry.entries():  # a query's own session lives as long as it does
            found.setdefault(entry.session_key, entry.session)
        return list(found.values())

    def _wrap(self) -> None:
        from pyspark.sql import SparkSession
        from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
        from pyspark.sql.streaming.readwriter import DataStreamWriter

        registry = self.registry
        for name in BUILDERS:
            self._patches.wrap(DataStreamWriter, name, self._on_build)
        for name in ("start", "toTable"):
            self._patches.wrap(DataStreamWriter, name, self._on_start)
        self._patches.wrap(StreamingQuery, "awaitTermination", _bound(awaiting.await_termination, registry))
        self._patches.wrap(StreamingQuery, "stop", _bound(awaiting.stop, registry))
        self._patches.wrap(StreamingQueryManager, "awaitAnyTermination", _bound(awaiting.await_any, registry))
        self._patches.wrap(
            StreamingQueryManager, "resetTerminated", _bound(awaiting.reset_terminated, registry)
        )
        self._patches.wrap(SparkSession, "stop", self._on_session_stop)

    def _on_build(self, original: Callable[..., Any], writer: Any, *args: Any, **kwargs: Any) -> Any:
        self.registry.touch(writer)
        if original.__name__ == "queryName" and args:
            self._names[writer] = str(args[0])
        return original(writer, *args, **kwargs)

    def _on_start(self, original: Callable[..., Any], writer: Any, *args: Any, **kwargs: Any) -> Any:
        session = getattr(writer, "_spark", None)
        _quietly(lambda: self.add_session(session))
        try:
            query = original(writer, *args, **kwargs)
        except Exception as error:
            name, failure = kwargs.get("queryName") or self._names.get(writer), error
            _quietly(lambda: self._tell_failed(None, name, original.__name__, failure))
            raise
        _quietly(lambda: self._record(original, writer, args, kwargs, session, query))
        return query

    def _record(self, original: Any, writer: Any, args: Any, kwargs: Any, session: Any, query: Any) -> None:
        start = Start(
            original.__name__,
            original,
            writer,
            args,
            kwargs,
            session,
            self.registry.touch(writer),
            session.sparkContext.getLocalProperty("spark.scheduler.pool"),
        )
        self.registry.started(query, start, session)
        self.agent.nudge()

    def _start_failed(self, entry: Entry | None, method: str, error: BaseException) -> None:
        query_id, name = (entry.query_id, entry.name) if entry is not None else (None, None)
        self._tell_failed(query_id, name, method, error)

    def _tell_failed(self, query_id: str | None, name: str | None, method: str, error: BaseException) -> None:
        document = {
            "id": query_id,
            "name": name,
            "method": method,
            "exception": self._redact(classic.text_of(error)),
            "errorClass": classic.error_class_of(error),
        }
        self.inbox.put("start_failed", wire.dumps(document))

    def _on_session_stop(self, original: Callable[..., Any], session: Any) -> Any:
        _quietly(lambda: self.detach("session_stopped"))
        return original(session)

    def _heard(self, type: str, data: str) -> None:
        """On Spark's listener thread: a run that shows a batch or an idle trigger stands on its own."""
        if type in ("progress", "idle") and '"runId":"' in data:
            at = data.index('"runId":"') + 9
            self.registry.shown_alive(data[at : at + 36])


class NotAttached:
    """Stands in where attaching was not possible, so that a program needs no second path; it is false."""

    def factory(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return lambda build: build

    def detach(self, reason: str = "exit", timeout: float = 2.0) -> None:
        return None

    def __bool__(self) -> bool:
        return False


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
    """Attach the agent to this driver; again for another session, which joins the first's agent.

    Arguments left out come from `CONTROLPLANE_URL`, `_APP`, `_LABELS` (`k=v,k=v`), `_TOKEN` or
    `_TOKEN_FILE` (else `controlplane-data/agent.token`), `_ACTIONS` (`none`, `stop`, `all`).
    Where attaching is not possible that is one line in the log, and what is returned does nothing.
    Never raises.
    """
    try:
        return _attach(spark, server, app, labels, token, actions)
    except Exception as error:
        log.warning("the control plane's agent is not attached: %s", error)
        return NotAttached()


def _attach(spark: Any, server: Any, app: Any, labels: Any, token: Any, actions: Any) -> Attachment:
    global _current
    session = spark or _active_session()
    if not classic.is_classic(session):
        raise AgentError("Spark Connect sessions are not supported yet; attach in the server's driver")
    with _lock:
        if _current is None:
            made = Attachment(
                session,
                server or os.environ.get("CONTROLPLANE_URL") or DEFAULT_SERVER,
                app or os.environ.get("CONTROLPLANE_APP") or session.sparkContext.appName,
                environment.checked_labels(
                    labels
                    if labels is not None
                    else environment.parse_labels(os.environ.get("CONTROLPLANE_LABELS"))
                ),
                token or environment.find_token(),
                environment.checked_mode(actions or os.environ.get("CONTROLPLANE_ACTIONS")),
            )
            try:
                made.begin(session)
            except Exception:
                made.detach("attach_failed", timeout=0.5)
                raise
            _current = made
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


def current() -> Attachment | None:
    """The attachment of this process, if there is one."""
    return _current


@atexit.register
def _at_exit() -> None:
    if _current is not None:
        _quietly(_current.detach)


def _after_fork() -> None:
    global _current
    if _current is not None:
        _current.abandon()
        _current = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _bound(wrapper: Callable[..., Any], registry: Registry) -> Callable[..., Any]:
    def call(original: Callable[..., Any], self_: Any, *args: Any, **kwargs: Any) -> Any:
        return wrapper(registry, original, self_, *args, **kwargs)

    return call


def _remove_listener(session: weakref.ReferenceType[Any], wrapped: Any) -> None:
    alive = session()
    if alive is not None:
        classic.remove_listener(alive, wrapped)


def _quietly(act: Callable[[], Any]) -> None:
    try:
        act()
    except Exception as error:
        log.warning("the control plane's agent met %r and goes on", error)
