"""Random histories of drivers on slow machines, and a server without a database that receives them.

A history is drawn in three steps: what happens in Spark (runs, batches, idle triggers), what the agent observes of it
(the real `Prober`, whose calls take a random time), and when its requests arrive (late, twice, in another order). The
server parses and applies them with the product's own code. Every delay is at most `Pace.max_delay`; the agent's clock
may be off by minutes. `Fault` names the one thing that is wrong in a history, if any.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from controlplane.events import lifecycle
from controlplane.events.clocks import AgentClocks
from controlplane.events.window import Window
from controlplane.health.judge import judge
from controlplane.ingest import deduplication
from controlplane.ingest.quotas import Quotas
from controlplane.ingest.service import _RequestReader
from controlplane.model import ProgressSample, Verdict
from controlplane.records import Changes, RunRow, UnitOfWork
from controlplane.settings import Settings
from listeners.protocol import wire
from listeners.queries.prober import Prober
from listeners.queries.reachability import Reachability
from listeners.queries.registry import Registry
from listeners.spark.engine import SparkStatus, SparkTasks
from tests.drivers import BEGIN, Driver, report

HEARTBEAT_SECONDS, POLL_SECONDS, REQUEST_TIMEOUT_SECONDS = 10.0, 10.0, 10.0
#: Each event reaches the server so many seconds after it was written: a request takes up to a minute, and it may have to
#: wait for the request before it to time out.
MAX_DELIVERY_SECONDS = 75.0
#: A healthy batch finishes a task at least this often.
MAX_TASK_SECONDS = 120.0


class Fault(Enum):
    """What goes wrong in a history."""

    NONE = "none"
    DISAPPEARS = "a query leaves the driver without an event"
    DIES = "the driver is killed"
    FAILS = "a query ends with an exception"
    HANGS = "no task of a batch finishes"


class Part(NamedTuple):
    """A part of a run: `init`, `batch`, `wait` (for the next trigger) or `idle`; times are true times."""

    began: float
    ended: float
    kind: str


@dataclass
class Pace:
    """Draws every duration of a history. `max_delay`: the longest time that any one step takes, in seconds."""

    rng: random.Random
    max_delay: float

    def delay(self, most: float = math.inf) -> float:
        """A delay: mostly short, often long, sometimes the longest."""
        rng, limit = self.rng, min(self.max_delay, most)
        return limit * rng.choice((rng.random() ** 4, rng.random(), 1.0))


@dataclass
class TrueRun:
    """One run as Spark knows it; the agent's view of it is what `status` and `tasks` answer at a time."""

    query_id: str
    run_id: str
    started: float
    interval: float
    parts: list[Part] = field(default_factory=list)
    ended: float = math.inf
    hangs_at: float = math.inf
    task_seconds: float = 10.0
    name: str | None = None

    def part_at(self, at: float) -> Part:
        return self.parts[max(0, bisect_right(self.parts, at, key=lambda part: part.began) - 1)]

    def status_at(self, at: float) -> SparkStatus:
        if at >= self.ended:
            return SparkStatus("Stopped", False, False)
        return {
            "init": SparkStatus("Initializing sources", False, False),
            "batch": SparkStatus("Processing new data", True, True),
            "wait": SparkStatus("Waiting for next trigger", True, False),
            "idle": SparkStatus("Waiting for data to arrive", False, False),
        }[self.part_at(at).kind]

    def tasks_at(self, at: float) -> SparkTasks:
        part = self.part_at(at)
        index = self.parts.index(part)
        finished = int((min(at, self.hangs_at) - part.began) / self.task_seconds)
        return SparkTasks(2, finished % 50, index * 1000 + finished // 50)


class SeenRun:
    """A `SparkRun` of the simulated driver, as the prober uses it."""

    def __init__(self, driver: SimulatedDriver, run: TrueRun):
        self._driver, self._run = driver, run
        self.query_id, self.run_id, self.name = run.query_id, run.run_id, run.name

    def status(self) -> SparkStatus:
        return self._driver.answer(self._run.status_at, self.query_id)

    def facts(self) -> dict[str, Any]:
        trigger = {"trigger": "processing_time", "triggerInterval": self._run.interval}
        checkpoint = {"checkpoint": f"/c/{self.query_id}", "checkpointIsTemporary": self._run.name is None}
        return trigger | checkpoint


@dataclass
class SimulatedDriver:
    """A driver between two times: its runs, its agent and the agent's clock, which is off by `skew` seconds.

    It is the prober's `Engine` too: each call takes a random time, and Spark reads its answer somewhere in between.
    `undescribed`: which share of the requests for a query's status or tasks Spark answers with an error.
    """

    pace: Pace
    began: float
    ended: float
    skew: float
    runs: list[TrueRun] = field(default_factory=list)
    written: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)
    now: float = 0.0
    heartbeat_at: float = 0.0
    killed: bool = False
    undescribed: dict[str, float] = field(default_factory=dict)

    def answer(self, read: Callable[[float], Any], query_id: str = "") -> Any:
        took, share = self.pace.delay(60.0), self.pace.rng.random()
        answer = read(self.now + took * share)
        self.wait(took)
        if self.pace.rng.random() < self.undescribed.get(query_id, 0.0):
            raise ValueError("Spark's error")
        return answer

    def outage(self, error: Exception) -> None:
        """Every error is an answer."""

    def wait(self, seconds: float) -> None:
        """Let time pass; the agent's heartbeats do not wait for Spark."""
        until = self.now + seconds
        while self.heartbeat_at <= until:
            self.now = self.heartbeat_at
            self.write(self.now, "heartbeat", {"uptime": 1.0, **self.reachability.facts()})
            self.heartbeat_at += HEARTBEAT_SECONDS + self.pace.delay(2.0)
        self.now = until

    def active(self, session: Any) -> list[SeenRun]:
        return self.answer(
            lambda at: [SeenRun(self, run) for run in self.runs if run.started <= at < run.ended]
        )

    def tasks(self, session: Any, run_id: str) -> SparkTasks:
        run = next(run for run in self.runs if run.run_id == run_id)
        return self.answer(run.tasks_at, run.query_id)

    def driver_figures(self, session: Any) -> dict[str, Any]:
        return {}

    def write(self, at: float, type: str, data: dict[str, Any]) -> None:
        """Put an event into the agent's queue at a true time, unless the driver is dead by then."""
        if at < self.ended or (type == "app_ended" and not self.killed):
            self.written.append((at, type, data))

    def observe(self) -> None:
        """The agent's own threads: heartbeats and polls."""
        self.write(self.began, "app_started", {"actions": "all"})
        self.now = self.heartbeat_at = self.began
        self.reachability = Reachability(lambda error: None, lambda: self.now)
        prober = Prober(
            Registry(),
            lambda: [self],
            lambda: self.now + self.skew,
            engine_of=lambda session: self,
            shapes=False,
            monotonic=lambda: self.now,
        )
        prober.on_answer = self.reachability.poll_begins
        while self.now < self.ended:
            self.reachability.poll_begins()
            status = prober.probe()
            self.write(self.now, "status", status)
            self.reachability.poll_answered()
            self.wait(self.pace.rng.choice((1.0, POLL_SECONDS, POLL_SECONDS)))

    def lines(self) -> list[tuple[float, bytes]]:
        """(true time of writing, line) of each event, in order."""
        agent = Driver(app="shop")
        return [
            (at, agent.line(type, data, at + self.skew))
            for at, type, data in sorted(self.written, key=lambda item: item[0])
        ]


