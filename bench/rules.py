"""Cost of rules: 20 rules over the grid beside Prometheus, and the shipped rules over a simulated fleet.

Both evaluate the same expressions over the same series (12 a query, 44 slots) at the same time. CPU is that of this
thread, and of the process of Prometheus; no rule fires, so that its answers are empty. Both take the same samples
(Prometheus by remote write) before they evaluate; memory is what the process has grown by since before the first sample.
The cheapest of several tries counts. Without Prometheus there are figures and no ratios. Each size is measured in a
process of its own; figures without a size in their names are those of the smallest.

The fleet reads eight partitions of a topic a query, every third with state; the window of each is full. Its queries move
on between scrapes.

    python bench/rules.py [--quick] [--queries N …] [--alone]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import cramjam
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from alerts.engine import evaluate_group  # noqa: E402
from alerts.promql.series import METRIC_NAME, Floats  # noqa: E402
from alerts.promql.shared_results import SharedResults  # noqa: E402
from alerts.rules.loader import load  # noqa: E402
from alerts.rules.model import RuleGroup  # noqa: E402
from alerts.rules.pack import render  # noqa: E402
from bench.fleet import cpu_seconds, resident_mb  # noqa: E402
from controlplane.events.progress import Numbers  # noqa: E402
from controlplane.health.verdicts import VerdictLog  # noqa: E402
from controlplane.metrics.remote_write.protocol import HEADERS, WriteRequest, encoded_labels  # noqa: E402
from controlplane.metrics.series import selection  # noqa: E402
from controlplane.metrics.series.grid import Grid  # noqa: E402
from controlplane.metrics.series.sampler import FleetSampler  # noqa: E402
from controlplane.model import (  # noqa: E402
    Agent,
    OperatorSample,
    ProgressSample,
    QueryView,
    Run,
    RunFacts,
    SourceSample,
    StatusSample,
)
from tests.drivers import real_reports  # noqa: E402
from tests.unit.alerts.promql.peer import peer_over  # noqa: E402

NOW, STEP, LENGTH, PARTITIONS = 1_795_150_800.0, 15.0, 120, 8
SOURCE = "KafkaV2[Subscribe[orders]]"
COUNTED = ("batches", "input_rows", "output_rows", "starts", f"source_input_rows|{SOURCE}")
OF_STATE = tuple(
    f"state_rows_{what}|stateStoreSave" for what in ("updated", "removed", "dropped_by_watermark")
)
PHASES = {
    "addBatch": 1500,
    "walCommit": 50,
    "queryPlanning": 20,
    "latestOffset": 10,
    "triggerExecution": 2000,
}


def custom_figures() -> Mapping[str, float]:
    """Those of RocksDB, as a real report of Spark has them."""
    operators = [
        o for r in real_reports() for o in r.get("stateOperators", []) if len(o["customMetrics"]) > 20
    ]
    return Numbers({n: v for n, v in operators[0]["customMetrics"].items() if isinstance(v, int | float)})


class Fleet:
    """So many queries, four in each driver."""

    def __init__(self, queries: int):
        self._random, self._custom = random.Random(20261120), custom_figures()
        self.views = [self._view(number) for number in range(queries)]
        self.agents = list({view.agent.agent: view.agent for view in self.views if view.agent}.values())

    def _view(self, number: int) -> QueryView:
        agent = Agent(number // 4 + 1, f"agent-{number // 4}", f"app-{number // 4}", last_seen_at=NOW - 3)
        query_id, run_id = f"{number:036x}", f"run-{number}"
        labels = {"team": f"team-{number % 7}", "env": "prod"}
        ends = [1000.0 * number] * PARTITIONS
        reports = []
        for batch in range(LENGTH):
            start, ends = ends, [end + self._random.randint(50, 100) for end in ends]
            at = NOW - 5 - (LENGTH - 1 - batch) * 10
            reports.append(self._report(run_id, batch, at, start, ends, stateful=number % 3 == 0))
        return QueryView(
            query_id,
            agent.app,
            f"query-{number}",
            labels,
            NOW - 7000,
            agent,
            Run(number + 1, run_id, query_id, agent.agent, NOW - 7000),
            facts=RunFacts("processing_time", 10.0, "/checkpoint", sink="delta"),
            progress=tuple(reports),
            status=StatusSample(NOW - 3, run_id, "Waiting for next trigger", True, False, 0, 4, NOW - 6),
            polls=(NOW - 3,),
        )

    def _report(
        self, run_id: str, batch: int, at: float, start: list[float], end: list[float], stateful: bool
    ) -> ProgressSample:
        offsets = [
            Numbers({f"orders/{part}": offset for part, offset in enumerate(values)})
            for values in (start, end, [offset + self._random.randint(0, 60) for offset in end])
        ]
        source = SourceSample(SOURCE, *offsets, input_rows=600, metrics={"avgOffsetsBehindLatest": "12.5"})
        state = OperatorSample("stateStoreSave", 1000 + batch, 10, 5, 0, 10_000, 100, 200, self._custom)
        return ProgressSample(
            at=at,
            trigger_at=at - 2,
            run_id=run_id,
            batch_id=batch,
            duration=2.0 + self._random.random(),
            phases_ms=PHASES,
            input_rows=600,
            input_rows_per_second=60.0,
            processed_rows_per_second=300.0,
            sources=(source,),
            operators=(state,) if stateful else (),
            output_rows=10,
        )

    def move(self, seconds: float) -> None:
        """Everything happened so much later."""
        for place, view in enumerate(self.views):
            reports = (self._after(item, *view.progress[-2:], seconds) for item in view.progress[-2:])
            later = replace(view, progress=(*view.progress[2:], *reports))
            assert later.status is not None and later.agent is not None
            status = replace(later.status, at=later.status.at + seconds)
            agent = replace(later.agent, last_seen_at=later.agent.last_seen_at + seconds)
            self.views[place] = replace(later, status=status, agent=agent)

    def _after(
        self, item: ProgressSample, first: ProgressSample, last: ProgressSample, seconds: float
    ) -> ProgressSample:
        """The report once more, two batches later: it begins where the last one ended."""
        begin, end = first.sources[0].start or {}, last.sources[0].end or {}

        def shifted(offsets: Mapping[str, float] | None) -> Numbers:
            return Numbers({part: at + end[part] - begin[part] for part, at in (offsets or {}).items()})

        (source,) = item.sources
        offsets = {name: shifted(getattr(source, name)) for name in ("start", "end", "latest")}
        moved = (replace(source, **offsets),)
        return replace(item, at=item.at + seconds, batch_id=item.batch_id + 2, sources=moved)

    def totals(self, query_id: str) -> Mapping[str, float]:
        names = (*COUNTED, *OF_STATE) if int(query_id, 16) % 3 == 0 else COUNTED
        return dict.fromkeys(names, 1000.0)


def cpu_of(act: Callable[[], object]) -> float:
    """CPU seconds of this thread."""
    began = time.thread_time()
    act()
    return time.thread_time() - began


def shipped(queries: int, scrapes: int, tries: int) -> dict[str, float]:
    """CPU seconds of the shipped rules over a fleet: one slot's samples, one evaluation, memory."""
    groups, mistakes = load(render(), "streaming.yaml")
    assert not mistakes
    fleet = Fleet(queries)
    grid = Grid(selection.retention_for(groups, STEP).seconds, STEP)
    sampler, sampling, putting, at = FleetSampler(fleet.totals), [], [], NOW
    for _ in range(scrapes):
        verdicts, found = VerdictLog().all(fleet.views, at), []
        act = lambda: found.append(sampler.sample(fleet.views, verdicts, at, grid.names, grid.label_sets))  # noqa: E731, B023
        sampling.append(cpu_of(act))
        putting.append(cpu_of(lambda: grid.put_numbers(at, *found[0])))  # noqa: B023
        at += STEP
        fleet.move(STEP)
    evaluating = [cpu_of(evaluation(groups, grid, at - STEP)) for _ in range(tries)]
    return {
        "queries": queries,
        "rules": sum(len(group.rules) for group in groups),
        "series": grid.series_count,
        "sample_cpu_seconds": min(sampling),
        "put_cpu_seconds": min(putting),
        "pack_cpu_seconds": min(evaluating),
        "grid_megabytes": grid.bytes / 1e6,
    }


