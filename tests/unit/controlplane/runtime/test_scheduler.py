"""Scheduler: jobs run, overrun and fail, and overdue jobs are reported."""

from __future__ import annotations

import threading

from controlplane.runtime.scheduler import Job, Scheduler


def test_a_job_runs_again_and_again_and_a_failing_one_does_not_stop_the_others() -> None:
    ran, tried = threading.Semaphore(0), threading.Semaphore(0)

    def fail() -> None:
        tried.release()
        raise OSError("disk on fire")

    scheduler = Scheduler([Job("good", 0.02, ran.release), Job("bad", 0.02, fail)])
    scheduler.start()
    try:
        for semaphore in (ran, ran, tried, tried):
            assert semaphore.acquire(timeout=5)
    finally:
        scheduler.stop()


def test_who_has_not_succeeded_for_long_is_late() -> None:
    now = [0.0]
    scheduler = Scheduler([Job("judge", 3600.0, lambda: None)], monotonic=lambda: now[0])
    assert scheduler.overdue() == ["the scheduler is not running"]
    scheduler.start()
    try:
        assert scheduler.overdue() == []
        now[0] = 7 * 3600.0
        assert "judge" in scheduler.overdue()[0]
    finally:
        scheduler.stop()
