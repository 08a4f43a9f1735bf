"""No healthy query is called lost, stuck or failed, however slow its machine is; and what is broken is reported in time.

Each history is random, and each seed gives the same one: a failure names the seed.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator

import pytest

from controlplane.health.polls import PERIOD_SECONDS
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import QueryStatus, Verdict
from tests.random_histories import (
    MAX_DELIVERY_SECONDS,
    POLL_SECONDS,
    Fault,
    History,
    MemoryServer,
    random_history,
)

BROKEN = {QueryStatus.LOST, QueryStatus.STUCK, QueryStatus.FAILED, QueryStatus.UNREACHABLE}
OVER = {QueryStatus.STOPPED, QueryStatus.FINISHED, QueryStatus.RETIRED}
#: Spark reports an event up to a minute late, and then it is delivered.
SETTLED_SECONDS = 60.0 + MAX_DELIVERY_SECONDS


def verdicts(
    history: History, server: MemoryServer, until: float, restarts: Iterable[float] = ()
) -> Iterator[tuple[float, dict[str, Verdict]]]:
    """(time, verdicts) before and after requests arrive, at random times, and at `until`."""
    rng = random.Random(history.pace.rng.random())
    pending = sorted(
        [(request.arrives_at, request) for request in history.requests() if request.arrives_at < until]
        + [(rng.uniform(history.drivers[0].began, until), None) for _ in range(10)]
        + [(at, "restart") for at in restarts if at < until]
        + [(until, None)],
        key=lambda item: item[0],
    )
    for at, event in pending:
        if rng.random() < 0.3 or event is None:
            yield at, server.verdicts(at)
        if event == "restart":
            server.restart(at)
        elif event is not None:
            server.accept(event)
            if rng.random() < 0.1:
                yield at, server.verdicts(at)


def forbidden(history: History, query_id: str, now: float) -> set[QueryStatus]:
    """What a healthy query must not be called."""
    return BROKEN | OVER if runs(history, query_id, now) else BROKEN


def runs(history: History, query_id: str, now: float) -> bool:
    """Whether a query runs, and has run for so long that the server must know it."""
    settled = history.away[1] > now or now - history.away[1] > SETTLED_SECONDS
    found = history.runs_of(query_id)
    return settled and any(run.started < now - SETTLED_SECONDS and now < run.ended for run in found)


def false_verdicts(seed: int, max_delay: float | None = None) -> list[str]:
    """What is false about a history without a fault: verdicts, running queries that are not in the fleet, and failures in
    the totals of a query."""
    history, server = random_history(seed, max_delay=max_delay), MemoryServer()
    sudden = history.pace.rng.uniform(history.drivers[0].began, history.until)
    found_at = verdicts(history, server, history.until, (history.away[1], sudden))
    return [
        f"seed {seed}, {at - history.drivers[0].began:.0f} s, {query_id}: {verdict.reason}"
        for at, found in found_at
        if not history.away[0] <= at <= history.away[1]
        for fleet in [server.fleet(at)]
        for query_id, verdict in found.items()
        if verdict.status in forbidden(history, query_id, at)
        or (query_id not in fleet and runs(history, query_id, at))
    ] + [
        f"seed {seed}, {view.query_id}: {total}"
        for view in server.window.views()
        for total in server.window.totals(view.query_id)
        if total.startswith("failures|")
    ]


def test_no_healthy_query_is_called_lost_stuck_or_failed() -> None:
    assert [false for seed in range(60) for false in false_verdicts(seed)] == []


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1_000, 11_000, 1_000))
def test_no_healthy_query_of_ten_thousand_histories_is_called_lost_stuck_or_failed(first: int) -> None:
    assert [false for seed in range(first, first + 1_000) for false in false_verdicts(seed)] == []


# -- what is broken is reported --------------------------------------------------------------------


def deadline(history: History) -> float:
    """When the fault of a history must have been reported.

    A poll is one list and two answers for each query; every answer, report and request may take `max_delay`.
    """
    delay = min(60.0, history.pace.max_delay)
    poll = POLL_SECONDS + delay * (1 + 2 * len({run.query_id for run in history.drivers[-1].runs}))
    delivery = min(MAX_DELIVERY_SECONDS, 15.0 + delay)
    match history.fault:
        case Fault.DISAPPEARS:
            return history.fault_at + 2 * poll + DEFAULTS.vanished_seconds + PERIOD_SECONDS + delivery
        case Fault.DIES:
            return history.fault_at + delivery + DEFAULTS.silent_seconds
        case Fault.HANGS:
            run = history.runs_of(history.query)[-1]
            parts = [part for each in history.runs_of(history.query) for part in each.parts]
            longest = max((p.ended - p.began for p in parts if p.ended < math.inf), default=0.0)
            limit = max(DEFAULTS.stuck_seconds, 5 * run.interval, DEFAULTS.batch_durations * longest)
            quiet = run.hangs_at + run.task_seconds + DEFAULTS.quiet_tasks_seconds + 2 * poll
            return max(history.fault_at + limit, quiet) + poll + delivery
        case _:
            return history.fault_at + delay + delivery


STATUS_OF = {
    Fault.DISAPPEARS: QueryStatus.LOST,
    Fault.DIES: QueryStatus.LOST,
    Fault.FAILS: QueryStatus.FAILED,
    Fault.HANGS: QueryStatus.STUCK,
}


def knows_run(server: MemoryServer, run_id: str) -> bool:
    return any(view.run is not None and view.run.run_id == run_id for view in server.window.views())


def missed_fault(seed: int, fault: Fault, max_delay: float | None = None) -> list[str]:
    """The last verdict on the query with the fault, unless the fault was reported in time."""
    history, server = random_history(seed, fault, max_delay), MemoryServer()
    until = deadline(history)
    # A driver beside it may send for longer.
    last = [found.get(history.query) for at, found in verdicts(history, server, until) if at <= until][-1]
    if fault is Fault.DIES and not knows_run(server, history.runs_of(history.query)[-1].run_id):
        return []  # the driver was killed before it could report the run
    if last is not None and last.status is STATUS_OF[fault]:
        return []
    late = until - history.fault_at
    return [f"seed {seed}: {late:.0f} s after the fault: {last and last.reason}"]


@pytest.mark.parametrize("fault", [Fault.DISAPPEARS, Fault.DIES, Fault.FAILS])
def test_a_fault_is_reported_in_time_however_slow_the_machine_is(fault: Fault) -> None:
    assert [missed for seed in range(6) for missed in missed_fault(seed, fault)] == []


def test_a_hanging_batch_is_reported_in_time() -> None:
    """On a machine so slow that statuses are minutes old, whether tasks finish is unknown."""
    assert [missed for seed in range(5) for missed in missed_fault(seed, Fault.HANGS, max_delay=3.0)] == []


@pytest.mark.parametrize(
    "histories", [pytest.param(100, marks=pytest.mark.long), pytest.param(500, marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("fault", [Fault.DISAPPEARS, Fault.DIES, Fault.FAILS, Fault.HANGS])
def test_every_fault_of_many_histories_is_reported_in_time(fault: Fault, histories: int) -> None:
    max_delay = 3.0 if fault is Fault.HANGS else None
    seeds = range(1_000, 1_000 + histories)
    assert [missed for seed in seeds for missed in missed_fault(seed, fault, max_delay)] == []


def test_a_fault_on_a_normal_machine_is_reported_within_two_minutes() -> None:
    bounds = {
        fault: max(
            deadline(history) - history.fault_at
            for history in (random_history(seed, fault, max_delay=0.05) for seed in range(12))
        )
        for fault in (Fault.DISAPPEARS, Fault.DIES, Fault.FAILS)
    }
    assert max(bounds.values()) < 122, bounds