def random_run(
    pace: Pace, query_id: str, run_id: str, started: float, ended: float, name: str | None
) -> TrueRun:
    """A healthy run: triggers with and without data, batches between a second and half an hour."""
    rng = pace.rng
    run = TrueRun(
        query_id, run_id, started, rng.choice((0.0, 1.0, 10.0, 60.0, 600.0)), ended=ended, name=name
    )
    run.task_seconds = rng.uniform(0.5, MAX_TASK_SECONDS)
    typical, idle_share = rng.choice((1.0, 5.0, 30.0, 200.0)), rng.choice((0.0, 0.1, 0.6, 1.0))
    at = started + rng.uniform(0.1, 20.0)
    run.parts.append(Part(started, at, "init"))
    while at < ended:
        kind = "idle" if rng.random() < idle_share else "batch"
        took = rng.uniform(5, 120) if kind == "idle" else typical * rng.lognormvariate(0, 0.5)
        if kind == "batch" and rng.random() < 0.03:
            took = rng.uniform(60, 1800)
        took = max(took, 0.3)
        run.parts.append(Part(at, at + took, kind))
        at += took
        if run.interval and (rest := run.interval - (at - started) % run.interval) > 0.01:
            run.parts.append(Part(at, at + rest, "wait" if kind == "batch" else "idle"))
            at += rest
    return run


