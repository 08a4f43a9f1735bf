"""Scheduler of the server's periodic jobs, on APScheduler.

A job that overruns its interval skips runs, and a job that fails is logged and runs again. Built by
`controlplane.app`; readiness reports `overdue` jobs.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

log = logging.getLogger(__name__)
THREADS = 4
MAX_MISSED_RUNS = 6  # intervals without success after which a job is overdue


@dataclass(frozen=True)
class Job:
    """A job that runs every `seconds`, first after `first` seconds. `name` is for people."""

    name: str
    seconds: float
    run: Callable[[], object]
    first: float | None = None


class Scheduler:
    """Runs the jobs from `start` to `stop`, concurrently but never one job twice at once."""

    def __init__(self, jobs: Sequence[Job], monotonic: Callable[[], float] = time.monotonic):
        self._jobs = jobs
        self._monotonic = monotonic
        self._done: dict[str, float] = {}
        self._scheduler: BackgroundScheduler | None = None

    def start(self) -> None:
        """Start the scheduler's threads."""
        scheduler = BackgroundScheduler(timezone=UTC, executors={"default": ThreadPoolExecutor(THREADS)})
        now, started = self._monotonic(), datetime.now(UTC)
        for job in self._jobs:
            self._done[job.name] = now
            scheduler.add_job(
                self._run,
                "interval",
                args=(job,),
                id=job.name,
                seconds=job.seconds,
                next_run_time=started + timedelta(seconds=job.seconds if job.first is None else job.first),
                coalesce=True,
                max_instances=1,
                misfire_grace_time=max(1, round(job.seconds)),
            )
        scheduler.start()
        self._scheduler = scheduler

    def stop(self) -> None:
        """Stop scheduling; does not wait for running jobs."""
        scheduler, self._scheduler = self._scheduler, None
        if scheduler is not None:
            scheduler.shutdown(wait=False)

    def _run(self, job: Job) -> None:
        try:
            job.run()
        except Exception as error:
            log.warning("the job %s failed: %s", job.name, error, exc_info=log.isEnabledFor(logging.DEBUG))
        else:
            self._done[job.name] = self._monotonic()

    def overdue(self) -> list[str]:
        """One sentence per job that has not succeeded for too long."""
        if self._scheduler is None:
            return ["the scheduler is not running"]
        now = self._monotonic()
        waits = [(job, now - self._done[job.name]) for job in self._jobs]
        return [
            f"the job {job.name} has not succeeded for {waited:.0f} s (every {job.seconds:g} s)"
            for job, waited in waits
            if waited > max(30.0, MAX_MISSED_RUNS * job.seconds)
        ]
