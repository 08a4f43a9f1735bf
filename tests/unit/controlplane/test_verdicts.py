"""Which status stands since when."""

from __future__ import annotations

from controlplane.health import judge
from controlplane.verdicts import VerdictLog, judge_all
from tests.unit.controlplane.control.views import NOW, view


def test_a_verdict_is_recorded_once_and_stands_since_then() -> None:
    log, seen = VerdictLog(), view()
    changes = log.changes([seen], NOW)
    assert [(c.query_id, c.at) for c in changes] == [("q1", NOW)]
    log.recorded(changes)
    assert log.changes([seen], NOW + 1) == []
    assert log.since("q1", changes[0].status, NOW + 1) == NOW


def test_a_status_newer_than_the_record_stands_since_now() -> None:
    log = VerdictLog()
    assert log.since("q1", judge(view(), NOW).status, NOW) == NOW


def test_what_the_store_knows_is_not_recorded_again() -> None:
    first = VerdictLog()
    changes = first.changes([view()], NOW)
    second = VerdictLog()
    second.load(changes)
    assert second.changes([view()], NOW + 1) == []


def test_all_are_judged_by_id() -> None:
    assert set(judge_all([view()], NOW)) == {"q1"}
