"""Which status stands since when, and how often it is judged."""

from __future__ import annotations

from dataclasses import replace

from controlplane.driver_model import Outage
from controlplane.health.judge import judge
from controlplane.health.listening import ListeningTime
from controlplane.health.verdicts import FRESH_SECONDS, VerdictLog
from controlplane.model import QueryStatus
from tests.unit.controlplane.actions.views import NOW, view


def test_a_verdict_is_recorded_once_and_stands_since_then() -> None:
    log, seen = VerdictLog(), view()
    changes = log.changes([seen], NOW)
    assert [(c.query_id, c.at) for c in changes] == [("q1", NOW)]
    log.load(changes)
    assert log.changes([seen], NOW + 1) == []
    assert log.since("q1", changes[0].status, NOW + 1) == NOW


def test_a_status_newer_than_the_record_stands_since_now() -> None:
    log = VerdictLog()
    assert log.since("q1", judge(view(), NOW).status, NOW) == NOW


def test_unreachable_query_is_so_since_spark_last_answered() -> None:
    log, seen = VerdictLog(), view()
    log.load(log.changes([seen], NOW - 100))
    assert seen.agent is not None
    away = replace(seen, agent=replace(seen.agent, outage=Outage("server_away", NOW - 20)))
    (change,) = log.changes([away], NOW)
    assert (change.status, change.at) == (QueryStatus.UNREACHABLE, NOW - 20)


def test_what_the_store_knows_is_not_recorded_again() -> None:
    first = VerdictLog()
    changes = first.changes([view()], NOW)
    second = VerdictLog()
    second.load(changes)
    assert second.changes([view()], NOW + 1) == []


def test_a_query_that_keeps_up_is_judged_once_until_its_deadline() -> None:
    log, seen = VerdictLog(), view()
    first = log.verdict_of(seen, NOW)
    assert log.verdict_of(seen, first.until - 0.1) is first
    assert log.judged == 1
    assert log.verdict_of(seen, first.until) is not first


def test_an_unchanged_query_is_judged_once_for_all_who_look() -> None:
    log, seen = VerdictLog(), view(idle_at=NOW - 1)
    first = log.verdict_of(seen, NOW)
    assert first.verdict.status is QueryStatus.IDLE
    assert log.verdict_of(seen, NOW + FRESH_SECONDS / 2) is first
    assert log.verdict_of(seen, NOW + FRESH_SECONDS) is not first


def test_a_changed_query_and_a_clock_set_back_are_judged_anew() -> None:
    log, seen = VerdictLog(), view()
    first = log.verdict_of(seen, NOW)
    assert log.verdict_of(replace(seen, name="renamed"), NOW) is not first
    assert log.verdict_of(seen, NOW - 1).at == NOW - 1


def test_a_lost_query_stays_lost_over_a_restart_of_the_server() -> None:
    quiet = view()
    before = VerdictLog()
    lost = before.changes([quiet], NOW + 1_000)
    assert [change.status for change in lost] == [QueryStatus.LOST]
    after = VerdictLog(ListeningTime(NOW + 1_010))
    assert after.verdict_of(quiet, NOW + 1_011).verdict.status is not QueryStatus.LOST
    after.load(lost)
    assert after.verdict_of(quiet, NOW + 1_020).verdict.status is QueryStatus.LOST


def test_no_query_is_lost_because_the_server_itself_was_paused() -> None:
    """The first verdict after SIGCONT comes before the requests that wait in the sockets."""
    wall = [0.0]
    log, quiet = VerdictLog(ListeningTime(wall=lambda: wall[0])), view()

    def status_at(seconds: float) -> QueryStatus:
        wall[0] = seconds
        return log.verdict_of(quiet, NOW + seconds).verdict.status

    assert status_at(0) is not QueryStatus.LOST
    assert status_at(130) is not QueryStatus.LOST
    assert {status_at(130 + tick) for tick in range(5, 90, 5)}.isdisjoint({QueryStatus.LOST})
    assert status_at(225) is QueryStatus.LOST
