"""Series to ask questions about: counters with resets, gauges with NaN and infinities, gaps, buckets.

Samples come about every 15 s, each series a little off the whole second, so that none lies on an edge.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from alerts.promql.series import Floats, Series

BEGIN = 1_700_000_000
LENGTH = 3600


def specimens(seed: int = 7) -> list[Series]:
    return list(_all(np.random.default_rng(seed)))


def _all(random: np.random.Generator) -> Iterator[Series]:
    for number, (job, instance) in enumerate(itertools.product(("api", "db"), ("a:1", "b:1", "c:2"))):
        labels = {"job": job, "instance": instance}
        times = _times(number)
        yield Series({"__name__": "requests_total", **labels}, times, _counter(random, len(times), number))
        yield Series({"__name__": "errors_total", **labels}, times, _counter(random, len(times), 0) / 10)
        yield Series({"__name__": "load", **labels}, times, random.normal(0, 10, len(times)).round(3))
        yield from _gappy(random, labels, times, number)
        yield Series({"__name__": "info", **labels, "version": f"v{number % 2}"}, times, np.ones(len(times)))
    yield from _odd(random)
    yield from _buckets(random)


def _times(number: int, step: float = 15.0) -> Floats:
    return BEGIN + np.arange(0, LENGTH, step) + 0.137 * (number + 1)


def _counter(random: np.random.Generator, length: int, resets: int) -> Floats:
    """Rises by up to 5 a sample and falls to 0 at some."""
    steps = random.integers(0, 6, length).astype(float)
    values = 1000 + np.cumsum(steps)
    for at in random.choice(np.arange(1, length), resets, replace=False):
        values[at:] -= values[at] - steps[at]
    return np.maximum(values, 0)


def _gappy(
    random: np.random.Generator, labels: dict[str, str], times: Floats, number: int
) -> Iterator[Series]:
    kept = random.random(len(times)) > 0.2 * number
    kept[60 : 60 + 10 * number] = False
    values = random.integers(-3, 4, len(times)).astype(float)
    yield Series({"__name__": "queue", **labels}, times[kept], values[kept])


def _odd(random: np.random.Generator) -> Iterator[Series]:
    times = _times(9)
    for name, odd in (("nan", np.nan), ("inf", np.inf), ("minus", -np.inf)):
        values = random.normal(5, 3, len(times))
        values[random.random(len(times)) < 0.3] = odd
        yield Series({"__name__": "odd", "kind": name}, times, values)
    yield Series({"__name__": "odd", "kind": "level"}, times, np.full(len(times), 4.0))
    yield Series({"__name__": "lone", "kind": "once"}, times[100:101], np.array([3.0]))
    yield Series({"__name__": "clock"}, times, times)


def _buckets(random: np.random.Generator) -> Iterator[Series]:
    times = _times(11)
    for job in ("api", "db"):
        counts = np.cumsum(random.integers(0, 4, (5, len(times))), axis=1)
        for bound, values in zip(("0.1", "0.5", "1", "5", "+Inf"), np.cumsum(counts, axis=0), strict=True):
            labels = {"__name__": "latency_bucket", "job": job, "le": bound}
            yield Series(labels, times, 1000.0 + values)