def evaluation(groups: Sequence[RuleGroup], grid: Grid, at: float) -> Callable[[], object]:
    """Evaluate all groups as the server does."""
    shared = SharedResults(rule.node for group in groups for rule in group.rules)

    def evaluate() -> None:
        shared.begin(grid.label_sets)
        for group in groups:
            result = evaluate_group(group, grid, (), at, shared=shared)
            assert not result.errors, result.errors

    return evaluate


# -- beside Prometheus -----------------------------------------------------------------------------------

GAUGES = ("lag_rows", "lag_seconds", "batch_seconds", "interval_seconds", "state_rows", "memory_bytes", "up")
COUNTERS = ("input_rows_total", "output_rows_total", "batches_total", "starts_total", "failures_total")
RULES = (
    "up == 0",
    "count by (app) (up == 0) > 0",
    "lag_rows > 1e9 and on (app, query) up == 1",
    "max_over_time(lag_rows[5m]) >= max_over_time(lag_rows[5m] offset 5m) and deriv(lag_rows[10m]) > 1e6",
    "avg_over_time(lag_seconds[10m]) > 300 and lag_seconds > 300",
    "avg_over_time(lag_seconds[10m]) > 1200 and lag_seconds > 1200",
    "lag_seconds > 1e6 unless on (app, query) up == 0",
    "quantile_over_time(0.2, batch_seconds[10m]) > interval_seconds * 1e6",
    "2 * avg_over_time(batch_seconds[10m]) > 1e6 unless 2 * avg_over_time(batch_seconds[10m]) <= 2 * interval_seconds",
    "increase(starts_total[10m]) > 1e6 and on (app, query) sum by (app, query) (increase(failures_total[10m])) > 1",
    "rate(input_rows_total[10m]) < on (app, query) group_left () 1e-9 * interval_seconds",
    "sum by (app) (rate(input_rows_total[5m])) == 0",
    "sum by (app) (rate(output_rows_total[5m])) / sum by (app) (rate(input_rows_total[5m])) > 1e6",
    "increase(batches_total[10m]) == 0 and on (app, query) up == 1",
    "changes(batches_total[10m]) == 0",
    "state_rows > 1e9 and deriv(state_rows[10m]) > 0",
    "predict_linear(state_rows[10m], 3600) > 1e12",
    "memory_bytes > 1e12",
    "max by (app) (memory_bytes) > 1e12",
    "min_over_time(up[5m]) == 0 unless on (app, query) up == 1",
)
SLOTS, SERIES_A_REQUEST = 44, 5000