class ListenerBus:
    """Spark's asynchronous listener bus: one thread calls the listener, in order and late."""

    def __init__(self, driver: SimulatedDriver):
        self._driver, self._free_at = driver, 0.0

    def post(self, at: float, type: str, data: dict[str, Any]) -> None:
        self._free_at = max(self._free_at, at + self._driver.pace.delay(60.0))
        self._driver.write(self._free_at, type, data)


def report_runs(driver: SimulatedDriver, silent: str | None, exceptions: dict[str, str]) -> None:
    """Write the events of all runs. `silent`: a run whose end is not reported; `exceptions` by run id."""
    events: list[tuple[float, str, dict[str, Any]]] = []
    for run in driver.runs:
        about = {"id": run.query_id, "runId": run.run_id, "name": run.name}
        # The start of a query waits for this callback, so a run cannot end before it.
        driver.write(min(run.started + driver.pace.delay(60.0), run.ended), "started", about)
        events += [(at, "idle", about) for at in _idle_reports(run)]
        events += _progress_reports(run)
        if run.ended < driver.ended and run.run_id != silent:
            events.append((run.ended, "terminated", {**about, "exception": exceptions.get(run.run_id)}))
    bus = ListenerBus(driver)
    for at, type, data in sorted(events, key=lambda event: event[0]):
        bus.post(at, type, data)


def _idle_reports(run: TrueRun) -> Iterator[float]:
    last = -math.inf
    for part in run.parts:
        at = max(part.began, last + 10.0)
        while part.kind == "idle" and at < min(part.ended, run.ended):
            last = at
            yield at
            at += 10.0


def _progress_reports(run: TrueRun) -> Iterator[tuple[float, str, dict[str, Any]]]:
    offset = 0
    batches = [
        part for part in run.parts if part.kind == "batch" and part.ended <= min(run.ended, run.hangs_at)
    ]
    for number, part in enumerate(batches):
        took, read = part.ended - part.began, 10 + number % 7
        source = {
            "description": "Rate",
            "startOffset": offset,
            "endOffset": offset + read,
            "numInputRows": read,
        }
        source["latestOffset"] = offset + read + (5 if number % 3 else 0)
        offset += read
        millis = int(took * 1000)
        more = {
            "batchDuration": millis,
            "durationMs": {"addBatch": millis, "triggerExecution": millis},
            "sources": [source],
            "stateOperators": [],
            "name": run.name,
        }
        yield part.ended, "progress", report(run.query_id, run.run_id, number, part.began, **more)


# -- the way to the server -------------------------------------------------------------------------


class Request(NamedTuple):
    """A request that arrives at a true time; `sent_at` is the agent's clock at sending."""

    arrives_at: float
    sent_at: float
    lines: tuple[bytes, ...]


def requests(driver: SimulatedDriver, away: tuple[float, float]) -> Iterator[Request]:
    """The agent's requests in the order of sending: a request without an answer in time is sent again.

    `away`: from when to when the server is down.
    """
    pace, queue = driver.pace, driver.lines()
    at, acknowledged, arrived = driver.began, 0, 0
    while acknowledged < len(queue) and not (driver.killed and at >= driver.ended):
        if queue[acknowledged][0] > at:
            at = queue[acknowledged][0] + 0.25
        end = acknowledged
        while end < len(queue) and end - acknowledged < 500 and queue[end][0] <= at:
            end += 1
        due = max(queue[min(arrived, end - 1)][0], away[1] if at >= away[0] else 0.0) + MAX_DELIVERY_SECONDS
        arrives_at = at + min(pace.delay(60.0), max(0.0, due - at))
        answered_at = arrives_at + pace.delay(5.0)
        if not away[0] <= arrives_at < away[1]:
            arrived = max(arrived, end)
            yield Request(arrives_at, at + driver.skew, tuple(line for _, line in queue[acknowledged:end]))
        else:
            answered_at = math.inf
        if answered_at <= at + REQUEST_TIMEOUT_SECONDS:
            acknowledged, at = end, answered_at + 0.25
        else:
            at += REQUEST_TIMEOUT_SECONDS + pace.rng.uniform(0.25, 3.0)


