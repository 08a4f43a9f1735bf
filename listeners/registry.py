"""How each query was started, so that it can be started again; and who waits for it.

An `Entry` is one query of this driver (one query id). A `Start` is the recorded call of
`DataStreamWriter.start` or `toTable`. Calling it again resumes from the same checkpoint, but only
while the writer is as it was then: a writer is mutable and may have been configured further or have
started another query since, so every such call counts up its generation.
"""

from __future__ import annotations

import collections
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable

from listeners import classic

#: Past so many queries the ones that ended longest ago are forgotten, their writers with them.
MAX_REMEMBERED = 64
#: Runs of one query by which its handles are still known.
MAX_RUNS = 50


@dataclass(eq=False)
class Start:
    """One recorded call that started a query. `repeat` makes the same call on the unwrapped method."""

    method: str
    original: Callable[..., Any]
    writer: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    session: Any
    generation: int
    pool: str | None = None  # the scheduler pool of the thread that called

    def repeat(self) -> Any:
        """Start again; returns PySpark's StreamingQuery."""
        self.session.sparkContext.setLocalProperty("spark.scheduler.pool", self.pool)
        return self.original(self.writer, *self.args, **self.kwargs)


@dataclass(eq=False)
class Entry:
    """One query. `held`: it does not run because of a command, so its waiters wait on."""

    query_id: str
    run_id: str
    name: str | None
    jsq: Any
    session: Any
    session_key: str
    start: Start | None = None
    runs: list[str] = field(default_factory=list)
    held: bool = False
    #: The run that a command began and that has not yet shown a batch or an idle trigger.
    probation: str | None = None
    #: Whether a command ever ended a run of it: then an end that Spark reports may be that one.
    commanded: bool = False
    forgotten: bool = False
    handles: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)
    busy: threading.Lock = field(default_factory=threading.Lock)

    def is_active(self) -> bool:
        return bool(self.jsq.isActive())


class Registry:
    """All queries of this driver that we have seen start. Thread-safe."""

    def __init__(self) -> None:
        self._entries: collections.OrderedDict[str, Entry] = collections.OrderedDict()
        self._by_run: dict[str, str] = {}
        self._generations: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._factories: dict[str, Callable[..., Any]] = {}
        self.changed = threading.Condition(threading.RLock())
        self.closed = False

    # -- writers ---------------------------------------------------------------------------------

    def touch(self, writer: Any) -> int:
        """A configuration call or a start on this writer: its next generation."""
        with self.changed:
            generation = self._generations.get(writer, 0) + 1
            self._generations[writer] = generation
            return generation

    def generation(self, writer: Any) -> int:
        with self.changed:
            return self._generations.get(writer, 0)

    def register_factory(self, name: str, factory: Callable[..., Any]) -> None:
        """`factory()` builds and starts the query called `name` anew, and returns it."""
        with self.changed:
            self._factories[name] = factory

    def factory(self, name: str | None) -> Callable[..., Any] | None:
        with self.changed:
            return self._factories.get(name) if name else None

    # -- queries ---------------------------------------------------------------------------------

    def started(self, query: Any, start: Start | None, session: Any) -> Entry:
        """A start returned `query`: a new entry, or the next run of a known one."""
        query_id, run_id, name = classic.ids(query._jsq)
        key = classic.session_key(session)
        with self.changed:
            entry = self._entries.pop(query_id, None)
            if entry is None:
                entry = Entry(query_id, run_id, name, query._jsq, session, key)
            self._entries[query_id] = entry
            if start is not None:
                entry.start = start
            entry.handles.add(query)
            entry.session, entry.session_key = session, key
            self._follow(entry, query._jsq, run_id)
        self._trim()
        return entry

    def _follow(self, entry: Entry, jsq: Any, run_id: str) -> None:
        entry.jsq, entry.run_id, entry.held, entry.forgotten = jsq, run_id, False, False
        self._by_run[run_id] = entry.query_id
        entry.runs.append(run_id)
        while len(entry.runs) > MAX_RUNS:
            self._by_run.pop(entry.runs.pop(0), None)
        for handle in list(entry.handles):
            handle._jsq = jsq  # the user's own handle follows the new run
        self.changed.notify_all()

    def _trim(self) -> None:
        if len(self._entries) <= MAX_REMEMBERED:
            return
        ended = [entry for entry in self.entries() if not entry.held and not entry.is_active()]
        with self.changed:
            for entry in ended[: len(self._entries) - MAX_REMEMBERED]:
                self._entries.pop(entry.query_id, None)
                for run_id in entry.runs:
                    self._by_run.pop(run_id, None)

    def entry(self, query_id: str) -> Entry | None:
        with self.changed:
            return self._entries.get(query_id)

    def entry_of_run(self, run_id: str) -> Entry | None:
        with self.changed:
            return self._entries.get(self._by_run.get(run_id, ""))

    def entry_of(self, query: Any) -> Entry | None:
        """The entry behind a user's handle, which from now on follows it."""
        entry = self.entry_of_run(query._jsq.runId().toString())
        if entry is not None:
            with self.changed:
                entry.handles.add(query)
        return entry

    def entries(self) -> list[Entry]:
        with self.changed:
            return list(self._entries.values())

    # -- ends ------------------------------------------------------------------------------------

    def hold(self, entry: Entry) -> None:
        """A command is about to end this query's run: whoever waits for it goes on waiting."""
        with self.changed:
            entry.held = True
            entry.commanded = True

    def release(self, entry: Entry) -> None:
        """Not held any more: waiters see what Spark would have told them."""
        with self.changed:
            entry.held = False
            self.changed.notify_all()

    def put_on_probation(self, entry: Entry, run_id: str) -> None:
        """A command began this run: until it shows a batch, its failure is that command's outcome."""
        with self.changed:
            entry.probation = run_id

    def shown_alive(self, run_id: str) -> None:
        """The run finished a batch, or a trigger without data: it stands on its own from here."""
        with self.changed:
            entry = self.entry_of_run(run_id)
            if entry is not None and entry.probation == run_id:
                entry.probation = None

    def ended_on_probation(self, run_id: str) -> bool:
        """A run that a command began ended before it stood on its own: hold its waiters.

        The failure is the outcome of that command; it must not end the program and its neighbours.
        """
        with self.changed:
            entry = self.entry_of_run(run_id)
            if entry is None or entry.probation != run_id or entry.run_id != run_id:
                return False
            entry.probation = None
            self.hold(entry)
            return True

    def forget_ended(self) -> None:
        """The user called `resetTerminated`: ends so far no longer wake `awaitAnyTermination`."""
        for entry in self.entries():
            if not entry.held and not entry.is_active():
                entry.forgotten = True

    def close(self) -> None:
        """Every waiter goes free, as without an agent."""
        with self.changed:
            self.closed = True
            for entry in self._entries.values():
                entry.held = False
            self.changed.notify_all()