def labels_of(name: str, number: int) -> dict[str, str]:
    return {METRIC_NAME: name, "app": f"app-{number // 50}", "query": f"query-{number}", "env": "prod"}


def columns(queries: int) -> Mapping[str, Floats]:
    """Values of each metric, of the shape (slots, queries), such that no rule fires."""
    random = np.random.default_rng(20261122)
    found = {name: random.integers(10, 200, (SLOTS, queries)).astype(float) for name in GAUGES}
    found["up"][:] = 1.0
    return found | {
        name: np.cumsum(random.integers(1, 50, (SLOTS, queries)), axis=0) * 1.0 for name in COUNTERS
    }


def ours(values: Mapping[str, Floats], tries: int) -> dict[str, float]:
    queries = values["up"].shape[1]
    before = resident_mb(os.getpid())
    text = "".join(f"      - {{alert: R{n}, expr: {json.dumps(rule)}}}\n" for n, rule in enumerate(RULES))
    groups, mistakes = load(f"groups:\n  - name: bench\n    rules:\n{text}", "bench.yaml")
    assert not mistakes
    grid = Grid(selection.retention_for(groups, STEP).seconds, STEP, 10**7)
    numbers = np.array(
        [grid.label_sets.number(labels_of(name, number)) for name in values for number in range(queries)]
    )
    slots = [np.concatenate([held[slot] for held in values.values()]) for slot in range(SLOTS)]
    putting = [
        cpu_of(partial(grid.put_numbers, NOW + slot * STEP, numbers, held)) for slot, held in enumerate(slots)
    ]
    last = NOW + (SLOTS - 1) * STEP
    evaluate = evaluation(groups, grid, last)
    return {
        "compared_series": grid.series_count,
        "ours_first_cpu_seconds": cpu_of(evaluate),
        "ours_cpu_seconds": min(cpu_of(evaluate) for _ in range(tries)),
        "ours_put_cpu_seconds": min(putting),
        "ours_memory_mb": resident_mb(os.getpid()) - before,
    }


