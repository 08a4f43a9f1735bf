"""Every number that a verdict turns on, in one value with its defaults and where they come from.

Called by `controlplane.health.judge` and what it asks; `controlplane.events.run_resolution` and the control room measure
an agent's silence by them, too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """Seconds, rows and counts. `T` is the trigger interval, `B` the 95th percentile of batch durations."""

    #: An agent beats every 10 s; six missed beats are silence, three are enough to say that one waits for it
    #: and to let another driver's run take over.
    silent_seconds: float = 60.0
    unheard_seconds: float = 30.0
    #: An agent polls its queries every 10 s: so long after a run's last sign of life two polls missed it.
    vanished_seconds: float = 15.0
    #: Burrow's window: so many samples, stretched (and thinned again) to this long for sub-second batches.
    trend_samples: int = 10
    trend_seconds: float = 30.0
    #: Allowed lag: so many median batches, and never less than this many rows (Burrow's own default of 0
    #: warns about nothing; a fixed 1 000 would never see a slow trickle fall behind).
    allowed_batches: float = 2.0
    allowed_rows: float = 10.0
    #: From "nothing ever waited" to "falling behind": this share of the window's steps must rise.
    rising_share: float = 0.75
    #: Behind by time: the usual objective of five minutes, or two trigger intervals where that is more.
    behind_seconds: float = 300.0
    behind_triggers: float = 2.0
    #: A batch is long past max(3 B, 5 T, 30 s) and hung past max(3 B, 5 T, 10 min) without a finished task.
    long_usual: float = 3.0
    long_triggers: float = 5.0
    long_seconds: float = 30.0
    hung_seconds: float = 600.0
    quiet_tasks_seconds: float = 300.0
    #: While a query rests Spark says so every 10 s, or every trigger; past this the last word is old.
    rest_seconds: float = 60.0


DEFAULTS = Thresholds()
