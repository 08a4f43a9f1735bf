"""Cases of queries that run: starting, idle, in long batches; each with its verdict."""

from __future__ import annotations

from controlplane.driver_model import Outage
from controlplane.model import QueryStatus, RunFacts
from tests.unit.controlplane.situations import (
    NOW,
    Case,
    agent,
    batches,
    in_batch,
    long_batch,
    run,
    status,
    view,
)

ASAP = RunFacts(trigger="processing_time", trigger_interval=0.0)

CASES = [
    # Starting.
    Case(
        "known by name only",
        view(run=None, progress=(), status=None),
        QueryStatus.STARTING,
        "no run has been reported",
    ),
    Case(
        "just started",
        view(
            run=run(started_at=NOW - 12),
            progress=(),
            status=status(message="Initializing sources", at=NOW - 2),
        ),
        QueryStatus.STARTING,
        "Starting: started 12 s ago, no batch yet (Initializing sources).",
    ),
    Case(
        "a new run that has no batch yet, though an old one had",
        view(run=run(run_id="run-2", started_at=NOW - 12), status=in_batch(run_id="run-2")),
        QueryStatus.STARTING,
        "no batch yet",
    ),
    Case(
        "a long first batch whose tasks finish",
        view(run=run(started_at=NOW - 1500), progress=(), status=in_batch(last_task_at=NOW - 20)),
        QueryStatus.BUSY,
        "Busy: the first batch has run for 25 min; the last task finished 20 s ago, 4 finished so far.",
    ),
    Case(
        "a long first batch in which no task finishes",
        view(run=run(started_at=NOW - 1500), progress=(), status=in_batch(last_task_at=None)),
        QueryStatus.STUCK,
        "Stuck: the first batch has run for 25 min and no task has finished for 25 min.",
    ),
    Case(
        "a start whose status is not polled",
        view(run=run(started_at=NOW - 300), progress=(), status=None, polls=()),
        QueryStatus.STARTING,
        "started 5 min ago",
    ),
    Case(
        "continuous processing, which reports no progress",
        view(
            run=run(started_at=NOW - 3000),
            facts=RunFacts(trigger="continuous", trigger_interval=1.0),
            progress=(),
            status=status(message="Committing epoch 41", data_available=False),
        ),
        QueryStatus.RUNNING,
        "Running: epoch 41 is committed.",
    ),
    Case(
        "continuous processing before its first epoch",
        view(
            run=run(started_at=NOW - 3),
            facts=RunFacts(trigger="continuous", trigger_interval=1.0),
            progress=(),
            status=status(message="Initializing sources", data_available=False),
        ),
        QueryStatus.STARTING,
        "no batch yet",
    ),
    # Idle.
    Case(
        "idle by an idle event",
        view(progress=batches([0] * 12, last_at=NOW - 200), idle_at=NOW - 8),
        QueryStatus.IDLE,
        "Idle: no new data for 3 min 20 s.",
    ),
    Case(
        "idle by status",
        view(
            progress=batches([0] * 3, last_at=NOW - 65),
            status=status(message="Waiting for data to arrive", data_available=False),
        ),
        QueryStatus.IDLE,
        "no new data for 1 min 5 s",
    ),
    Case(
        "idle from the start",
        view(run=run(started_at=NOW - 50), progress=(), idle_at=NOW - 9),
        QueryStatus.IDLE,
        "no new data for 50 s",
    ),
    Case(
        "idle, and just looking for data",
        view(
            progress=batches([0] * 3, last_at=NOW - 200),
            idle_at=NOW - 8,
            status=in_batch(data_available=False, message="Getting offsets from " + "KafkaV2"),
        ),
        QueryStatus.IDLE,
        "no new data",
    ),
    Case(
        "no longer idle: a batch has begun",
        view(progress=batches([0] * 3, last_at=NOW - 200), idle_at=NOW - 8, status=in_batch()),
        QueryStatus.RUNNING,
        "batch 2",
    ),
    Case(
        "stuck while it looks for data",
        view(
            progress=batches([0] * 3, last_at=NOW - 5000),
            idle_at=NOW - 900,
            status=in_batch(data_available=False, last_task_at=None, tasks_active=0, tasks_completed=0),
        ),
        QueryStatus.STUCK,
        "no task has finished for 15 min",
    ),
    # Long batches.
    Case(
        "a long batch whose tasks finish",
        long_batch(quiet=20),
        QueryStatus.BUSY,
        "Busy: batch 12 has run for 16 min 40 s (usually 1 s); the last task finished 20 s ago, 4 finished so far.",
    ),
    Case(
        "a long batch that is stuck",
        long_batch(quiet=400),
        QueryStatus.STUCK,
        "Stuck: batch 12 has run for 16 min 40 s (usually 1 s) and no task has finished for 6 min 40 s.",
    ),
    Case(
        "a long batch without a finished task for less than the limit",
        long_batch(quiet=250),
        QueryStatus.BUSY,
        "4 min 10 s ago",
    ),
    Case(
        "a long batch without a finished task, but not past ten minutes",
        long_batch(quiet=599, batch_age=500),
        QueryStatus.BUSY,
        "no task has finished yet (allowed: 10 min)",
    ),
    Case(
        "a long batch whose tasks are unknown",
        view(
            progress=batches([0] * 3, last_at=NOW - 1000),
            status=in_batch(tasks_active=None, tasks_completed=None, last_task_at=None),
        ),
        QueryStatus.BUSY,
        "its task activity is unknown",
    ),
    Case(
        "a long batch in which Spark has ceased to answer",
        view(
            progress=batches([0] * 12, last_at=NOW - 150),
            status=in_batch(at=NOW - 110, last_task_at=NOW - 112),
            agent=agent(outage=Outage("no_answer", NOW - 109, seen_at=NOW - 2)),
        ),
        QueryStatus.BUSY,
        "Busy: batch 12 has run for 2 min 30 s (usually 1 s); the last task finished",
    ),
    Case(
        "a long batch whose driver has fallen silent",
        view(
            progress=batches([0] * 12, last_at=NOW - 200),
            status=in_batch(at=NOW - 95, last_task_at=NOW - 96),
            agent=agent(last_seen_at=NOW - 88),
            polls=(NOW - 95,),
        ),
        QueryStatus.BUSY,
        "No heartbeat from the driver for 1 min 28 s",
    ),
    Case(
        "a batch no longer than three typical ones",
        view(
            progress=batches([0] * 12, last_at=NOW - 100, duration=60.0, every=60),
            status=in_batch(),
            facts=ASAP,
        ),
        QueryStatus.RUNNING,
        "batch 11 took 1 min.",
    ),
    Case(
        "a batch that would be long only for a shorter trigger interval",
        view(
            progress=batches([0] * 12, last_at=NOW - 700, duration=200.0, every=600),
            facts=RunFacts(trigger="processing_time", trigger_interval=600.0),
            status=in_batch(last_task_at=NOW - 690),
        ),
        QueryStatus.RUNNING,
        "batch 11 took 3 min 20 s",
    ),
    Case(
        "no backlog, but the batch took longer than the trigger interval",
        view(
            progress=batches([0] * 12, duration=12.0),
            facts=RunFacts(trigger="processing_time", trigger_interval=10.0),
        ),
        QueryStatus.RUNNING,
        "Running: no backlog, but batch 11 took 12 s, longer than the trigger interval of 10 s.",
    ),
    Case(
        "between two triggers that are far apart",
        view(progress=batches([0] * 12, last_at=NOW - 400, every=600)),
        QueryStatus.RUNNING,
        "Keeping up",
    ),
    Case(
        "stuck and falling behind: stuck counts",
        view(
            progress=batches(range(0, 1200, 100), last_at=NOW - 2000),
            status=in_batch(last_task_at=NOW - 2100),
        ),
        QueryStatus.STUCK,
        "no task has finished for 33 min 20 s",
    ),
    Case(
        "no longer polled, and silent for longer than any batch",
        view(
            progress=batches([0] * 12, last_at=NOW - 3000), status=status(at=NOW - 2990), polls=(NOW - 2990,)
        ),
        QueryStatus.BUSY,
        "its task activity is unknown",
    ),
]