def theirs(values: Mapping[str, Floats], tries: int) -> dict[str, float]:
    """CPU of Prometheus for the same expressions at the same time, and the memory of the samples it has taken."""
    last, used = NOW + (SLOTS - 1) * STEP, []
    options = ["--web.enable-remote-write-receiver"]
    with tempfile.TemporaryDirectory() as folder, peer_over([], Path(folder), options=options) as peer:
        before = resident_mb(peer.pid)
        for body in requests(values):
            request = urllib.request.Request(f"{peer.url}/api/v1/write", body, HEADERS)
            with urllib.request.urlopen(request, timeout=60):
                pass
        for _ in range(tries):
            began = cpu_seconds(peer.pid)
            for rule in RULES:
                peer.query(rule, last)
            used.append(cpu_seconds(peer.pid) - began)
        memory = resident_mb(peer.pid) - before
    return {"peer_cpu_seconds": min(used), "peer_memory_mb": memory}


def requests(values: Mapping[str, Floats]) -> Iterator[bytes]:
    """All samples as bodies of remote write, some thousand series each."""
    times = [round(1000 * (NOW + slot * STEP)) for slot in range(SLOTS)]
    for name, held in values.items():
        for first in range(0, held.shape[1], SERIES_A_REQUEST):
            request = WriteRequest()
            for number in range(first, min(first + SERIES_A_REQUEST, held.shape[1])):
                series = request.timeseries.add()
                series.MergeFromString(encoded_labels(labels_of(name, number)))
                for at, value in zip(times, held[:, number].tolist(), strict=True):
                    series.samples.add(value=value, timestamp=at)
            yield bytes(cramjam.snappy.compress_raw(request.SerializeToString()))


def compared(queries: int, tries: int, alone: bool) -> dict[str, float]:
    """Both over so many queries, and their ratios; run in a process of its own."""
    values = columns(queries)
    figures = ours(values, tries)
    if alone or not shutil.which("prometheus"):
        return figures
    figures |= theirs(values, tries)
    figures["peer_over_ours_cpu_seconds"] = figures["peer_cpu_seconds"] / figures["ours_cpu_seconds"]
    figures["peer_over_ours_memory"] = figures["peer_memory_mb"] / figures["ours_memory_mb"]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the fleet, few tries")
    parser.add_argument(
        "--queries", type=int, nargs="+", default=[10_000, 75_000], help="compared, 12 series each"
    )
    parser.add_argument("--alone", action="store_true", help="without Prometheus")
    chosen = parser.parse_args()
    sizes, tries = ([1_000], 2) if chosen.quick else (sorted(chosen.queries), 3)
    figures = shipped(*((100, 8, 2) if chosen.quick else (1000, 6, 5)))
    for queries in sizes:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            found = pool.submit(compared, queries, tries, chosen.alone).result()
        end = "" if queries == sizes[0] else f"_{found['compared_series']:.0f}_series"
        figures |= {f"{name}{end}": value for name, value in found.items()}
    rounded = {name: round(value, 4) for name, value in figures.items()}
    ratios = {name: rounded.pop(name) for name in list(rounded) if name.startswith("peer_over_ours")}
    machine = {"cpus": os.cpu_count(), "python": platform.python_version()}
    print(json.dumps({"bench": "rules", "machine": machine, "figures": rounded, "ratios": ratios}))


if __name__ == "__main__":
    main()
