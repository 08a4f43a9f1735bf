"""Load and headroom from batches of known cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.capacity.throughput import MIN_BATCHES, Throughput, recent, throughput, unmeasured
from controlplane.health.context import QueryContext, context_at
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import ProgressSample, QueryView, RunFacts
from tests.unit.controlplane.situations import NOW, agent, batches, ended, run, sample, source, view

EVERY = 10.0


def costing(
    sizes: list[float], fixed: float = 1.0, each: float = 0.001, backlog: float = 0.0
) -> tuple[ProgressSample, ...]:
    """Batches of these sizes, one every 10 s, that take `fixed` seconds and `each` a row."""
    made, end = [], 0.0
    for number, size in enumerate(sizes):
        start, end = end, end + size
        read = source({"t/0": start}, {"t/0": end}, {"t/0": end + backlog})
        duration = fixed + each * size
        at = NOW - 5 - EVERY * (len(sizes) - 1 - number) + duration
        made.append(sample(number, at, [read], duration=duration))
    return tuple(made)


def of(progress: tuple[ProgressSample, ...], limit=None, **changes) -> Throughput | None:
    context = context_of(view(progress=progress, **changes))
    return throughput(context, recent(context), limit)


def context_of(seen: QueryView) -> QueryContext:
    return context_at(seen, NOW, DEFAULTS)


VARIED = [1000.0, 2000.0, 4000.0, 3000.0, 1500.0, 2500.0] * 3


def test_the_cost_of_a_row_and_of_a_batch_give_the_headroom() -> None:
    """A batch of 9 000 rows takes the whole interval of 10 s: 900 rows a second."""
    found = of(costing(VARIED))
    assert found.capacity == pytest.approx(900)
    assert found.is_lower_bound is False
    assert found.demand_from == "arrival"
    assert found.headroom == pytest.approx(900 - found.demand)
    assert found.busy_ratio == pytest.approx(sum(1 + s / 1000 for s in VARIED[:-1]) / 170, abs=0.01)
    assert "900 rows a second can be sustained" in found.sentence


def test_equal_batches_show_only_a_lower_bound() -> None:
    """2 s for 1 000 rows: it could be 1 s each for the batch and for the rows, and so 900 a second."""
    found = of(costing([1000.0] * 12))
    assert found.capacity == pytest.approx(500)
    assert found.is_lower_bound
    assert "at least 500 rows a second" in found.sentence


def test_nothing_is_claimed_of_batches_much_larger_than_any_that_ran() -> None:
    """The fit alone would promise 99 990 rows in 10 s where at most 40 were read."""
    found = of(costing([10.0, 20.0, 40.0, 30.0] * 4, fixed=0.001, each=0.0001))
    assert found.capacity == pytest.approx(16)
    assert found.is_lower_bound


def test_a_rate_limit_caps_the_headroom() -> None:
    found = of(costing(VARIED), limit=("maxOffsetsPerTrigger", 5000))
    assert found.capacity == pytest.approx(500)
    assert found.limited_by == "maxOffsetsPerTrigger"
    assert found.is_lower_bound is False


def test_a_rate_limit_beyond_what_fits_the_interval_caps_nothing() -> None:
    found = of(costing(VARIED), limit=("maxOffsetsPerTrigger", 50_000))
    assert (found.capacity, found.limited_by) == (pytest.approx(900), None)


def test_batches_longer_than_the_interval_leave_no_headroom() -> None:
    slow = batches([100.0 * i for i in range(12)], every=20.0, rows=100, duration=20.0)
    found = of(slow)
    assert found.busy_ratio == pytest.approx(1.0)
    assert found.capacity == pytest.approx(5)
    assert found.demand == pytest.approx(10)
    assert found.headroom < 0
    assert "fewer than that" in found.sentence


def test_a_query_whose_backlog_grows_while_it_waits_sustains_what_it_reads() -> None:
    """Each batch reads 1 000 rows in 2 s of 10 s and 1 200 arrive: something caps what it reads."""
    progress = batches([200.0 * i for i in range(1, 13)], rows=1000, duration=2.0)
    found = of(progress)
    assert (found.demand, found.capacity) == (pytest.approx(120), pytest.approx(100))
    assert found.is_lower_bound is False
    assert "120 rows a second arrive" in found.sentence
    assert "(no batch reads more, although rows wait): 20 rows a second fewer than that." in found.sentence
    context = context_of(view(progress=progress))
    assert throughput(context, recent(context), as_it_reads=False).capacity == pytest.approx(500)


def test_a_backlog_that_shrinks_states_when_it_is_read() -> None:
    shrinking = batches([1900.0 - 100 * i for i in range(12)], rows=300.0, duration=2.0)
    assert of(shrinking).catch_up == pytest.approx(80.0)
    assert of(batches([0.0] * 12, rows=300.0)).catch_up is None


def test_idle_time_is_not_busy() -> None:
    worked = batches([0.0] * 12, rows=100, every=2.0, last_at=NOW - 300)
    found = of(worked, idle_at=NOW - 10)
    assert found.busy_ratio == pytest.approx(11 / 311, rel=0.15)


def test_rows_that_a_query_reads_twice_count_once() -> None:
    twice = tuple(
        replace(
            s,
            input_rows=2 * s.input_rows,
            sources=tuple(replace(x, input_rows=2 * x.input_rows) for x in s.sources),
        )
        for s in costing(VARIED)
    )
    assert of(twice).capacity == pytest.approx(900)


def test_the_first_batch_of_a_run_does_not_count() -> None:
    seen = view(progress=costing(VARIED), run=run(first_batch_id=0))
    assert recent(context_of(seen))[0].batch_id == 1


LONG_AGO = {"progress": batches([0.0] * 12, last_at=NOW - 500), "status": None}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"progress": costing([100.0] * (MIN_BATCHES - 1))}, "Only 4 batches"),
        ({"run": ended(None)}, "does not run"),
        ({**LONG_AGO, "polls": (NOW - 95, NOW - 1)}, "does not run"),
        ({**LONG_AGO, "agent": agent(last_seen_at=NOW - 500), "polls": ()}, "does not answer"),
        ({"facts": RunFacts(trigger="available_now")}, "ends by itself"),
        ({"facts": RunFacts(trigger="continuous")}, "continuous"),
    ],
    ids=["few", "ended", "disappeared", "silent", "available_now", "continuous"],
)
def test_what_is_not_known_is_not_claimed(changes, reason: str) -> None:
    context = context_of(view(**{"progress": costing(VARIED), **changes}))
    assert reason in unmeasured(context, recent(context))


def test_batches_at_one_moment_show_no_load() -> None:
    at_once = tuple(replace(s, at=NOW - 5, duration=0.0) for s in costing(VARIED))
    assert of(at_once) is None
