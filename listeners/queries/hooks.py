"""Wrappers around the PySpark methods that start, stop and await queries.

Each wrapper notifies the agent and then does what PySpark does. An error of the agent is logged and never
raised into the program. `listeners.spark.patching` restores the methods.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping
from typing import Any, Callable, Protocol

from listeners.queries import awaiting
from listeners.queries.registry import Registry
from listeners.spark.engine import Engine, Start
from listeners.spark.guard import guarded
from listeners.spark.patching import Patches

log = logging.getLogger("controlplane.agent")

#: Methods of DataStreamWriter that change what a later start() starts.
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


class StartObserver(Protocol):
    """Receives the calls that the wrappers see."""

    def add_session(self, session: Any) -> None:
        """The session is about to start a query."""

    def before_start(self, start: Start, name: str | None) -> None:
        """Called on the user's thread before Spark's start.

        A `StartRefused` that it raises reaches the user.
        """

    def after_start(self, start: Start, query: Any) -> None:
        """Spark has started `query`."""

    def start_failed(self, name: str | None, method: str, error: BaseException) -> None:
        """Spark's start raised `error`."""

    def session_stopping(self, session: Any) -> None:
        """The program is stopping this session."""

    def context_stopping(self) -> None:
        """The program is stopping the SparkContext."""


class Hooks:
    """The wrapped PySpark classes. Each engine's classes are wrapped once."""

    def __init__(self, registry: Registry, observer: StartObserver):
        self._registry, self._observer = registry, observer
        self._patches = Patches()
        self._wrapped: set[type] = set()
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def wrap(self, engine: Engine) -> None:
        """Wrap this engine's classes; calling it again does nothing."""
        classes = {name: found for name, found in engine.classes().items() if found not in self._wrapped}
        self._wrapped.update(classes.values())
        self._wrap_writer(engine, classes)
        waits: Mapping[str, tuple[str, Callable[..., Any]]] = {
            "awaitTermination": ("query", awaiting.await_termination),
            "stop": ("query", awaiting.stop_query),
            "awaitAnyTermination": ("manager", awaiting.await_any_termination),
            "resetTerminated": ("manager", awaiting.reset_terminated),
        }
        for method, (owner, replacement) in waits.items():
            if owner in classes:
                self._patches.wrap(classes[owner], method, self._bound(replacement, engine))
        if "session" in classes:
            self._patches.wrap(classes["session"], "stop", self._on_session_stop)
        if "context" in classes:
            self._patches.wrap(classes["context"], "stop", self._on_context_stop)

    def _wrap_writer(self, engine: Engine, classes: Mapping[str, type]) -> None:
        if "writer" not in classes:
            return
        for name in BUILDERS:
            self._patches.wrap(classes["writer"], name, self._on_build)
        for name in ("start", "toTable"):
            self._patches.wrap(classes["writer"], name, self._start_wrapper(engine))

    def undo(self) -> None:
        """Restore the original methods."""
        self._patches.undo()
        self._wrapped.clear()

    def retire(self) -> None:
        """Make the wrappers pass calls through, in a forked child."""
        self._patches.retired = True

    # -- wrappers --------------------------------------------------------------------------------

    def _bound(self, replacement: Callable[..., Any], engine: Engine) -> Callable[..., Any]:
        def call(original: Callable[..., Any], self_: Any, *args: Any, **kwargs: Any) -> Any:
            return replacement(self._registry, engine, original, self_, *args, **kwargs)

        return call

    def _on_build(self, original: Callable[..., Any], writer: Any, *args: Any, **kwargs: Any) -> Any:
        self._registry.touch(writer)
        if original.__name__ == "queryName" and args:
            self._names[writer] = str(args[0])
        return original(writer, *args, **kwargs)

    def _start_wrapper(self, engine: Engine) -> Callable[..., Any]:
        def call(original: Callable[..., Any], writer: Any, *args: Any, **kwargs: Any) -> Any:
            return self._on_start(engine, original, writer, args, kwargs)

        return call

    def _on_start(self, engine: Engine, original: Any, writer: Any, args: Any, kwargs: Any) -> Any:
        start = Start(original.__name__, original, writer, args, kwargs, engine.session_of(writer), 0, engine)
        name = kwargs.get("queryName") or self._names.get(writer)
        guarded(lambda: self._observer.add_session(start.session))
        try:
            guarded(lambda: self._observer.before_start(start, name))  # it may refuse the start
            query = original(writer, *args, **kwargs)
        except Exception as error:
            failure = error
            guarded(lambda: self._observer.start_failed(name, start.method, failure))
            raise
        guarded(lambda: self._on_started(start, query))
        return query

    def _on_started(self, start: Start, query: Any) -> None:
        start.generation = self._registry.touch(start.writer)
        start.pool = start.engine.pool(start.session)
        self._observer.after_start(start, query)

    def _on_session_stop(self, original: Callable[..., Any], session: Any) -> Any:
        guarded(lambda: self._observer.session_stopping(session))
        return original(session)

    def _on_context_stop(self, original: Callable[..., Any], context: Any) -> Any:
        if getattr(context, "_jsc", None) is not None:  # otherwise it has been stopped before
            guarded(self._observer.context_stopping)
        return original(context)
