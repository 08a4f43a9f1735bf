"""Simulate hours of a fleet in seconds: a complete server and simulated drivers on a test clock.

Only the server's clock is replaced. Events arrive as agents send them; the server stores them, records verdicts,
scrapes series and evaluates the shipped rules at their usual times.
"""

from __future__ import annotations

import heapq
import itertools
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from controlplane.alerting.views import AlertView
from controlplane.app import ControlPlane, build
from controlplane.settings import Settings
from listeners.protocol import wire
from tests.drivers import BEGIN, Driver

POLL = 10.0
TICK = 5.0
Rate = Callable[[float], float]


@dataclass
class SimulatedStream:
    """A query of a simulated driver: its input, its batch durations and its trigger.

    `arrived`: rows that had arrived by a time; `batch_seconds`: the duration of a batch of so many rows.
    """

    name: str
    arrived: Rate
    batch_seconds: Callable[[int], float]
    interval: float = 2.0
    limit: int | None = None
    trigger: str = "processing_time"
    state: Callable[[float, int], dict[str, Any]] | None = None
    watermark: Callable[[float], float] | None = None
    query_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    run_id: str = ""
    batch: int = -1
    read: int = 0
    alive: bool = False
    began: float | None = None  # the running batch
    tasks: int = 0
    data: bool = False  # the last trigger found some
    most: float = float("inf")  # an availableNow run reads what was there at its start
    idle_reported_at: float = 0.0


class Simulation:
    """A server whose time passes only in `pass_time`; drivers are called at their scheduled times."""

    def __init__(self, data_dir: Path, **changes: Any):
        self.now = BEGIN
        self._data_dir, self._changes = data_dir, changes
        self._turns: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self.random = random.Random(7)
        self.plane = self._opened()

    def _opened(self) -> ControlPlane:
        settings = replace(Settings(data_dir=self._data_dir), **self._changes)
        plane = build(settings, clock=lambda: self.now)
        plane.writer.pace_seconds = 0.0  # nobody shares its commits
        plane.writer.start()
        with plane.reading() as conn:
            plane.window.load(conn)
            plane.alerting.load(conn)
        plane.series.load()
        return plane

    def close(self) -> None:
        self.plane.series.save()
        self.plane.writer.stop()
        self.plane.close()

    def reopen(self) -> None:
        """Restart the server. Drivers then deliver the events of its downtime."""
        self.plane = self._opened()

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._turns, (when, next(self._order), what))

    def pass_time(self, seconds: float) -> None:
        """Run everything that is scheduled within so many seconds."""
        end = self.now + seconds
        tick = (self.now // TICK + 1) * TICK
        while min(tick, self._turns[0][0] if self._turns else tick) <= end:
            if self._turns and self._turns[0][0] <= tick:
                when, _, what = heapq.heappop(self._turns)
                self.now = max(self.now, when)
                what()
            else:
                self.now = tick
                self._tick(tick)
                tick += TICK
        self.now = end

    def _tick(self, now: float) -> None:
        self.plane.tick()
        if now % self.plane.series.step == 0:
            self.plane.alerting.tick(now)
        elif self.plane.alerting.scheduler.take_request():
            self.plane.alerting.evaluate_immediate(now)

    def raised(self) -> list[AlertView]:
        """Every alert that has fired so far."""
        return self.plane.alerts.history(0.0, self.now, None, 1000)

    def names(self) -> set[str]:
        return {view.alert.rule for view in self.raised()}


class WallClockSimulation:
    """The same drivers in real time, against a running server."""

    def __init__(self, plane: ControlPlane):
        self.plane = plane
        self._turns: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self.random = random.Random(7)

    @property
    def now(self) -> float:
        return time.time()

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._turns, (when, next(self._order), what))

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while (left := end - self.now) > 0:
            wait = self._turns[0][0] - self.now if self._turns else left
            if wait > 0:
                time.sleep(min(wait, left))
            else:
                heapq.heappop(self._turns)[2]()


