"""Days of simulated queries through the shipped rules on a fast clock: healthy fleets, and named troubles in them.

Each query is drawn from a seed: nights and bursts, long batches, rate limits, topics that are idle most of the time,
state with a watermark, deploys at a random hour of each day. A step makes the views of the fleet, judges them, samples
them into the grid and evaluates the rules that are due, with the product's own code. Ingest and store are left out.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from alerts.notify import config as routing
from alerts.promql.series import METRIC_NAME, Series
from alerts.rules.loader import load
from alerts.rules.pack import render, render_routing
from alerts.state import AlertState
from controlplane.alerting.evaluation import Evaluation
from controlplane.alerting.rulebook import Rulebook
from controlplane.health.verdicts import VerdictLog
from controlplane.metrics.agent_samples import agent_samples
from controlplane.metrics.series import selection
from controlplane.metrics.series.grid import Grid
from controlplane.metrics.series.sampler import FleetSampler
from controlplane.model import (
    Agent,
    OperatorSample,
    ProgressSample,
    QueryView,
    Run,
    RunEnd,
    RunFacts,
    SourceSample,
    StatusSample,
)
from controlplane.store.alerting import AlertChange

#: 2026-11-23T00:00:00Z, a Monday.
BEGIN = 1_795_392_000.0
DAY, HOUR = 86400.0, 3600.0
TOPIC, OPERATOR = "KafkaV2[Subscribe[orders]]", "stateStoreSave"
PARTITIONS, KEPT_REPORTS, SNAPSHOT_SECONDS = 4, 40, 60.0
FACTS = RunFacts("processing_time", 30.0, "/checkpoint", sink="KafkaSink", watermark_delay=600.0)
PAGING = frozenset({"critical", "warning"})


@dataclass
class Stream:
    """One query: how rows arrive and how fast it reads them; troubles replace these.

    `rate`: mean rows a second; `capacity`: rows a second of a batch beside `fixed` seconds; `limit`: rows a batch.
    """

    number: int
    kind: str
    dice: random.Random
    rate: float = 100.0
    interval: float = 30.0
    limit: float = math.inf
    fixed: float = 1.0
    capacity: float = 1000.0
    night: float = 0.3
    bursts: tuple[tuple[float, float, float], ...] = ()
    stateful: bool = False
    late_share: float = 0.0
    labels: dict[str, str] = field(default_factory=lambda: {"team": "data"})
    slow_phases: Mapping[str, float] = field(default_factory=dict)
    custom: Mapping[str, float] = field(default_factory=dict)
    commit_share: float = 0.05
    stopped_producer: float = math.inf
    skewed: bool = False
    snapshots: bool = True
    evicts: bool = True
    watermark_stops: float = math.inf
    late_producer: float = math.inf
    delay: float | None = 600.0
    facts: RunFacts = FACTS
    name: str | None = ""

    def arrived(self, at: float) -> float:
        """Rows since BEGIN, by the wave of the day and the bursts."""
        seconds = max(0.0, min(at, self.stopped_producer) - BEGIN)
        if self.kind == "idle_topic":
            return 100 * self.rate * math.floor(seconds / (3 * HOUR))
        swing, turn = (1 - self.night) / 2, 2 * math.pi / DAY
        rows = self.rate * ((1 - swing) * seconds - swing * math.sin(turn * seconds) / turn)
        return rows + sum(
            extra * min(max(0.0, BEGIN + seconds - start), length) for start, length, extra in self.bursts
        )

    def median_rate(self, hour: float) -> float:
        """Rows a second in this hour of an ordinary day; 0 for a topic that is idle in most hours."""
        ordinary = replace(self, bursts=(), stopped_producer=math.inf)
        if self.kind == "idle_topic":
            return 0.0
        return (ordinary.arrived(hour + HOUR) - ordinary.arrived(hour)) / HOUR

    def seconds_of(self, rows: float) -> float:
        """Duration of a batch: most vary little, one in a hundred is slow, one in a thousand very slow."""
        luck = self.dice.random()
        factor = 6.0 if luck < 0.001 else 2.5 if luck < 0.01 else self.dice.lognormvariate(0, 0.15)
        return (self.fixed + rows / self.capacity) * factor


KINDS = (
    "steady",
    "nightly",
    "bursty",
    "limited",
    "long_batches",
    "as_fast_as_possible",
    "stateful",
    "idle_topic",
)


def healthy_stream(number: int, seed: int, days: float) -> Stream:
    """A query whose capacity is enough at its busiest hour."""
    dice = random.Random(f"{seed}/{number}")
    kind = KINDS[number % len(KINDS)]
    stream = Stream(
        number, kind, dice, rate=10 ** dice.uniform(0.5, 3.5), interval=dice.choice([15.0, 30.0, 60.0])
    )
    stream.capacity = stream.rate * dice.uniform(4, 12)
    stream.fixed = stream.interval * dice.uniform(0.03, 0.2)
    stream.night = {"nightly": 0.0, "steady": 0.9}.get(kind, dice.uniform(0.1, 0.6))
    if kind in ("bursty", "limited"):
        starts = [BEGIN + dice.uniform(0, days * DAY) for _ in range(math.ceil(4 * days))]
        stream.bursts = tuple((at, dice.uniform(60, 600), stream.rate * dice.uniform(1, 3)) for at in starts)
        stream.limit = stream.rate * stream.interval * 6 if kind == "limited" else math.inf
    if kind == "long_batches":
        stream.interval, stream.fixed = 600.0, dice.uniform(60, 240)
    if kind == "as_fast_as_possible":
        stream.interval, stream.fixed = 0.0, dice.uniform(5, 20)
    stream.stateful = kind in ("stateful", "bursty")
    stream.late_share = 0.001 if stream.stateful else 0.0
    stream.facts = replace(stream.facts, trigger_interval=stream.interval)
    return stream


class SimulatedQuery:
    """The state of a stream between two steps, and its view."""

    def __init__(self, stream: Stream, agent: Agent):
        self.stream = stream
        self.id, self.batch, self.read, self.runs = f"{stream.number:036x}", -1, 0.0, 0
        self.totals: dict[str, float] = {"starts": 0.0}
        self.reports: list[ProgressSample] = []
        self.hangs_at = self.fails_at = self.rewinds_at = self.restarts_at = self.loses_at = math.inf
        self.start(BEGIN, agent)

    def start(self, at: float, agent: Agent) -> None:
        """Begin a run; rows that arrived meanwhile wait."""
        self.agent, self.runs, self.began = agent, self.runs + 1, at
        self.totals["starts"] += 1
        self.run = Run(self.runs, f"{self.id}-{self.runs}", self.id, agent.agent, at)
        self.next_trigger = at + self.stream.dice.uniform(1, 15)
        self.busy: tuple[float, float, float, float] | None = None  # trigger, end, end offset, head
        self.idle_at: float | None = None  # of this run, as in the product also while it works again
        self.waits = False
        self.snapshot = (at, self.batch)

    def stop(self, at: float, end: RunEnd = RunEnd.STOPPED) -> None:
        self.run = replace(
            self.run, ended_at=at, end=end, failure_text="boom" if end is RunEnd.FAILED else None
        )

    def advance(self, now: float) -> None:
        """Run everything up to `now`."""
        while self.run.ended_at is None:
            if now >= self.fails_at:
                self.stop(self.fails_at, RunEnd.FAILED)
            elif now >= self.restarts_at:
                self.hangs_at, self.restarts_at = self.restarts_at, math.inf
                self.start(self.hangs_at, self.agent)
            elif self.busy is not None and self.busy[1] <= now:
                self._finish(*self.busy)
            elif self.busy is None and self.next_trigger <= now:
                self._trigger(self.next_trigger)
            else:
                return

    def _trigger(self, at: float) -> None:
        head = math.floor(self.stream.arrived(at))
        if at >= self.rewinds_at:
            self.read, self.rewinds_at = self.read / 2, math.inf
        end = min(head, self.read + self.stream.limit)
        if end <= self.read:
            self.idle_at, self.waits = at, True
            self.next_trigger = at + max(self.stream.interval, 10.0)
            return
        took = math.inf if at >= self.hangs_at else self.stream.seconds_of(end - self.read)
        self.busy, self.waits = (at, at + took, end, head), False

    def _finish(self, began: float, ended: float, end: float, head: float) -> None:
        self.batch += 1
        if ended >= self.loses_at:
            self.batch, self.loses_at, self.totals["batches_unreported"] = self.batch + 3, math.inf, 3.0
        report = self._report(began, ended, end, head)
        self.reports = [*self.reports[-KEPT_REPORTS:], report]
        self._count(report)
        self.read, self.busy = end, None
        every = self.stream.interval
        self.next_trigger = began + every * math.ceil((ended - began) / every) if every else ended

    def _count(self, report: ProgressSample) -> None:
        added = {"batches": 1.0, "input_rows": report.input_rows, "output_rows": report.input_rows}
        added[f"source_input_rows|{TOPIC}"] = report.input_rows
        for operator in report.operators:
            added[f"state_rows_updated|{OPERATOR}"] = operator.rows_updated
            added[f"state_rows_removed|{OPERATOR}"] = operator.rows_removed
            added[f"state_rows_dropped_by_watermark|{OPERATOR}"] = operator.rows_dropped_by_watermark
        for name, rows in added.items():
            self.totals[name] = self.totals.get(name, 0.0) + rows

    def _report(self, began: float, ended: float, end: float, head: float) -> ProgressSample:
        stream, took, rows = self.stream, ended - began, round(end - self.read)
        wal = stream.dice.lognormvariate(-2, 0.7)
        phases = {
            "walCommit": wal,
            "commitOffsets": wal,
            "addBatch": max(0.0, took - 2 * wal),
            **stream.slow_phases,
        }
        newest = min(self.reports[-1].trigger_at if self.reports else began, stream.watermark_stops)
        late = HOUR if began > stream.late_producer else 0.0
        watermark = None if stream.delay is None else newest - late - stream.delay
        return ProgressSample(
            at=ended,
            trigger_at=began,
            run_id=self.run.run_id,
            batch_id=self.batch,
            duration=took,
            phases_ms={name: round(1000 * seconds) for name, seconds in phases.items()},
            input_rows=rows,
            input_rows_per_second=rows / max(stream.interval, took),
            processed_rows_per_second=rows / took,
            sources=(self._source(end, head, rows),),
            operators=(self._operator(began, rows, took),) if stream.stateful else (),
            output_rows=rows,
            watermark=watermark if stream.stateful else None,
        )

    def _source(self, end: float, head: float, rows: int) -> SourceSample:
        start, ends, heads = (self._offsets(offset) for offset in (self.read, end, end))
        for part, share in enumerate(self._shares()):
            heads[f"orders/{part}"] = ends[f"orders/{part}"] + (head - end) * share
        return SourceSample(TOPIC, start, ends, heads, rows)

    def _offsets(self, rows: float) -> dict[str, float]:
        return {f"orders/{part}": rows / PARTITIONS for part in range(PARTITIONS)}

    def _shares(self) -> Sequence[float]:
        return (0.97, 0.01, 0.01, 0.01) if self.stream.skewed else (1 / PARTITIONS,) * PARTITIONS

    def _operator(self, at: float, rows: int, took: float) -> OperatorSample:
        if self.stream.snapshots and at - self.snapshot[0] >= SNAPSHOT_SECONDS:
            self.snapshot = (at, self.batch)
        uploaded = -1.0 if self.snapshot[0] == self.began else float(self.snapshot[1] + 1)
        rows_total = 50_000 + self.batch % 7 if self.stream.evicts else round(20_000 + self.read)
        metrics = {"SnapshotLastUploaded.partition_0_default": uploaded, **self.stream.custom}
        dropped = round(rows * self.stream.late_share)
        commit = round(1000 * took * self.stream.commit_share * 8)
        removed = rows if self.stream.evicts else 0
        return OperatorSample(OPERATOR, rows_total, rows, removed, dropped, 10_000_000, commit, 8, metrics)

    def view(self, now: float) -> QueryView:
        """What the server knows at `now`."""
        active, stream = self.run.ended_at is None, self.stream
        working = self.busy is not None and now < self.hangs_at
        status = StatusSample(
            now - 2,
            self.run.run_id,
            "Processing new data" if self.busy else "Waiting for next trigger",
            not self.waits,
            self.busy is not None,
            1 if self.busy else 0,
            4,
            now - 3 if working else None if self.busy is None else self.hangs_at,
            now - 2,
            now - 3 if working or self.busy is None else self.hangs_at,
        )
        ended = self.run.end
        by = None if ended is None else "terminated"
        return QueryView(
            self.id,
            self.agent.app,
            f"query-{stream.number}" if stream.name == "" else stream.name,
            stream.labels,
            BEGIN,
            replace(self.agent, last_seen_at=now - 2, contact_at=now - 2),
            self.run,
            by,
            facts=stream.facts,
            progress=tuple(self.reports),
            idle_at=self.idle_at,
            status=status if active else None,
            last_event_at=now - 2,
            polls=(now - 2,),
        )


class _GridAlone:
    """The source of the rules: the grid; recorded series are not kept."""

    def __init__(self, grid: Grid):
        self._grid = grid

    def rules_source(self, now: float, live: bool, together: frozenset[str] = frozenset()) -> Grid:
        return self._grid

    def record(self, group_key: str, series: Sequence[Series]) -> None: ...

    def forget(self, group_key: str) -> None: ...


class Simulation:
    """Queries from BEGIN on. `fired`: alerts as (time, alert name, severity, labels)."""

    def __init__(self, streams: Sequence[Stream], seed: int, step: float = 15.0):
        groups, mistakes = load(render(), "streaming.yaml")
        config, errors = routing.load(render_routing())
        assert not mistakes and not errors and config is not None
        self.now, self.step, self._seed = BEGIN, step, seed
        self._dice = random.Random(seed)
        agents = [self._agent(number, 0, BEGIN) for number in range(-(-len(streams) // 5))]
        self.queries = [SimulatedQuery(stream, agents[n // 5]) for n, stream in enumerate(streams)]
        self._returns: dict[int, float] = {}
        self._hour, self._medians = -1.0, list[float]()
        self._grid = Grid(selection.retention_for(groups, step).seconds, step, 10**7)
        self._sampler = FleetSampler(lambda query_id: self.queries[int(query_id, 16)].totals)
        self._verdicts = VerdictLog()
        self._evaluation = Evaluation(
            Rulebook(groups, config, {}, step), _GridAlone(self._grid), self._save, "http://localhost"
        )
        self.fired: list[tuple[float, str, str, Mapping[str, str]]] = []

    def _agent(self, number: int, deploy: int, at: float) -> Agent:
        return Agent(
            number + 1, f"agent-{number}-{deploy}", f"app-{number}", "app", "4.3.0", first_seen_at=at
        )

    def _save(self, changes: Sequence[AlertChange], evaluated: Mapping[str, float]) -> None:
        for alert in (
            change.transition.alert for change in changes if change.transition.after is AlertState.FIRING
        ):
            self.fired.append((self.now - BEGIN, alert.rule, alert.labels["severity"], alert.labels))

    def pages(self) -> list[tuple[float, str, str, Mapping[str, str]]]:
        """What fired as warning or critical."""
        return [item for item in self.fired if item[2] in PAGING]

    def pass_time(self, seconds: float, deploys: bool = True) -> None:
        """Advance by whole steps."""
        for _ in range(round(seconds / self.step)):
            self.now += self.step
            if deploys:
                self._deploy()
            for query in self.queries:
                query.advance(self.now)
            self._sample()
            self._evaluation.tick(self.now)

    def _deploy(self) -> None:
        """Each application is deployed about once a day: away for up to a minute and a half."""
        for number in range(-(-len(self.queries) // 5)):
            own = self.queries[5 * number : 5 * number + 5]
            back = self._returns.get(number)
            if back is None and self._dice.random() < self.step / DAY:
                self._returns[number] = self.now + self._dice.uniform(15, 90)
                for query in own:
                    query.stop(self.now)
            elif back is not None and self.now >= back:
                del self._returns[number]
                agent = self._agent(number, own[0].runs, self.now)
                for query in own:
                    query.start(self.now, agent)

    def _sample(self) -> None:
        views = [query.view(self.now) for query in self.queries]
        verdicts = self._verdicts.all(views, self.now)
        sets, names = self._grid.label_sets, self._grid.names
        numbers, values = self._sampler.sample(views, verdicts, self.now, names, sets)
        others = [*self._of_agents(views), *self._baselines(views)]
        own = [sets.number({METRIC_NAME: name, **labels}) for name, labels, _ in others if name in names]
        more = [value for name, _, value in others if name in names]
        self._grid.put_numbers(
            self.now,
            np.concatenate([numbers, np.array(own, np.int64)]),
            np.concatenate([values, np.array(more)]),
        )

    def _of_agents(self, views: Sequence[QueryView]) -> Iterator[tuple[str, Mapping[str, str], float]]:
        agents = {view.agent.agent: view.agent for view in views if view.agent}.values()
        heartbeat: dict[str, Any] = {"executors": 2, "driver": {"heapUsed": 5e8, "heapMax": 1e9}}
        for found in agent_samples(agents, lambda agent: heartbeat):
            yield found.metric.name, found.labels, found.value

    def _baselines(self, views: Sequence[QueryView]) -> Iterator[tuple[str, Mapping[str, str], float]]:
        """The median of past weeks: the wave of the day without its bursts."""
        hour = BEGIN + (self.now - BEGIN) % DAY // HOUR * HOUR
        if hour != self._hour:
            self._hour, self._medians = hour, [query.stream.median_rate(hour) for query in self.queries]
        for view, median in zip(views, self._medians, strict=True):
            labels = {**view.labels, "app": view.app, "query": view.name or "", "query_id": view.query_id}
            yield "spark_streaming_baseline_input_rows_per_second", {**labels, "quantile": "0.5"}, median


def healthy(queries: int, days: float, seed: int, step: float = 15.0) -> Simulation:
    """A healthy fleet after so many days."""
    simulation = Simulation([healthy_stream(n, seed, days) for n in range(queries)], seed, step)
    simulation.pass_time(days * DAY)
    return simulation


# -- the gallery of troubles ---------------------------------------------------------------------------


def _stream(**changes: Any) -> Stream:
    return replace(Stream(0, "steady", random.Random(7)), **changes)


def _hangs(query: SimulatedQuery) -> None:
    query.hangs_at = BEGIN + HOUR


def _fails(query: SimulatedQuery) -> None:
    query.fails_at = BEGIN + HOUR


def _rewinds(query: SimulatedQuery) -> None:
    query.rewinds_at = BEGIN + HOUR


def _loses_reports(query: SimulatedQuery) -> None:
    query.loses_at = BEGIN + HOUR


def _starts_again(query: SimulatedQuery) -> None:
    query.restarts_at = BEGIN + HOUR


def _nothing(query: SimulatedQuery) -> None:
    pass


@dataclass(frozen=True)
class Trouble:
    """A query with one trouble, and the alert that names it. `begin`: what happens to the query later."""

    alert: str
    stream: Stream
    begin: Callable[[SimulatedQuery], None] = _nothing


_STATE: Mapping[str, Any] = {"stateful": True, "late_share": 0.001}
_BACKLOG: Mapping[str, Any] = {"limit": 3000.0, "capacity": 20.0, "fixed": 5.0}
#: State that is never removed is seen after two hours and a half.
GALLERY_SECONDS = 3.5 * HOUR
TROUBLES: Mapping[str, Trouble] = {
    "a batch hangs": Trouble("Stuck", _stream(), begin=_hangs),
    "a query fails": Trouble("QueryFailed", _stream(), begin=_fails),
    "less is read than arrives": Trouble("LagGrowing", _stream(limit=500.0)),
    "the backlog is old": Trouble("LagSecondsHigh", _stream(limit=500.0)),
    "more arrives than the query can process": Trouble("CapacityExceeded", _stream(**_BACKLOG)),
    "batches overrun their trigger": Trouble("Overrun", _stream(fixed=40.0, capacity=10_000.0)),
    "the producer stops": Trouble("InputDropped", _stream(stopped_producer=BEGIN + HOUR)),
    "the watermark stands still": Trouble("WatermarkStuck", _stream(**_STATE, watermark_stops=BEGIN + HOUR)),
    "state is never removed": Trouble(
        "StateGrowthWithoutEviction", _stream(stateful=True, evicts=False, delay=None)
    ),
    "state nears its limit": Trouble(
        "StateLimitNear",
        _stream(stateful=True, evicts=False, delay=None, labels={"state_limit_rows": "2000000"}),
    ),
    "reports are lost": Trouble("BatchesUnreported", _stream(), begin=_loses_reports),
    "rows come too late": Trouble("LateRowsDropped", _stream(stateful=True, late_share=0.2)),
    "the retention comes near": Trouble("RetentionRisk", _stream(limit=500.0, labels={"retention": "1h"})),
    "one partition holds the backlog": Trouble("PartitionSkew", _stream(limit=500.0, skewed=True)),
    "snapshots are not uploaded": Trouble("SnapshotUploadLag", _stream(**_STATE, snapshots=False)),
    "state commits dominate": Trouble("StateCommitSlow", _stream(**_STATE, commit_share=0.7)),
    "the checkpoint storage is slow": Trouble(
        "CheckpointWriteSlow", _stream(fixed=10.0, slow_phases={"walCommit": 3.0, "commitOffsets": 2.0})
    ),
    "RocksDB stalls": Trouble(
        "RocksDBStalled", _stream(**_STATE, custom={"rocksdbWriterStallLatencyMs": 3000.0})
    ),
    "rows come an hour late": Trouble("WatermarkLag", _stream(**_STATE, late_producer=BEGIN + HOUR)),
    "the topic is created anew": Trouble("Rewind", _stream(), begin=_rewinds),
    "a start does not end": Trouble("SlowStart", _stream(), begin=_starts_again),
    "a query has no name": Trouble("UnnamedQuery", _stream(name=None)),
    "a query has a temporary checkpoint": Trouble(
        "TemporaryCheckpoint",
        _stream(facts=RunFacts("processing_time", 30.0, checkpoint_is_temporary=True, sink="KafkaSink")),
    ),
    "batches leave little room": Trouble("TuningAdvice", _stream(fixed=24.0, capacity=10_000.0)),
}


def found_troubles(step: float = 60.0) -> dict[str, set[str]]:
    """The alerts of each trouble, in one fleet of a query with each."""
    streams = [
        replace(item.stream, number=number, dice=random.Random(number))
        for number, item in enumerate(TROUBLES.values())
    ]
    simulation = Simulation(streams, 7, step)
    for query, item in zip(simulation.queries, TROUBLES.values(), strict=True):
        item.begin(query)
    simulation.pass_time(GALLERY_SECONDS, deploys=False)
    found: dict[str, set[str]] = {name: set() for name in TROUBLES}
    for _, alert, _, labels in simulation.fired:
        found[list(TROUBLES)[int(labels["query_id"], 16)]].add(alert)
    return found
