"""Every limit that a verdict depends on, with its default and the source of that default.

Used by `controlplane.health.judge` and its steps. `controlplane.events.run_resolution` and the services for
actions and checkpoints measure an agent's silence by the same limits.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """Seconds, rows and counts. `T` is the trigger interval, `B` the 95th percentile of batch durations."""

    #: An agent sends a heartbeat every 10 s, and on a slow host or network a request takes up to a minute.
    #: After both, and 20 s for its threads, it is lost. After three missed heartbeats verdicts and requests
    #: that wait for it mention its silence.
    silent_seconds: float = 90.0
    unresponsive_seconds: float = 30.0
    #: A request to Spark without an answer: a poll on an overloaded host may take a minute. A refused
    #: connection and an exited JVM count at once.
    no_answer_seconds: float = 120.0
    #: A slow driver reports the end of a query up to a minute after the query has left the list of active
    #: queries. It has disappeared when lists lack it for longer.
    vanished_seconds: float = 75.0
    #: Burrow's window: this many samples, stretched (and thinned again) to this duration for sub-second
    #: batches.
    trend_samples: int = 10
    trend_seconds: float = 30.0
    #: Allowed lag: this many median batches, and never less than this many rows. Burrow's own default of 0
    #: warns about nothing; a fixed 1,000 would never notice a slow trickle that falls behind.
    allowed_batches: float = 2.0
    allowed_rows: float = 10.0
    #: From "no backlog" to "falling behind": this share of the window's steps must rise.
    rising_share: float = 0.75
    #: Behind in time: the common objective of five minutes, or two trigger intervals where that is more.
    behind_seconds: float = 300.0
    behind_triggers: float = 2.0
    #: A batch is busy after max(3 B, 5 T, 30 s), and stuck after max(3 B, 5 T, 10 min) if in addition no task
    #: has finished for 5 min.
    batch_durations: float = 3.0
    batch_triggers: float = 5.0
    busy_seconds: float = 30.0
    stuck_seconds: float = 600.0
    quiet_tasks_seconds: float = 300.0
    #: Spark reports an idle query every 10 s, or at every trigger; after this the last report is outdated.
    idle_seconds: float = 60.0


DEFAULTS = Thresholds()
