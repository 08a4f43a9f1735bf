"""Registry of the driver's queries: how each was started, and whether its waiters are held.

A `RegisteredQuery` is one query of this driver (one query id). A `Start` is the recorded call of
`DataStreamWriter.start` or `toTable`. Repeating the call resumes from the same checkpoint only while the
writer is unchanged. A writer is mutable: it may have been configured further or have started another query.
So each such call increments the writer's generation.
"""

from __future__ import annotations

import collections
import threading
import weakref
from dataclasses import dataclass, field
from typing import Any, Callable, NamedTuple

from listeners.spark.engine import Engine, SparkRun, Start

#: Beyond this number, the queries that ended longest ago are forgotten together with their writers.
MAX_QUERIES = 64
#: Runs remembered of one query, to find the query of a handle.
MAX_RUNS = 50
#: Runs remembered of one session that ended by themselves and that the program replaced by newer ones.
MAX_REPLACED = 8


class Awaited(NamedTuple):
    """A drain waits for a batch newer than `after`."""

    after: int | None
    committed: threading.Event


@dataclass(eq=False)
class RegisteredQuery:
    """One query of this driver, with what commands and the program have done to it."""

    query_id: str
    run_id: str
    name: str | None
    run: SparkRun
    session: Any
    session_key: int
    engine: Engine
    start: Start | None = None
    runs: list[str] = field(default_factory=list)
    handles: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)
    #: A command stopped it: waiters keep waiting.
    held: bool = False
    #: A command is starting it now.
    starting: bool = False
    #: The run that a command started and that has not yet reported a batch or an idle trigger.
    probation: str | None = None
    #: The newest run that a command started and that failed before its first progress.
    failed_on_probation: str | None = None
    #: A command has ended a run before, so an end that Spark reports may be that one.
    commanded: bool = False
    #: The program asked to stop it while a command was in progress.
    stop_requested: bool = False
    #: The user has reset terminated queries: this end no longer wakes `awaitAnyTermination`.
    forgotten: bool = False
    #: Set by the next committed batch while a drain waits for it.
    awaited: Awaited | None = None
    #: What the facts last sent to the server depend on (see `listeners.queries.prober`).
    reported: tuple[Any, ...] | None = None
    busy: threading.Lock = field(default_factory=threading.Lock)

    def is_active(self) -> bool:
        """Whether the newest run is active; asks Spark."""
        return self.run.is_active()

    def is_stop_requested(self) -> bool:
        """Read `stop_requested` again: another thread may have set it."""
        return self.stop_requested


