"""Cost of the shipped rules for a fleet: one scrape, one evaluation, and memory.

A fleet of simulated queries, each reading eight partitions of a topic, every third with state; the window of each
is full. The grid is put full by scrapes at times that go on, as the server does; queries move on between them, and
what they cost apart. The fastest of several tries counts.

    python bench/rules.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from alerts.engine import evaluate_group  # noqa: E402
from alerts.rules.loader import load  # noqa: E402
from alerts.rules.pack import render  # noqa: E402
from controlplane.events.progress import Numbers  # noqa: E402
from controlplane.health.verdicts import VerdictLog  # noqa: E402
from controlplane.metrics.series import selection  # noqa: E402
from controlplane.metrics.series.grid import Grid, NamedSample  # noqa: E402
from controlplane.metrics.series.scrape import ServerMetrics, all_samples  # noqa: E402
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
            RunFacts("processing_time", 10.0, "/checkpoint", sink="delta"),
            tuple(reports),
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
            reports = (replace(item, at=item.at + seconds) for item in view.progress[-2:])
            later = replace(view, progress=(*view.progress[2:], *reports))
            assert later.status is not None and later.agent is not None
            status = replace(later.status, at=later.status.at + seconds)
            agent = replace(later.agent, last_seen_at=later.agent.last_seen_at + seconds)
            self.views[place] = replace(later, status=status, agent=agent)

    def totals(self, query_id: str) -> Mapping[str, float]:
        names = (*COUNTED, *OF_STATE) if int(query_id, 16) % 3 == 0 else COUNTED
        return dict.fromkeys(names, 1000.0)

    def judged(
        self, verdicts: Mapping[str, Any], now: float, wanted: frozenset[str] | None
    ) -> Iterator[NamedSample]:
        own = ServerMetrics()
        found = all_samples(self.views, verdicts, self.agents, self.totals, lambda _: {}, own, now, wanted)
        return ((item.metric.name, item.labels, float(item.value)) for item in found)


def timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def measure(queries: int, scrapes: int, tries: int) -> dict[str, float]:
    groups, mistakes = load(render(), "streaming.yaml")
    assert not mistakes
    fleet = Fleet(queries)
    grid = Grid(selection.retention_for(groups, STEP).seconds, STEP)
    judging, computing, putting, at = [], [], [], NOW
    for _ in range(scrapes):
        verdicts: dict[str, Any] = {}
        samples: list[NamedSample] = []
        judging.append(timed(lambda: verdicts.update(VerdictLog().all(fleet.views, at))))  # noqa: B023
        computing.append(timed(lambda: samples.extend(fleet.judged(verdicts, at, grid.names))))  # noqa: B023
        putting.append(timed(lambda: grid.put(at, samples)))  # noqa: B023
        at += STEP
        fleet.move(STEP)
    last = at - STEP
    evaluating = [timed(lambda: [evaluate_group(g, grid, (), last) for g in groups]) for _ in range(tries)]
    everything = timed(lambda: list(fleet.judged(verdicts, last, None)))
    slots = grid.bytes / max(1, grid.series_count) / 8
    return {
        "queries": queries,
        "rules": sum(len(group.rules) for group in groups),
        "series": grid.series_count,
        "judge_all_seconds": min(judging),
        "readings_seconds": min(computing),
        "put_seconds": min(putting),
        "scrape_seconds": min(map(sum, zip(computing, putting, strict=True))),
        "first_put_seconds": putting[0],
        "pack_seconds": min(evaluating),
        "every_metric_seconds": everything,
        "grid_megabytes": grid.bytes / 1e6,
        "slots_of_a_series": slots,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the fleet, few tries")
    quick = parser.parse_args().quick
    figures = measure(*((100, 8, 2) if quick else (1000, 6, 5)))
    rounded = {name: round(value, 4) for name, value in figures.items()}
    machine = {"cpus": os.cpu_count(), "python": platform.python_version()}
    print(json.dumps({"bench": "rules", "machine": machine, "figures": rounded}))


if __name__ == "__main__":
    main()
