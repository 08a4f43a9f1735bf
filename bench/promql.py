"""Evaluation time of PromQL expressions: this engine beside Prometheus over the same series.

A fleet of streaming queries with some series each, a sample every 15 s. Each expression is asked at one moment, as
rules are, and over an hour in steps of 15 s, as charts are. Of Prometheus the time is taken that it states itself
for the execution (no HTTP, no JSON); of ours the whole evaluation of a parsed expression, and parsing apart.
The fastest of several tries counts. Without Prometheus there are figures and no ratios.

    python bench/promql.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from alerts.matching.labels import Matcher  # noqa: E402
from alerts.promql.evaluator import evaluate, evaluate_range  # noqa: E402
from alerts.promql.series import METRIC_NAME, Series  # noqa: E402
from alerts.promql.syntax.parser import parse  # noqa: E402
from tests.unit.alerts.promql.peer import peer_over  # noqa: E402

BEGIN, STEP = 1_700_000_000.0, 15.0
HOURS = 1.5
END = BEGIN + HOURS * 3600 - 8
COUNTERS = ("input_rows_total", "batches_total")
GAUGES = ("lag_rows", "state_rows", "batch_duration_seconds", "trigger_interval_seconds")
EXPRESSIONS = {
    "selector": "lag_rows",
    "filter": "lag_rows > 1e9",
    "rate": "rate(input_rows_total[5m])",
    "sum_rate": "sum by (team) (rate(input_rows_total[5m]))",
    "growing": "min_over_time(lag_rows[10m]) > 100 and deriv(lag_rows[10m]) > 0",
    "ratio": "avg_over_time(batch_duration_seconds[10m]) / trigger_interval_seconds > 0.9",
    "predict": "predict_linear(state_rows[30m], 3600) > 1e6",
    "quantile": "quantile_over_time(0.9, batch_duration_seconds[10m])",
    "changes": "changes(batches_total[10m]) == 0 unless on (query_id) lag_rows == 0",
    "group_left": "lag_rows * on (team) group_left () count by (team) (state_rows)",
    "topk": "topk(10, lag_rows)",
    "subquery": "max_over_time(rate(input_rows_total[1m])[30m:1m])",
}


class Fleet:
    """The series of so many queries, found by their metric's name as the window of the server finds them."""

    def __init__(self, queries: int):
        random = np.random.default_rng(20261120)
        times = np.arange(BEGIN, BEGIN + HOURS * 3600, STEP) + 0.123
        self.series: dict[str, list[Series]] = {name: [] for name in (*COUNTERS, *GAUGES)}
        for number in range(queries):
            labels = {"app": f"app-{number % 40}", "query": f"query-{number}", "query_id": f"{number:032x}"}
            labels |= {"team": f"team-{number % 7}", "env": "prod"}
            for name in self.series:
                values = random.integers(0, 1000, len(times)).astype(float)
                values = np.cumsum(values) if name in COUNTERS else values
                self.series[name].append(Series({METRIC_NAME: name, **labels}, times, values))

    def all(self) -> Iterator[Series]:
        for held in self.series.values():
            yield from held

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        name = next(matcher.value for matcher in matchers if matcher.name == METRIC_NAME)
        held = self.series[name]
        first, last = np.searchsorted(held[0].times, [start, end], side="right")
        return [Series(item.labels, item.times[first:last], item.values[first:last]) for item in held]


def fastest(act: Callable[[], float], tries: int) -> float:
    return min(act() for _ in range(tries))


def timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def ours(fleet: Fleet, tries: int) -> dict[str, float]:
    figures = {}
    for name, text in EXPRESSIONS.items():
        node = parse(text)
        figures[f"{name}_ours_ms"] = fastest(lambda: timed(lambda: evaluate(node, fleet, END)), tries)  # noqa: B023
        ranged = fastest(
            lambda: timed(lambda: evaluate_range(node, fleet, END - 3600, END, STEP)),  # noqa: B023
            max(2, tries // 3),
        )
        figures[f"{name}_range_ours_ms"] = ranged
        figures[f"{name}_parse_ms"] = fastest(lambda: timed(lambda: parse(text)), tries)  # noqa: B023
    return {key: value * 1000 for key, value in figures.items()}


def theirs(fleet: Fleet, tries: int) -> dict[str, float]:
    """What Prometheus states as its time of execution."""

    def stated(data: dict[str, dict[str, dict[str, float]]]) -> float:
        return data["stats"]["timings"]["execTotalTime"] * 1000

    figures = {}
    with tempfile.TemporaryDirectory() as folder, peer_over(list(fleet.all()), Path(folder)) as peer:
        for name, text in EXPRESSIONS.items():
            at = lambda: stated(peer.query(text, END, stats="true"))  # noqa: E731, B023
            over = lambda: stated(peer.query_range(text, END - 3600, END, STEP, stats="true"))  # noqa: E731, B023
            figures[f"{name}_peer_ms"] = fastest(at, tries)
            figures[f"{name}_range_peer_ms"] = fastest(over, max(2, tries // 3))
    return figures


def ratios(figures: dict[str, float]) -> dict[str, dict[str, float]]:
    names = [f"{name}{kind}" for name in EXPRESSIONS for kind in ("", "_range")]
    found = {name: figures[f"{name}_peer_ms"] / figures[f"{name}_ours_ms"] for name in names}
    return {"peer_over_ours_seconds": {name: round(value, 3) for name, value in found.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="under a minute")
    quick = parser.parse_args().quick
    queries, tries = (100, 3) if quick else (500, 9)
    fleet = Fleet(queries)
    figures = ours(fleet, tries)
    has_peer = bool(shutil.which("prometheus") and shutil.which("promtool"))
    if has_peer:
        figures |= theirs(fleet, tries)
    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "numpy": np.__version__}
    document = {
        "bench": "promql",
        "machine": machine,
        "figures": {"queries": queries, **{key: round(value, 3) for key, value in figures.items()}},
        "ratios": ratios(figures) if has_peer else {},
    }
    print(json.dumps(document))


if __name__ == "__main__":
    main()