class SimulatedDriver:
    """One driver process with its streams: triggers, batches, idle events, status polls and heartbeats."""

    def __init__(self, simulation: Simulation | WallClockSimulation, app: str = "shop"):
        self.simulation, self.app = simulation, app
        self.driver = Driver(app)
        self.streams: list[SimulatedStream] = []
        self.alive = True
        self.held: list[bytes] = []
        self.online = True
        self._send("app_started", {"pid": 1, "host": "h", "python": "3.11", "actions": "all"})
        self._heartbeat()

    def _send(self, type: str, data: dict[str, Any], waits: bool = False) -> None:
        """`waits`: send it together with the next event, as an agent batches the events of one second."""
        self.held.append(self.driver.line(type, data, self.simulation.now))
        if self.online and not waits:
            lines, self.held = self.held, []
            ingest = self.simulation.plane.ingest
            answer = ingest.answer(ingest.receive(lines, self.simulation.now, lambda event: None))
            assert not answer.rejected, answer.rejected

    def _heartbeat(self) -> None:
        if not self.alive:
            return
        self._send("heartbeat", {}, waits=True)
        entries = [self._entry(stream) for stream in self.streams if stream.alive]
        self._send("status", {"queries": entries, "listedAt": self.simulation.now})
        self.simulation.at(self.simulation.now + POLL, self._heartbeat)

    def _entry(self, stream: SimulatedStream) -> dict[str, Any]:
        busy = stream.began is not None
        if busy:
            stream.tasks += 1
        return {
            "id": stream.query_id,
            "runId": stream.run_id,
            "name": stream.name,
            "message": "Processing new data" if busy else "Waiting for next trigger",
            "isDataAvailable": busy or stream.data,
            "isTriggerActive": busy,
            "tasksActive": 1 if busy else 0,
            "tasksCompleted": stream.tasks,
            "lastTaskAt": self.simulation.now if busy else None,
            "facts": {
                "trigger": stream.trigger,
                "triggerInterval": stream.interval,
                "checkpoint": f"/c/{stream.query_id}",
            },
        }

    def start(self, stream: SimulatedStream) -> None:
        stream.run_id, stream.alive = str(uuid.uuid4()), True
        if stream.trigger == "available_now":
            stream.most = stream.arrived(self.simulation.now)
        if stream not in self.streams:
            self.streams.append(stream)
        ids = {"id": stream.query_id, "runId": stream.run_id, "name": stream.name}
        self._send("started", {**ids, "timestamp": wire.rfc3339(self.simulation.now)})
        self._schedule(stream, self.simulation.now + 1.0)

    def stop(self, stream: SimulatedStream, exception: str | None = None, error: str | None = None) -> None:
        stream.alive, stream.began = False, None
        ids = {"id": stream.query_id, "runId": stream.run_id}
        self._send("terminated", {**ids, "exception": exception, "errorClassOnException": error})

    def end(self) -> None:
        """End the program regularly."""
        for stream in self.streams:
            stream.alive, stream.began = False, None
        self._send("app_ended", {"reason": "exit"})
        self.alive = False

    def die(self) -> None:
        """End the process without any event."""
        for stream in self.streams:
            stream.alive, stream.began = False, None
        self.alive = self.online = False

    def _schedule(self, stream: SimulatedStream, when: float) -> None:
        run = stream.run_id
        self.simulation.at(when, lambda: self._trigger(stream, run))

    def _trigger(self, stream: SimulatedStream, run: str) -> None:
        if not stream.alive or stream.run_id != run:
            return
        now = self.simulation.now
        head = int(min(stream.arrived(now), stream.most))
        end = head if stream.limit is None else min(head, stream.read + stream.limit)
        stream.data = end != stream.read
        if not stream.data:
            self._rest(stream, now)
            return
        stream.began = now
        rows, start = end - stream.read, stream.read
        took = stream.batch_seconds(rows)
        self.simulation.at(now + took, lambda: self._finish(stream, run, now, (start, end, head), took))

    def _rest(self, stream: SimulatedStream, now: float) -> None:
        if stream.trigger == "available_now":
            self.stop(stream)
            return
        if now - stream.idle_reported_at >= POLL:
            stream.idle_reported_at = now
            ids = {"id": stream.query_id, "runId": stream.run_id}
            self._send("idle", {**ids, "timestamp": wire.rfc3339(now)})
        self._schedule(stream, now + max(stream.interval, 0.1))

    def _finish(
        self, stream: SimulatedStream, run: str, began: float, offsets: tuple[int, int, int], took: float
    ) -> None:
        if not stream.alive or stream.run_id != run:
            return
        stream.batch, stream.read, stream.began = stream.batch + 1, offsets[1], None
        self._send("progress", self._report(stream, began, offsets, took))
        now, every = self.simulation.now, stream.interval
        following = began + every if every else now
        while following < now:
            following += every
        self._schedule(stream, following)

    def _report(
        self, stream: SimulatedStream, began: float, offsets: tuple[int, int, int], took: float
    ) -> dict[str, Any]:
        start, end, head = ({"topic": {"0": number}} for number in offsets)
        rows = offsets[1] - offsets[0]
        event_time = {}
        if stream.watermark is not None:
            event_time = {"watermark": wire.rfc3339(stream.watermark(began)), "max": wire.rfc3339(began)}
        return {
            "id": stream.query_id,
            "runId": stream.run_id,
            "name": stream.name,
            "timestamp": wire.rfc3339(began),
            "batchId": stream.batch,
            "batchDuration": round(took * 1000),
            "numInputRows": rows,
            "inputRowsPerSecond": 1.0,
            "processedRowsPerSecond": rows / max(took, 0.001),
            "durationMs": {"addBatch": round(took * 900), "triggerExecution": round(took * 1000)},
            "eventTime": event_time,
            "stateOperators": [stream.state(began, stream.batch)] if stream.state else [],
            "sources": [
                {
                    "description": "KafkaV2[Subscribe[topic]]",
                    "startOffset": start,
                    "endOffset": end,
                    "latestOffset": head,
                    "numInputRows": rows,
                }
            ],
            "sink": {"description": "Sink", "numOutputRows": rows},
        }


@contextmanager
def simulation_in(data_dir: Path, **changes: Any) -> Iterator[Simulation]:
    simulation = Simulation(data_dir, **changes)
    try:
        yield simulation
    finally:
        simulation.close()


def steadily(rate: float, since: float = BEGIN) -> Rate:
    """Arrivals at a constant rate in rows a second."""
    return lambda at: max(0.0, at - since) * rate
