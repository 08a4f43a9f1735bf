"""When a checkpoint inventory is due; one clock, in seconds."""

from listeners.checkpoints.timetable import MAX_QUERIES, Timetable


def taken(timetable, now):
    due = timetable.take(now)
    return None if due is None else (due.query_id, due.run_id, due.reason)


def test_start_is_due_after_half_a_minute():
    timetable = Timetable()
    timetable.started("q", "r1", 0.0)
    assert timetable.next_at() == 30.0
    assert taken(timetable, 29.9) is None
    assert taken(timetable, 30.0) == ("q", "r1", "started")
    assert timetable.next_at() is None


def test_batch_or_idle_trigger_makes_it_due_now():
    timetable = Timetable()
    timetable.started("q", "r1", 0.0)
    timetable.progressed("q", "r1", 2.0)
    assert taken(timetable, 2.0) == ("q", "r1", "started")
    assert not timetable.has_due("q")


def test_event_of_an_earlier_run_changes_nothing():
    timetable = Timetable()
    timetable.started("q", "r2", 0.0)
    timetable.progressed("q", "r1", 2.0)
    assert timetable.next_at() == 30.0


def test_two_starts_of_a_query_are_a_minute_apart():
    timetable = Timetable()
    timetable.started("q", "r1", 0.0)
    timetable.progressed("q", "r1", 1.0)
    assert taken(timetable, 1.0)
    timetable.started("q", "r2", 5.0)
    timetable.progressed("q", "r2", 6.0)
    assert timetable.next_at() == 61.0


def test_end_is_due_at_once_instead_of_the_start():
    timetable = Timetable()
    timetable.started("q", "r1", 0.0)
    timetable.ended("q", "r1", False, 3.0)
    assert taken(timetable, 3.0) == ("q", "r1", "stopped")
    timetable.ended("q", "r2", True, 4.0)
    assert taken(timetable, 4.0) == ("q", "r2", "failed")


def test_late_end_of_an_earlier_run_does_not_replace_the_newer_start():
    timetable = Timetable()
    timetable.started("q", "old", 0.0)
    assert taken(timetable, 40.0)
    timetable.started("q", "new", 200.0)
    timetable.ended("q", "old", False, 200.1)
    assert taken(timetable, 200.1) is None
    assert taken(timetable, 230.0) == ("q", "new", "started")


def test_crash_loop_takes_only_failures_once_a_minute():
    timetable, reason = Timetable(), []
    for number in range(10):
        at = number * 10.0
        timetable.started("q", f"r{number}", at)
        timetable.ended("q", f"r{number}", True, at + 1.0)
        due = timetable.take(at + 1.0)
        reason.append(due and due.reason)
    assert reason == ["failed", "failed", None, None, None, None, None, "failed", None, None]
    assert timetable.skipped == 15
    timetable.ended("q", "r9", False, 300.0)
    assert timetable.take(300.0) is None


def test_crash_loop_ends_after_five_minutes():
    timetable = Timetable()
    for at in (0.0, 1.0, 2.0):
        timetable.started("q", "r", at)
    assert timetable.next_at() is None
    timetable.started("q", "r9", 400.0)
    assert timetable.next_at() == 430.0


def test_earliest_due_is_taken_first():
    timetable = Timetable()
    timetable.started("a", "r1", 0.0)
    timetable.started("b", "r2", 5.0)
    timetable.ended("c", "r3", True, 6.0)
    assert [taken(timetable, 100.0)[0] for _ in range(3)] == ["c", "a", "b"]


def test_oldest_queries_are_forgotten():
    timetable = Timetable()
    for number in range(MAX_QUERIES + 1):
        timetable.started(f"q{number}", "r", float(number))
    assert not timetable.has_due("q0") and timetable.has_due("q1")