class _NoPacker:
    """Stands for the compression of stored events, which does not affect verdicts."""

    dictionary = 0

    def pack(self, data: bytes) -> bytes:
        return data


class MemoryServer:
    """The server's ingest path without its store: the rows stay in one unit of work."""

    def __init__(self, listening_since: float = 0.0) -> None:
        self._now, self._unit, self._seen = 0.0, UnitOfWork(), set[tuple[str, int]]()
        self._stored, self._batches = dict[str, RunRow](), list[tuple[str, ProgressSample]]()
        self.restart(listening_since)

    def restart(self, now: float) -> None:
        """Begin with what the store has: without the agents' clocks, with the times of statuses that were stored."""
        self._clocks, self._listening_since = AgentClocks(), now
        self._unit.runs = dict(self._stored)
        self.window = Window(clock=lambda: self._now)
        self._quotas = Quotas(self.window, Settings(max_events_per_second_per_app=math.inf), lambda: 0.0)
        rows = (self._unit.agents, self._unit.queries, self._unit.runs)
        self.window.apply(Changes(*(list(each.values()) for each in rows), self._batches))  # type: ignore[arg-type]

    def accept(self, request: Request) -> None:
        now = request.arrives_at
        clock = self._clocks.note(now, request.sent_at)
        reader = _RequestReader(lambda event: None, self._quotas, clock, _NoPacker(), now)  # type: ignore[arg-type]
        received = list(reader.read(request.lines))
        fresh = [item for item in received if self._is_new(item.parsed.event)]
        assert not reader.rejected, reader.rejected
        events = [item.parsed.event for item in fresh]
        for agent in {item.parsed.event.agent for item in received}:
            self.window.note_contact(agent, now)
        deduplication.note_contacts(self._unit, self.window.agent)
        lifecycle.record_agents(
            self._unit, events, deduplication._offsets(fresh), deduplication._heartbeats(fresh)
        )
        lifecycle.apply_events(self._unit, [item.parsed for item in fresh], now, self._listening_since)
        self._give_keys()
        changes = deduplication._changes(self._unit, fresh)
        self._stored.update((row.run.run_id, row) for row in changes.runs)
        self._batches += changes.batches
        self.window.apply(changes)
        self._unit.changed.clear()
        self._unit.quiet.clear()
        self._unit.before.clear()
        self._unit.ended_agents.clear()

    def _give_keys(self) -> None:
        """As the store numbers the rows of runs, and notes what it has stored."""
        for key, row in enumerate(list(self._unit.runs.values()), start=1):
            if row.run.run_id in self._unit.changed:
                run = replace(row.run, key=key)
                self._unit.runs[row.run.run_id] = replace(row, run=run, stored_event_at=row.last_event_at)

    def _is_new(self, event: wire.Event) -> bool:
        key = event.agent, event.seq
        is_new = key not in self._seen
        self._seen.add(key)
        return is_new

    def fleet(self, now: float) -> set[str]:
        """The ids of the queries in the fleet at `now`."""
        self._now = now
        return {view.query_id for view in self.window.fleet()}

    def verdicts(self, now: float) -> dict[str, Verdict]:
        """The verdict on each query at `now`."""
        views = (self.window.view(view.query_id) for view in self.window.views())
        return {
            view.query_id: judge(view, now, listening_since=self._listening_since) for view in views if view
        }


# -- histories -------------------------------------------------------------------------------------


@dataclass
class History:
    """Drivers one after another, each with the same queries, and sometimes another beside them, which is the first.

    `fault_at`: when the fault began.
    """

    pace: Pace
    drivers: list[SimulatedDriver]
    away: tuple[float, float]
    fault: Fault
    fault_at: float = math.inf
    query: str = "q0"

    @property
    def until(self) -> float:
        return max(driver.ended for driver in self.drivers)

    def runs_of(self, query_id: str) -> list[TrueRun]:
        return [run for driver in self.drivers for run in driver.runs if run.query_id == query_id]

    def requests(self) -> list[Request]:
        """All requests in the order of arrival."""
        found = [request for driver in self.drivers for request in requests(driver, self.away)]
        return sorted(found, key=lambda request: request.arrives_at)


