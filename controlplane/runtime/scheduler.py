"""The table of periodic jobs, on APScheduler's threads.

A job that overruns skips turns instead of piling up, and a job that fails is logged and runs again.
Built by `controlplane.app`; `late` feeds readiness.
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
PATIENCE = 6  # turns that a job may miss before we say so


@dataclass(frozen=True)
class Job:
    """What is done every so many seconds, for the first time after `first`. `name` is for people."""

    name: str
    seconds: float
    run: Callable[[], object]
    first: float | None = None


class Scheduler:
    """Runs the jobs from `start` to `stop`; each for itself, never twice at once."""

    def __init__(self, jobs: Sequence[Job], monotonic: Callable[[], float] = time.monotonic):
        self._jobs = jobs
        self._monotonic = monotonic
        self._done: dict[str, float] = {}
        self._scheduler: BackgroundScheduler | None = None

    def start(self) -> None:
        scheduler = BackgroundScheduler(timezone=UTC, executors={"default": ThreadPoolExecutor(THREADS)})
        now, began = self._monotonic(), datetime.now(UTC)
        for job in self._jobs:
            self._done[job.name] = now
            scheduler.add_job(
                self._run,
                "interval",
                args=(job,),
                id=job.name,
                seconds=job.seconds,
                next_run_time=began + timedelta(seconds=job.seconds if job.first is None else job.first),
                coalesce=True,
                max_instances=1,
                misfire_grace_time=max(1, round(job.seconds)),
            )
        scheduler.start()
        self._scheduler = scheduler

    def stop(self) -> None:
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

    def late(self) -> list[str]:
        """Jobs that have not succeeded for too long, in words."""
        if self._scheduler is None:
            return ["the scheduler does not run"]
        now = self._monotonic()
        ages = [(job, now - self._done[job.name]) for job in self._jobs]
        return [
            f"the job {job.name} has not succeeded for {age:.0f} s (every {job.seconds:g} s)"
            for job, age in ages
            if age > max(30.0, PATIENCE * job.seconds)
        ]
