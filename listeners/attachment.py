"""The agent of this process: sessions, hooks, listener, query registry and the agent's threads.

Created by `listeners.attach`; `detach()` removes it again.
"""

from __future__ import annotations

import os
import re
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Callable

from listeners import environment
from listeners.agent import LINGER_SECONDS, AgentThreads, Identity
from listeners.checkpoints import inventories
from listeners.checkpoints.hadoop import HadoopFileSystem
from listeners.commands.executor import Executor
from listeners.commands.restarter import Restarter
from listeners.delivery.inbox import Inbox
from listeners.delivery.landing import LINGER_SECONDS as LANDING_LINGER_SECONDS
from listeners.delivery.landing import is_landing, transport_of
from listeners.delivery.spool_directory import spool_limit, spool_root
from listeners.host_load import HostProbe
from listeners.protocol import redaction, wire
from listeners.queries import preflight
from listeners.queries.hooks import Hooks
from listeners.queries.prober import Prober
from listeners.queries.registry import RegisteredQuery, Registry
from listeners.queries.termination_wait import TerminationWait
from listeners.spark import causes
from listeners.spark.engine import Engine, Start
from listeners.spark.guard import guarded, run_with_timeout
from listeners.spark.listener import RawListener
from listeners.spark.sessions import engine_of

#: Limit for removing the listeners: Connect polls a last time meanwhile, and a hanging JVM never answers.
REMOVAL_SECONDS = 1.5
#: Limit for asking which runs are active at the end.
ACTIVE_SECONDS = 0.5
#: What the end may take beyond the time for delivery: a hanging JVM and a hanging disk.
END_SECONDS = 2.0

_BATCH = re.compile(r'"batchId":(\d+)')
_RUN = re.compile(r'"runId"\s*:\s*"([^"]+)"')


