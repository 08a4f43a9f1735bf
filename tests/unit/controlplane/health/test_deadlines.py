"""A verdict holds until its deadline, at every moment before it, and what is kept equals judging anew."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.driver_model import Outage
from controlplane.health.context import QueryContext, context_at
from controlplane.health.deadlines import next_change, next_wording
from controlplane.health.judge import judge
from controlplane.health.thresholds import DEFAULTS
from controlplane.health.verdicts import FRESH_SECONDS, VerdictLog
from controlplane.model import QueryView
from tests.random_histories import Fault, MemoryServer, random_history
from tests.unit.controlplane.situations import NOW, agent, status, view
from tests.unit.controlplane.wild_views import views_

HISTORIES = [
    *((seed, Fault.NONE, None) for seed in (1, 2, 3, 4)),
    *((20, fault, None) for fault in Fault if fault is not Fault.NONE),
    (7, Fault.HANGS, 0.05),
]


def check_deadlines(context: QueryContext, rng: random.Random) -> None:
    """Nothing changes before the deadlines; they are looked at closely, at once and just before."""
    seen, now, listening = context.view, context.now, context.listening_since
    verdict = judge(seen, now, listening_since=listening)
    status_until, until = next_change(context), next_wording(context, verdict)
    latest = min(status_until, now + 5_000)
    for share in (1e-6, rng.random(), rng.random(), 1 - 1e-9):
        at = now + share * (latest - now)
        if now <= at < status_until:
            assert judge(seen, at, listening_since=listening).status is verdict.status
        if now <= at < until:
            assert judge(seen, at, listening_since=listening) == verdict


@pytest.mark.parametrize(("seed", "fault", "delay"), HISTORIES)
def test_over_a_random_history_the_kept_verdicts_are_those_judged_anew(
    seed: int, fault: Fault, delay: float | None
) -> None:
    history, server, rng = random_history(seed, fault, delay), MemoryServer(), random.Random(seed)
    log, ticked, judged = VerdictLog(views=server.window.view), VerdictLog(views=server.window.view), 0
    requests = history.requests()[:400]
    for request, following in zip(requests, [*requests[1:], None], strict=True):
        server.accept(request)
        later = following.arrives_at if following else request.arrives_at + 2_000
        for now in sorted(rng.uniform(request.arrives_at, later) for _ in range(rng.choice((0, 1, 3)))):
            views = server.window.views()
            changes = ticked.changes(views, now)
            ticked.claim(changes)
            for seen in views:
                exact = server.window.view(seen.query_id)
                assert exact is not None
                verdict, kept = judge(exact, now), log.verdict_of(seen, now)
                assert kept.verdict.status is verdict.status
                assert kept.verdict == verdict or now - kept.at < FRESH_SECONDS
                assert ticked.since(seen.query_id, verdict.status, math.inf) < math.inf
                check_deadlines(context_at(exact, now, DEFAULTS), rng)
                judged += 1
    assert judged > 50


@settings(max_examples=60, deadline=None)
@given(seen=views_, seed=st.integers(0, 9))
def test_no_view_however_odd_changes_before_its_deadline(seen: QueryView, seed: int) -> None:
    check_deadlines(context_at(seen, NOW, DEFAULTS, NOW - 50), random.Random(seed))


def test_a_query_that_keeps_up_is_judged_again_when_it_may_be_lost_or_busy() -> None:
    context = context_at(view(), NOW, DEFAULTS)
    assert NOW < next_change(context) <= NOW + DEFAULTS.silent_seconds
    assert next_wording(context, judge(view(), NOW)) > NOW


def test_a_query_that_keeps_up_is_judged_again_when_its_sentence_names_a_missing_answer() -> None:
    slow = view(agent=agent(outage=Outage("no_answer", NOW - 20)))
    until = next_wording(context_at(slow, NOW, DEFAULTS), judge(slow, NOW))
    assert NOW < until <= NOW + 10
    assert judge(slow, NOW + 9.5) == judge(slow, NOW)
    assert "Spark has not answered" in judge(slow, NOW + 11).reason


def test_a_sentence_with_a_growing_duration_holds_for_now() -> None:
    idle = view(idle_at=NOW - 1, status=status(message="Waiting for data to arrive"))
    verdict = judge(idle, NOW)
    assert "for" in verdict.reason
    assert next_wording(context_at(idle, NOW, DEFAULTS), verdict) == NOW


def test_a_driver_that_has_reported_since_is_not_silent() -> None:
    quiet = view(agent=agent(last_seen_at=NOW - 100), status=None, polls=(), progress=(), first_seen_at=0.0)
    newest = replace(quiet, agent=agent(last_seen_at=NOW - 1))
    log = VerdictLog(views={"q1": newest}.get)
    assert log.verdict_of(quiet, NOW).verdict == judge(newest, NOW)
    assert log.verdict_of(quiet, NOW).verdict != judge(quiet, NOW)