class Registry:
    """All queries of this driver whose start was seen. Thread-safe."""

    def __init__(self) -> None:
        self._entries: collections.OrderedDict[str, RegisteredQuery] = collections.OrderedDict()
        self._by_run: dict[str, str] = {}
        self._generations: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._factories: dict[str, Callable[..., Any]] = {}
        self._replaced: dict[int, collections.deque[SparkRun]] = {}
        self.changed = threading.Condition(threading.RLock())
        self.closed = False

    # -- writers ---------------------------------------------------------------------------------

    def touch(self, writer: Any) -> int:
        """Increment and return the writer's generation: it was configured or started a query."""
        with self.changed:
            generation = self._generations.get(writer, 0) + 1
            self._generations[writer] = generation
            return generation

    def generation(self, writer: Any) -> int:
        """The writer's generation; 0 if it was never touched."""
        with self.changed:
            return self._generations.get(writer, 0)

    def register_factory(self, name: str, factory: Callable[..., Any]) -> None:
        """Register `factory()`, which builds, starts and returns the query called `name`."""
        with self.changed:
            self._factories[name] = factory

    def factory(self, name: str | None) -> Callable[..., Any] | None:
        """The factory registered for this name, or None."""
        with self.changed:
            return self._factories.get(name) if name else None

    # -- queries ---------------------------------------------------------------------------------

    def started(self, query: Any, start: Start | None, session: Any, engine: Engine) -> RegisteredQuery:
        """Register a started query as a new entry, or as the next run of a known entry."""
        run, key = engine.run(query, start), engine.key(session)
        with self.changed:
            entry = self._entries.pop(run.query_id, None)
            if entry is None:
                entry = RegisteredQuery(run.query_id, "", run.name, run, session, key, engine)
            self._entries[run.query_id] = entry
            if run.run_id != entry.run_id:
                self._remember_own_end(entry)
            entry.start, entry.session, entry.session_key = start or entry.start, session, key
            if run.run_id != entry.run_id:
                self._next_run(entry, run)
            entry.handles.add(query)
        return entry

    def _remember_own_end(self, entry: RegisteredQuery) -> None:
        """Remember a replaced run that no command ended: `awaitAnyTermination` must return for it."""
        by_command = entry.held or (entry.run_id and entry.probation == entry.run_id)
        if entry.run_id and not by_command and not entry.forgotten:
            runs = self._replaced.setdefault(entry.session_key, collections.deque(maxlen=MAX_REPLACED))
            runs.append(entry.run)

    def replaced(self, session_key: int) -> list[SparkRun]:
        """Runs of a session, replaced by newer ones, that no command ended; since the last reset."""
        with self.changed:
            return list(self._replaced.get(session_key, ()))

    def _next_run(self, entry: RegisteredQuery, run: SparkRun) -> None:
        by_command = entry.held or entry.starting
        entry.run, entry.run_id, entry.held, entry.forgotten = run, run.run_id, False, False
        entry.probation = run.run_id if entry.starting else None
        self._by_run[run.run_id] = entry.query_id
        entry.runs.append(run.run_id)
        while len(entry.runs) > MAX_RUNS:
            self._by_run.pop(entry.runs.pop(0), None)
        if by_command:
            for handle in list(entry.handles):
                entry.engine.rebind(handle, run)  # the user's own handle follows the new run
        else:  # started by the program: its older handles stay with the older run, as in Spark
            entry.handles = weakref.WeakSet()
        self.changed.notify_all()

    def trim(self) -> None:
        """Forget the queries that ended longest ago, beyond MAX_QUERIES.

        Asks Spark: not for a user's thread.
        """
        entries = self.entries()
        if len(entries) <= MAX_QUERIES:
            return
        ended = [(entry, entry.run_id) for entry in entries if not entry.is_active()]
        for entry, run_id in ended[: len(entries) - MAX_QUERIES]:
            with self.changed:
                if not (entry.held or entry.busy.locked()) and entry.run_id == run_id:
                    self._drop(entry)

    def drop(self, query_id: str) -> None:
        """Forget a query, such as one that should not have been started."""
        with self.changed:
            entry = self._entries.get(query_id)
            if entry is not None:
                self._drop(entry)

    def _drop(self, entry: RegisteredQuery) -> None:
        self._entries.pop(entry.query_id, None)
        for run_id in entry.runs:
            self._by_run.pop(run_id, None)

    def entry(self, query_id: str) -> RegisteredQuery | None:
        """The query with this id, or None."""
        with self.changed:
            return self._entries.get(query_id)

    def entry_of_run(self, run_id: str) -> RegisteredQuery | None:
        """The query that this run belongs to, or None."""
        with self.changed:
            return self._entries.get(self._by_run.get(run_id, ""))

    def entry_of(self, query: Any, run_id: str) -> RegisteredQuery | None:
        """The query whose current run is `run_id`; the user's handle follows it from now on."""
        with self.changed:
            entry = self.entry_of_run(run_id)
            if entry is None or entry.run_id != run_id:
                return None
            entry.handles.add(query)
            return entry

    def entries(self) -> list[RegisteredQuery]:
        """All registered queries."""
        with self.changed:
            return list(self._entries.values())

    # -- ends ------------------------------------------------------------------------------------

    def hold(self, entry: RegisteredQuery) -> None:
        """Hold the waiters: a command is about to end this query's run."""
        with self.changed:
            entry.held = True
            entry.commanded = True

    def release(self, entry: RegisteredQuery) -> None:
        """Release the waiters: they see what Spark reports."""
        with self.changed:
            entry.held = False
            self.changed.notify_all()

    def on_progress(self, run_id: str, batch_id: int | None = None) -> None:
        """The run committed this batch or finished an idle trigger, so it is no longer on probation."""
        with self.changed:
            entry = self.entry_of_run(run_id)
            if entry is None or entry.run_id != run_id:
                return
            if entry.probation == run_id:
                entry.probation = None
            awaited = entry.awaited
            if awaited and batch_id is not None and (awaited.after is None or batch_id > awaited.after):
                awaited.committed.set()

    def await_batch(self, entry: RegisteredQuery, after: int | None) -> threading.Event:
        """An event that is set once the run reports a batch newer than `after`."""
        with self.changed:
            entry.awaited = Awaited(after, threading.Event())
            return entry.awaited.committed

    def await_no_batch(self, entry: RegisteredQuery) -> None:
        """Stop waiting for a batch."""
        entry.awaited = None

    def ended_on_probation(self, run_id: str) -> bool:
        """Hold the waiters of a run that a command started and that ended before its first progress.

        The failure is the result of that command. It must not end the program and its other queries.
        """
        with self.changed:
            entry = self.entry_of_run(run_id)
            if entry is None or entry.probation != run_id or entry.run_id != run_id:
                return False
            entry.probation, entry.failed_on_probation = None, run_id
            self.hold(entry)
            return True

    def forget_ended(self, session_key: int) -> None:
        """`resetTerminated` was called: ends in this session so far no longer wake its waits."""
        with self.changed:
            self._replaced.pop(session_key, None)
        for entry in self.entries():
            if entry.session_key == session_key and not entry.held and not entry.is_active():
                entry.forgotten = True

    def close(self) -> None:
        """Release every waiter, as without an agent."""
        with self.changed:
            self.closed = True
            for entry in self._entries.values():
                entry.held = False
            self.changed.notify_all()