class Attachment:
    """The agent in this process. `attach()` creates it, `detach()` removes it."""

    def __init__(
        self,
        session: Any,
        server: str,
        app: str | None,
        labels: Mapping[str, str],
        token: str | None,
        mode: str,
        on_end: Callable[[Attachment], None] = lambda attachment: None,
    ):
        engine = engine_of(session)
        app_facts = engine.app(session)
        self._independent_sessions = engine.independent_sessions
        self.registry = Registry()
        self.inbox = Inbox()
        self.listener = RawListener(self.inbox, self._on_spark_event)
        self._termination_wait = TerminationWait()
        self._sessions: dict[int, weakref.ReferenceType[Any]] = {}
        self._listener_removals: dict[int, Callable[[], None]] = {}
        self._hooks = Hooks(self.registry, self)
        self._lock = threading.RLock()
        self._ending, self._ended = False, threading.Event()
        self._end_thread: int | None = None
        self._on_end = on_end
        #: How the program ended, where the excepthook recorded it: an exception's text, or Ctrl-C.
        self.exception: str | None = None
        self.interrupted = False
        self._outage_of = engine.outage
        self._remove_signal_hook: Callable[[], None] | None = None
        secret = redaction.compile_regex(engine.setting(session, "spark.redaction.regex"))
        self._redact = lambda text: redaction.redact(text, secret)
        identity = Identity(
            app=environment.checked_app(app_facts, app),
            labels=labels,
            actions=mode,
        )
        transport = transport_of(server, token, os.environ.get("CONTROLPLANE_CA_FILE"), identity.agent)
        linger = LANDING_LINGER_SECONDS if is_landing(server) else LINGER_SECONDS
        self.inventories = inventories.Inventories(
            self.registry,
            self.inbox.put,
            inventories.checked_mode(os.environ.get("CONTROLPLANE_INVENTORY")),
        )
        asking = preflight.checked_mode(os.environ.get("CONTROLPLANE_PREFLIGHT"))
        self._preflight = (
            preflight.Preflight(identity.app.name, transport.preflight, HadoopFileSystem, self._redact)
            if asking == "block"
            else None
        )
        self._host = HostProbe("client" if engine.independent_sessions else "driver")
        self._executor = Executor(self.registry, mode, self._redact, self._command_failed)
        self._restarter = Restarter(self.registry, self._execute, self.inbox.put)
        prober = Prober(self.registry, self._live_sessions, redact=self._redact, shapes=asking != "off")
        self.agent = AgentThreads(
            identity,
            self.inbox,
            transport,
            spool_root(os.environ.get("CONTROLPLANE_SPOOL_DIR")),
            {"app": identity.app.name, "server": server},
            self._execute,
            prober.probe,
            lambda: {
                "callback": self.listener.figures.read(),
                "sessions": len(self._sessions),
                "inventoriesSkipped": self.inventories.skipped(),
                "hostLoad": self._host.read(),
                **prober.driver,
            },
            self._redact,
            spool_limit(os.environ.get("CONTROLPLANE_SPOOL_BYTES")),
            linger,
            engine.outage,
            lambda text: redaction.redact_json(text, secret),
        )
        prober.on_answer = self.agent.reachability.poll_begins

    # -- for users -------------------------------------------------------------------------------

    def factory(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorator: register the function that builds and starts the query called `name` and returns it.

        A restart command then calls it instead of repeating the recorded start. Use it for queries whose
        writer cannot be used again (stream-static joins, one writer for several queries).
        """

        def register(build: Callable[..., Any]) -> Callable[..., Any]:
            self.registry.register_factory(name, build)
            return build

        return register

    @property
    def ending(self) -> bool:
        """Whether its end has begun. It takes no more sessions."""
        return self._ending

    def detach(self, reason: str = wire.DETACHED, timeout: float = 2.0) -> None:
        """Deliver the remaining events, restore the wrapped methods and release every waiting thread.

        The queries run on. At the end of the program the agent calls this itself, with another `reason`.

        Where another thread is doing that, wait for it: the process must not end in between.
        """
        with self._lock:
            first, self._ending = not self._ending, True
        if first:
            self._end_aside(reason, timeout)
        elif self._end_thread != threading.get_ident():
            self._ended.wait(timeout + END_SECONDS)

    def _end_aside(self, reason: str, timeout: float) -> None:
        end = partial(guarded, partial(self._end, reason, timeout))
        try:  # not here: SIGTERM's handler suspends the main thread, and waits for the end
            run_with_timeout(end, timeout + END_SECONDS)
        except RuntimeError:
            end()
        finally:
            self._on_end(self)

    def _end(self, reason: str, timeout: float) -> None:
        self._end_thread = threading.get_ident()
        try:
            self._report_end(reason, timeout)
        finally:
            self._ended.set()

    def _report_end(self, reason: str, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        gone = self._outage_of(None) is not None  # then Spark sends no event, and answers no call
        if not gone:
            guarded(lambda: self._termination_wait.wait([entry.run for entry in self.registry.entries()]))
        lasting = [] if gone else self._lasting_runs(reason)
        self.inventories.close()
        self._restarter.close()
        self._hooks.undo()
        self.registry.close()
        if not gone:
            guarded(self._stop_listening)
        text = self._redact(self.exception) if self.exception else None
        end = {"reason": self._end_reason(reason), "exception": text, "activeRuns": lasting}
        self.inbox.put("app_ended", wire.dumps(end))
        self.agent.stop(max(0.5, deadline - time.monotonic()))

    def _lasting_runs(self, reason: str) -> list[str]:
        """The runs that do not end with the agent: of a program that goes on, and of a Spark Connect client.

        Where Spark does not answer in time, all registered ones: the server knows which of them have ended.
        """
        if reason != wire.DETACHED and not self._leaves_queries_running(reason):
            return []
        found: list[list[str]] = []

        def ask() -> None:
            sessions = self._live_sessions()
            found.append([run.run_id for each in sessions for run in engine_of(each).active(each)])

        try:
            run_with_timeout(partial(guarded, ask), ACTIVE_SECONDS)
        except RuntimeError:
            guarded(ask)
        return found[0] if found else [entry.run_id for entry in self.registry.entries()]

    def _leaves_queries_running(self, reason: str) -> bool:
        """Whether its sessions outlive the program, as those of Spark Connect do by default."""
        released = os.environ.get("SPARK_CONNECT_RELEASE_SESSION_ON_EXIT", "false").lower() in ("true", "1")
        return self._independent_sessions and reason != "session_stopped" and not released

    def _end_reason(self, reason: str) -> str:
        """A signal explains the end of the JVM, and the end of the JVM explains an exception of the program."""
        if reason in wire.SIGNAL_REASONS:
            return reason
        if self.interrupted:
            return wire.SIGINT
        outage = self._outage_of(None)
        if outage is not None:
            return wire.SIGTERM if outage.by_sigterm else outage.cause
        return "exception" if self.exception else reason

    def _stop_listening(self) -> None:
        removals = [*self._listener_removals.values(), *filter(None, [self._remove_signal_hook])]

        def remove_all() -> None:
            for remove in removals:
                guarded(remove)

        if not removals:
            return
        try:
            run_with_timeout(remove_all, REMOVAL_SECONDS)
        except RuntimeError:
            remove_all()  # no thread can be started: better to wait for Spark than to leave a dead listener

    def abandon(self) -> None:
        """Release the agent in a forked child: it belongs to the parent."""
        self._hooks.retire()
        self.agent.abandon()

    # -- sessions --------------------------------------------------------------------------------

    def start(self, session: Any) -> None:
        """Report the application, start the agent's threads and add the first session."""
        self.inbox.put("app_started", wire.dumps(environment.process_facts(self.agent.identity.actions)))
        self.agent.start()  # only now: `app_started` must come before the first heartbeat
        self.add_session(session)

    def add_session(self, session: Any) -> None:
        """Listen to this session too: a listener sees only the queries of its own session."""
        engine = engine_of(session)
        key = engine.key(session)
        with self._lock:
            if self._ending:
                return
            self._hooks.wrap(engine)
            known = self._sessions.get(key)
            if known is None:
                self._listener_removals[key] = engine.listen(session, self.listener)
                if self._remove_signal_hook is None:
                    guarded(partial(self._watch_signals, engine, session))
            if known is None or known() is None:  # another Python object may stand for the same session
                self._sessions[key] = weakref.ref(session)

    def _watch_signals(self, engine: Engine, session: Any) -> None:
        self._remove_signal_hook = engine.on_signal(session, self._on_signal)

    def _on_signal(self, reason: str) -> None:
        self._remove_signal_hook = None  # a JVM that shuts down refuses to remove it
        self.detach(reason)

    def _live_sessions(self) -> list[Any]:
        alive = {key: session for key, ref in list(self._sessions.items()) if (session := ref()) is not None}
        for entry in self.registry.entries():  # a query keeps its own session alive
            alive.setdefault(entry.session_key, entry.session)
        return list(alive.values())

    def session_stopping(self, session: Any) -> None:
        """A stopped classic session ends the application; a stopped Connect session ends only itself."""
        key = engine_of(session).key(session)
        with self._lock:
            others = [other for other in self._sessions if other != key]
            if engine_of(session).independent_sessions and others:
                self._sessions.pop(key, None)
                remove = partial(self._end_session, key, self._listener_removals.pop(key, None))
            else:
                remove = partial(self.detach, "session_stopped")
        remove()

    def context_stopping(self) -> None:
        """End the application, whatever sessions it has: `SparkContext.stop()` was called."""
        self.detach("session_stopped")

    def is_of(self, session: Any) -> bool:
        """Whether a session belongs to this agent's application. Every Connect session may join."""
        engine = engine_of(session)
        if engine.independent_sessions or self._independent_sessions:
            return True
        return bool(engine.app(session)["id"] == self.agent.identity.app.id)

    def _end_session(self, key: int, remove: Callable[[], None] | None) -> None:
        """Report the session's queries as terminated: nothing else reports them once the session is gone."""
        running = [
            entry for entry in self.registry.entries() if entry.session_key == key and entry.is_active()
        ]
        if remove is not None:
            remove()
        for entry in running:
            terminated = {"id": entry.query_id, "runId": entry.run_id, "name": entry.name, "exception": None}
            self.inbox.put("terminated", wire.dumps(terminated))

    def _execute(self, command: wire.Command) -> wire.CommandResult:
        if command.action == "inventory":
            return self.inventories.on_command(command)
        if command.action == wire.LEASE:
            return self._restarter.on_command(command)
        result = self._explained(self._executor.execute(command))
        entry = self.registry.entry(command.query_id)
        if entry is not None and command.action != "stop" and result.state == "succeeded":
            self.inventories.started(entry)
        return result

    def _explained(self, result: wire.CommandResult) -> wire.CommandResult:
        """A failure because the JVM has ended gives that as its reason, not py4j's exception."""
        outage = self._outage_of(None) if result.state == "failed" else None
        if outage is None:
            return result
        return replace(result, reason=f"{outage.detail}; start the application", code=outage.cause)

    # -- query lifecycle -------------------------------------------------------------------------

    def before_start(self, start: Start, name: str | None) -> None:
        """Run the preflight check, where the driver has enabled it; it may raise `QueryNotStarted`."""
        if self._preflight is not None:
            self._preflight.before_start(start, name)

    def after_start(self, start: Start, query: Any) -> None:
        """Register the new run, schedule its checkpoint inventory and request a status soon."""
        self.inventories.started(self.registry.started(query, start, start.session, start.engine))
        self.agent.request_probe()

    def started_before(
        self, original: Callable[..., Any], writer: Any, args: Any, kwargs: Mapping[str, Any], query: Any
    ) -> None:
        """Register a query that the program started just before the agent could attach."""
        engine = engine_of(query._session)
        start = Start(original.__name__, original, writer, args, kwargs, query._session, 0, engine)
        start.generation = self.registry.touch(writer)
        self.after_start(start, query)

    def start_failed(self, name: str | None, method: str, error: BaseException) -> None:
        """Report a start by the program that raised."""
        self._report_start_failure(None, name, method, error)

    def _command_failed(self, entry: RegisteredQuery | None, method: str, error: BaseException) -> None:
        query_id, name = (entry.query_id, entry.name) if entry is not None else (None, None)
        self._report_start_failure(query_id, name, method, error)
        if entry is not None:
            self.inventories.start_failed(entry)

    def _report_start_failure(
        self, query_id: str | None, name: str | None, method: str, error: BaseException
    ) -> None:
        if self._outage_of(None) is not None or self.agent.reachability.outage is not None:
            return  # Spark is gone: that is no failure of the query, and the heartbeat reports it
        document = {
            "id": query_id,
            "name": name,
            "method": method,
            "exception": self._redact(causes.text_of(error)),
            "errorClass": causes.error_class_of(error),
        }
        self.inbox.put("start_failed", wire.dumps(document))

    def _on_spark_event(self, type: str, data: str) -> None:
        """Note progress and ends. Called on Spark's listener thread for every event."""
        match = _RUN.search(data) if type in ("progress", "idle", "terminated") else None
        if match is None:
            return
        run_id = match.group(1)
        if type == "terminated":
            self._termination_wait.record(run_id)
            self._restarter.on_terminated(data)
        else:
            batch = _BATCH.search(data) if type == "progress" else None
            self.registry.on_progress(run_id, int(batch.group(1)) if batch else None)
        self.inventories.on_event(type, run_id, data)