def random_history(seed: int, fault: Fault = Fault.NONE, max_delay: float | None = None) -> History:
    """A history of five to forty minutes with up to three queries and up to two drivers."""
    rng = random.Random(seed)
    pace = Pace(rng, rng.choice((0.05, 3.0, 20.0, 60.0)) if max_delay is None else max_delay)
    length = rng.choice((300.0, 300.0, 900.0, 2400.0))
    cut = rng.uniform(60, length - 60) if fault is Fault.NONE and rng.random() < 0.3 else length
    spans = [(0.0, cut)] if cut == length else [(0.0, cut), (cut + rng.uniform(0, 60), length + 120)]
    away_at = rng.uniform(0, length) if fault is Fault.NONE and rng.random() < 0.2 else math.inf
    history = History(pace, [], (BEGIN + away_at, BEGIN + away_at + rng.uniform(5, 300)), fault)
    names = [f"q{number}" for number in range(rng.randint(1, 3))]
    for number, (began, ended) in enumerate(spans):
        skew = rng.choice((0.0, 0.0, rng.uniform(-900, 900)))
        driver = SimulatedDriver(pace, BEGIN + began, BEGIN + ended, skew)
        driver.runs = [run for name in names for run in _runs(driver, name, number)]
        # Of a query that hangs, the agent must be able to see that.
        if (fault is not Fault.HANGS or len(names) > 1) and rng.random() < 0.3:
            driver.undescribed = {names[-1]: rng.choice((0.1, 0.7, 1.0))}
        history.drivers.append(driver)
    if rng.random() < 0.2:
        history.drivers.insert(0, _sibling(pace, length, names))
    _break(history)
    return history


def _sibling(pace: Pace, length: float, names: list[str]) -> SimulatedDriver:
    """Another driver of the application at the same time, with queries of its own under the same names."""
    rng = pace.rng
    sibling = SimulatedDriver(
        pace, BEGIN + rng.uniform(0, length), BEGIN + length + 120, rng.uniform(-900, 900)
    )
    sibling.runs = [run for name in names for run in _runs(sibling, name, 7, f"other {name}")]
    return sibling


def _runs(driver: SimulatedDriver, name: str, number: int, query_id: str | None = None) -> Iterator[TrueRun]:
    """The runs of a query in one driver: restarts, and sometimes a stop for good."""
    query_id = query_id or name
    rng, at, count = driver.pace.rng, driver.began + driver.pace.rng.uniform(0, 60), 0
    while at < driver.ended:
        ended = at + rng.expovariate(1 / rng.choice((30, 600, 1e6)))
        ended = ended if ended < driver.ended else math.inf
        run_id, until = f"{query_id}-{number}-{count}", min(ended, driver.ended)
        yield random_run(driver.pace, query_id, run_id, at, until, name)
        if ended == math.inf or rng.random() < 0.2:
            return
        at, count = ended + rng.choice((0.0, 0.1, rng.uniform(0, 120))), count + 1


def _break(history: History) -> None:
    """Insert the fault, and let the agents observe what remains."""
    driver, rng = history.drivers[-1], history.pace.rng
    run = [run for run in driver.runs if run.query_id == history.query][-1]
    silent, exceptions = None, {}
    history.fault_at = rng.uniform(run.started, min(run.ended, driver.ended))
    match history.fault:
        case Fault.DISAPPEARS | Fault.FAILS:
            run.ended = history.fault_at
            silent = run.run_id if history.fault is Fault.DISAPPEARS else None
            exceptions = {run.run_id: "boom"}
            driver.ended += 3600.0
        case Fault.DIES:
            driver.ended, driver.killed = history.fault_at, True
        case Fault.HANGS:
            part = run.part_at(history.fault_at)
            run.parts = [p for p in run.parts if p.began < part.began] + [Part(part.began, math.inf, "batch")]
            run.ended, run.hangs_at = math.inf, history.fault_at
            history.fault_at = part.began
            driver.ended += 7200.0
        case Fault.NONE:
            history.fault_at = math.inf
    for each in history.drivers:
        report_runs(each, silent, exceptions)
        each.observe()
        if not each.killed:
            each.write(each.ended, "app_ended", {"reason": "exit"})
