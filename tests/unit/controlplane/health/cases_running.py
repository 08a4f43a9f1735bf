"""Queries that run: starting, at rest, in long batches; and the verdict on each."""

from __future__ import annotations

from controlplane.model import QueryStatus, RunFacts
from tests.unit.controlplane.situations import NOW, Case, batches, hung, in_batch, run, status, view

ASAP = RunFacts(trigger="processing_time", trigger_interval=0.0)

CASES = [
    # Starting.
    Case("known by name only", view(run=None, progress=(), status=None), QueryStatus.STARTING, "no run"),
    Case(
        "just started",
        view(
            run=run(started_at=NOW - 12),
            progress=(),
            status=status(message="Initializing sources", at=NOW - 2),
        ),
        QueryStatus.STARTING,
        "started 12 s ago, no batch yet (Initializing sources)",
    ),
    Case(
        "a new run that has no batch yet, though an old one had",
        view(run=run(run_id="run-2", started_at=NOW - 12), status=in_batch(run_id="run-2")),
        QueryStatus.STARTING,
        "no batch yet",
    ),
    Case(
        "a first batch that takes long while tasks finish",
        view(run=run(started_at=NOW - 1500), progress=(), status=in_batch(last_task_at=NOW - 20)),
        QueryStatus.BUSY,
        "its first batch runs for 25 min; the last task finished 20 s ago, 4 are done",
    ),
    Case(
        "a first batch in which no task has finished for long",
        view(run=run(started_at=NOW - 1500), progress=(), status=in_batch(last_task_at=None)),
        QueryStatus.STUCK,
        "its first batch runs for 25 min and no task finished for 25 min",
    ),
    Case(
        "a start that nobody can look into",
        view(run=run(started_at=NOW - 300), progress=(), status=None, polled_at=None),
        QueryStatus.STARTING,
        "started 5 min ago",
    ),
    Case(
        "continuous processing, of which there is no progress",
        view(
            run=run(started_at=NOW - 3000),
            facts=RunFacts(trigger="continuous", trigger_interval=1.0),
            progress=(),
            status=status(message="Committing epoch 41", data_available=False),
        ),
        QueryStatus.RUNNING,
        "epoch 41 is committed",
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
    # At rest.
    Case(
        "idle by an idle event",
        view(progress=batches([0] * 12, last_at=NOW - 200), idle_at=NOW - 8),
        QueryStatus.IDLE,
        "no new data for 3 min 20 s",
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
        "hanging while it looks for data",
        view(
            progress=batches([0] * 3, last_at=NOW - 5000),
            idle_at=NOW - 900,
            status=in_batch(data_available=False, last_task_at=None, tasks_active=0, tasks_completed=0),
        ),
        QueryStatus.STUCK,
        "no task finished for 15 min",
    ),
    # Long batches.
    Case(
        "a long batch whose tasks finish",
        hung(quiet=20),
        QueryStatus.BUSY,
        "the batch after 11 runs for 16 min 40 s (usual 1 s); the last task finished 20 s ago, 4 are done",
    ),
    Case(
        "a long batch that hangs",
        hung(quiet=400),
        QueryStatus.STUCK,
        "the batch after 11 runs for 16 min 40 s (usual 1 s) and no task finished for 6 min 40 s",
    ),
    Case(
        "a long batch that is quiet, not yet for too long",
        hung(quiet=250),
        QueryStatus.BUSY,
        "4 min 10 s ago",
    ),
    Case(
        "a long batch without a finished task, but not past ten minutes",
        hung(quiet=599, batch_age=500),
        QueryStatus.BUSY,
        "no task finished yet, 10 min are allowed",
    ),
    Case(
        "a long batch of which tasks are not known",
        view(
            progress=batches([0] * 3, last_at=NOW - 1000),
            status=in_batch(tasks_active=None, tasks_completed=None, last_task_at=None),
        ),
        QueryStatus.BUSY,
        "nothing is known of its tasks",
    ),
    Case(
        "a batch no longer than three usual ones",
        view(
            progress=batches([0] * 12, last_at=NOW - 100, duration=60.0, every=60),
            status=in_batch(),
            facts=ASAP,
        ),
        QueryStatus.RUNNING,
        "batch 11 took 1 min",
    ),
    Case(
        "a batch long only by a short trigger's measure",
        view(
            progress=batches([0] * 12, last_at=NOW - 700, duration=200.0, every=600),
            facts=RunFacts(trigger="processing_time", trigger_interval=600.0),
            status=in_batch(last_task_at=NOW - 690),
        ),
        QueryStatus.RUNNING,
        "batch 11 took 3 min 20 s",
    ),
    Case(
        "between two triggers that are far apart",
        view(progress=batches([0] * 12, last_at=NOW - 400, every=600)),
        QueryStatus.RUNNING,
        "keeps up",
    ),
    Case(
        "hung and falling behind: hung counts",
        view(
            progress=batches(range(0, 1200, 100), last_at=NOW - 2000),
            status=in_batch(last_task_at=NOW - 2100),
        ),
        QueryStatus.STUCK,
        "no task finished for 33 min 20 s",
    ),
    Case(
        "nobody polls it any more, and it is silent for longer than any batch",
        view(
            progress=batches([0] * 12, last_at=NOW - 3000), status=status(at=NOW - 2990), polled_at=NOW - 2990
        ),
        QueryStatus.BUSY,
        "nothing is known of its tasks",
    ),
]
