"""When a checkpoint inventory is due; one clock, in seconds."""

from listeners.checkpoints.timetable import (
    LOGS_SECONDS,
    LOGS_SPACING_FACTOR,
    LOGS_SPACING_SECONDS,
    MAX_QUERIES,
    Due,
    Timetable,
)


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
    assert not timetable.waits_for("q", False, 2.0)


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
    assert not timetable.waits_for("q0", False, 0.0) and timetable.waits_for("q1", False, 0.0)


def running(timetable, query_id="q", run_id="r1", now=0.0):
    """A run whose first inventory has been taken."""
    timetable.started(query_id, run_id, now)
    timetable.taken(timetable.take(now + 30.0), 0.1, now + 30.0)


def batch(timetable, now, query_id="q", run_id="r1", committed=True):
    if timetable.waits_for(query_id, committed, now):
        timetable.progressed(query_id, run_id, now)


def test_logs_of_a_running_query_are_read_once_a_minute_if_it_commits():
    timetable = Timetable()
    running(timetable)
    batch(timetable, 31.0)
    assert timetable.next_at() is None, "its inventory is new"
    batch(timetable, 30.0 + LOGS_SECONDS)
    due = timetable.take(90.0)
    assert due == Due(90.0, "q", "r1", "running")
    timetable.taken(due, 0.1, 90.0)
    batch(timetable, 200.0, committed=False)
    assert timetable.next_at() is None, "no batch since"
    batch(timetable, 300.0)
    assert taken(timetable, 300.0) == ("q", "r1", "running")


def test_batch_before_an_idle_trigger_is_read_at_the_idle_trigger():
    timetable = Timetable()
    running(timetable)
    batch(timetable, 40.0)
    batch(timetable, 100.0, committed=False)
    assert taken(timetable, 100.0) == ("q", "r1", "running")


def test_readings_of_logs_are_bounded_in_a_driver():
    timetable = Timetable()
    for number in range(30):
        running(timetable, f"q{number}", f"r{number}")
    for number in range(30):
        batch(timetable, 100.0, f"q{number}", f"r{number}")
    times = [due.at for due in iter(lambda: timetable.take(1e9), None)]
    assert times == [100.0 + number * LOGS_SPACING_SECONDS for number in range(30)]


def test_slow_file_system_is_read_less_often():
    timetable = Timetable()
    for name in ("a", "b"):
        running(timetable, name, name)
    batch(timetable, 100.0, "a", "a")
    timetable.taken(timetable.take(100.0), 5.0, 105.0)
    batch(timetable, 106.0, "b", "b")
    assert timetable.next_at() == 105.0 + 5.0 * LOGS_SPACING_FACTOR


def test_end_and_start_replace_a_reading_of_logs():
    timetable = Timetable()
    running(timetable)
    batch(timetable, 100.0)
    timetable.ended("q", "r1", True, 100.5)
    assert taken(timetable, 101.0) == ("q", "r1", "failed")
    batch(timetable, 300.0)
    assert timetable.next_at() is None, "the run has ended"


def test_logs_are_not_read_where_no_inventory_could_be_taken():
    timetable = Timetable()
    timetable.started("q", "r1", 0.0)
    assert timetable.take(30.0)
    batch(timetable, 500.0)
    assert timetable.next_at() is None
