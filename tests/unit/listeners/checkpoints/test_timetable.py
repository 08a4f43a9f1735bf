"""When a checkpoint inventory is due; one clock, in seconds."""

from listeners.checkpoints.timetable import MAX_QUERIES, Timetable


def taken(plan, now):
    due = plan.take(now)
    return None if due is None else (due.query_id, due.run_id, due.reason)


def test_start_is_due_after_half_a_minute():
    plan = Timetable()
    plan.started("q", "r1", 0.0)
    assert plan.next_at() == 30.0
    assert taken(plan, 29.9) is None
    assert taken(plan, 30.0) == ("q", "r1", "started")
    assert plan.next_at() is None


def test_batch_or_idle_trigger_makes_it_due_now():
    plan = Timetable()
    plan.started("q", "r1", 0.0)
    plan.progressed("q", "r1", 2.0)
    assert taken(plan, 2.0) == ("q", "r1", "started")
    assert not plan.has_due("q")


def test_event_of_an_earlier_run_changes_nothing():
    plan = Timetable()
    plan.started("q", "r2", 0.0)
    plan.progressed("q", "r1", 2.0)
    assert plan.next_at() == 30.0


def test_two_starts_of_a_query_are_a_minute_apart():
    plan = Timetable()
    plan.started("q", "r1", 0.0)
    plan.progressed("q", "r1", 1.0)
    assert taken(plan, 1.0)
    plan.started("q", "r2", 5.0)
    plan.progressed("q", "r2", 6.0)
    assert plan.next_at() == 61.0


def test_end_is_due_at_once_instead_of_the_start():
    plan = Timetable()
    plan.started("q", "r1", 0.0)
    plan.ended("q", "r1", False, 3.0)
    assert taken(plan, 3.0) == ("q", "r1", "stopped")
    plan.ended("q", "r2", True, 4.0)
    assert taken(plan, 4.0) == ("q", "r2", "failed")


def test_late_end_of_an_earlier_run_does_not_replace_the_newer_start():
    plan = Timetable()
    plan.started("q", "old", 0.0)
    assert taken(plan, 40.0)
    plan.started("q", "new", 200.0)
    plan.ended("q", "old", False, 200.1)
    assert taken(plan, 200.1) is None
    assert taken(plan, 230.0) == ("q", "new", "started")


def test_crash_loop_takes_only_failures_once_a_minute():
    plan, reason = Timetable(), []
    for number in range(10):
        at = number * 10.0
        plan.started("q", f"r{number}", at)
        plan.ended("q", f"r{number}", True, at + 1.0)
        due = plan.take(at + 1.0)
        reason.append(due and due.reason)
    assert reason == ["failed", "failed", None, None, None, None, None, "failed", None, None]
    assert plan.skipped == 15
    plan.ended("q", "r9", False, 300.0)
    assert plan.take(300.0) is None


def test_crash_loop_ends_after_five_minutes():
    plan = Timetable()
    for at in (0.0, 1.0, 2.0):
        plan.started("q", "r", at)
    assert plan.next_at() is None
    plan.started("q", "r9", 400.0)
    assert plan.next_at() == 430.0


def test_earliest_due_is_taken_first():
    plan = Timetable()
    plan.started("a", "r1", 0.0)
    plan.started("b", "r2", 5.0)
    plan.ended("c", "r3", True, 6.0)
    assert [taken(plan, 100.0)[0] for _ in range(3)] == ["c", "a", "b"]


def test_oldest_queries_are_forgotten():
    plan = Timetable()
    for number in range(MAX_QUERIES + 1):
        plan.started(f"q{number}", "r", float(number))
    assert not plan.has_due("q0") and plan.has_due("q1")
