"""Cases of queries that keep up or fall behind, each with its verdict."""

from __future__ import annotations

from controlplane.model import QueryStatus, RunFacts
from tests.unit.controlplane.situations import NOW, Case, batches, sample, source, view, without_latest_offset

ASAP = RunFacts(trigger="processing_time", trigger_interval=0.0)
DRAINING = RunFacts(trigger="available_now")

CASES = [
    # Falling behind.
    Case(
        "keeping up",
        view(),
        QueryStatus.RUNNING,
        "Keeping up: no backlog, batch 11 took 1 s of a 10 s trigger interval.",
    ),
    Case(
        "a trickle that falls behind steadily",
        view(progress=batches(range(5, 55, 5), rows=5)),
        QueryStatus.LAGGING,
        "Falling behind: backlog grew from 5 to 50 rows in 1 min 30 s; the oldest unread row is",
    ),
    Case(
        "a flood that falls behind steadily",
        view(progress=batches(range(1_000_000, 11_000_000, 1_000_000), rows=1_000_000)),
        QueryStatus.LAGGING,
        "from 1,000,000 to 10,000,000 rows",
    ),
    Case(
        "lag that neither grows nor falls, above what is allowed",
        view(progress=batches([500] * 10, rows=100)),
        QueryStatus.LAGGING,
        "Falling behind: backlog has stayed at 500 rows for 1 min 30 s",
    ),
    Case(
        "healthy jitter of tiny batches",
        view(progress=batches([0, 3, 8, 2, 9, 0, 5, 7, 9, 11, 12, 14], rows=5)),
        QueryStatus.RUNNING,
        "Running: backlog 14 rows (not growing steadily), the oldest unread row is",
    ),
    Case(
        "healthy jitter of large batches",
        view(progress=batches([9e4, 2e5, 1e5, 3e5, 5e4, 2e5, 3e5, 1e5, 1e5, 4e5], rows=1_000_000)),
        QueryStatus.RUNNING,
        "backlog 400,000 rows",
    ),
    Case(
        "a source that bursts in the last batch",
        view(progress=batches([0] * 11 + [5000])),
        QueryStatus.RUNNING,
        "backlog 5,000 rows",
    ),
    Case(
        "growth that is too young to judge",
        view(progress=batches(range(0, 900, 100))),
        QueryStatus.RUNNING,
        "backlog 800 rows (too few batches for a trend)",
    ),
    Case(
        "batches of a third of a second that jitter for a few seconds",
        view(progress=batches([*([0, 40] * 50), *range(0, 200, 20)], every=0.3), facts=ASAP),
        QueryStatus.RUNNING,
        "backlog 180 rows",
    ),
    Case(
        "batches of a third of a second that fall behind for half a minute",
        view(progress=batches(range(0, 2400, 20), every=0.3), facts=ASAP),
        QueryStatus.LAGGING,
        "backlog grew from",
    ),
    Case(
        "batches that read nothing while rows are waiting",
        view(progress=batches([100] * 12, rows=0)),
        QueryStatus.STUCK,
        "the last 10 batches read nothing from KafkaV2[Subscribe[orders]] although 100 rows are waiting",
    ),
    Case(
        "one partition that is not read",
        view(
            progress=tuple(
                sample(
                    n,
                    NOW - 5 - (11 - n) * 10,
                    [source({"o/0": n, "o/1": 7}, {"o/0": n + 1, "o/1": 7}, {"o/0": n + 1, "o/1": 90})],
                )
                for n in range(12)
            )
        ),
        QueryStatus.STUCK,
        "read nothing from o/1 of KafkaV2[Subscribe[orders]] although 83 rows are waiting",
    ),
    Case(
        "one partition that falls behind while the whole does not",
        view(progress=batches([{"o/0": 1000 - 100 * n, "o/1": 100 * n} for n in range(10)])),
        QueryStatus.LAGGING,
        "the backlog of o/1 of KafkaV2[Subscribe[orders]] grew from 0 to 900 rows",
    ),
    Case(
        "a quiet partition beside a busy one",
        view(
            progress=tuple(
                sample(
                    n,
                    NOW - 5 - (11 - n) * 10,
                    [source({"o/0": n, "o/1": 7}, {"o/0": n + 1, "o/1": 7}, {"o/0": n + 1, "o/1": 7})],
                )
                for n in range(12)
            )
        ),
        QueryStatus.RUNNING,
        "no backlog",
    ),
    Case(
        "behind after too few batches for a trend",
        view(progress=batches([4000, 5000, 6000], rows=100, first_end=50_000)),
        QueryStatus.RUNNING,
        "backlog 6,000 rows (too few batches for a trend), the oldest",
    ),
    Case(
        "behind but catching up",
        view(
            progress=batches(
                [1000 * n for n in range(11, 1, -1)],
                rows=1100,
                first_end=50_000,
            )
        ),
        QueryStatus.RUNNING,
        "backlog 2,000 rows (not growing steadily), the oldest unread row is 3 min",
    ),
    Case(
        "more than five minutes behind, catching up",
        view(
            progress=batches(
                [40_000 - 2_000 * n for n in range(12)], rows=2_100, every=10, first_end=1_000_000
            )
        ),
        QueryStatus.LAGGING,
        "the backlog is 18,000 rows; it will catch up in about 1 min 30 s.",
    ),
    Case(
        "an availableNow run is behind by nature",
        view(progress=batches(range(1000, 13000, 1000)), facts=DRAINING),
        QueryStatus.RUNNING,
        "backlog 12,000 rows",
    ),
    # Sources that report no latest offset, or whose latest offset is always the end offset.
    Case(
        "a source that reports no latest offset",
        view(progress=without_latest_offset(12)),
        QueryStatus.RUNNING,
        "Running. Backlog unknown: the source does not report a latest offset.",
    ),
    Case(
        "results that are always old because batches take long",
        view(progress=without_latest_offset(5, duration=200.0, every=200), facts=ASAP),
        QueryStatus.LAGGING,
        "Delayed: results are 6 min 40 s old because batches take 3 min 20 s.",
    ),
    Case(
        "long batches within a longer trigger interval",
        view(
            progress=without_latest_offset(5, duration=200.0, every=600),
            facts=RunFacts(trigger="processing_time", trigger_interval=600.0),
        ),
        QueryStatus.RUNNING,
        "Batch 4 took 3 min 20 s of a 10 min trigger interval.",
    ),
]
