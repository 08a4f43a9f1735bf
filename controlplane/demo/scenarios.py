"""The demo's queries: the trouble of each, the status it must reach and the alert that must fire.

Pure data; `controlplane demo --list` prints it, `--only` selects from it. The alerts are those of the shipped rules
at the scale of `controlplane.demo.launch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from controlplane.console.errors import UnknownTrouble
from controlplane.model import QueryStatus

RUNNING, FINISHED, LAGGING = QueryStatus.RUNNING, QueryStatus.FINISHED, QueryStatus.LAGGING
STUCK, FAILED, LOST = QueryStatus.STUCK, QueryStatus.FAILED, QueryStatus.LOST
PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Trouble:
    """One query of the fleet. `expected_alert` is None where no alert must fire.

    Alerts that it inhibits (`alerts/rules/routing.yaml.tmpl`) may fire too.
    """

    name: str
    query: str
    app: str
    program: str
    expected_status: QueryStatus
    expected_alert: str | None
    story: str

    @property
    def is_healthy(self) -> bool:
        return self.expected_alert is None


def _of(app: str, program: str, *rows: tuple[str, str, QueryStatus, str | None, str]) -> Iterator[Trouble]:
    """The troubles of one driver."""
    for name, query, status, alert, story in rows:
        yield Trouble(name, query, app, program, status, alert, story)


#: Drivers start in this order, so the healthy ones come first.
TROUBLES = (
    *_of(
        "demo-orders",
        "orders.py",
        ("steady_copy", "orders_copy", RUNNING, None, "healthy: copies files to Parquet, no state"),
        (
            "steady_windows",
            "orders_by_minute",
            RUNNING,
            None,
            "healthy: counts by minute, state in RocksDB with changelog checkpoints",
        ),
        (
            "stream_join",
            "orders_paid",
            RUNNING,
            None,
            "healthy: joins orders with their payments, both sides with a watermark",
        ),
        (
            "deduplication",
            "orders_once",
            RUNNING,
            None,
            "healthy: drops duplicate orders within half a minute",
        ),
        (
            "backfill",
            "orders_backfill",
            FINISHED,
            None,
            "healthy: an availableNow run that reads all available data",
        ),
    ),
    *_of(
        "demo-clicks",
        "clicks.py",
        (
            "slow_consumer",
            "clicks_slow",
            LAGGING,
            "LagGrowing",
            "200 clicks/s arrive, 160 are read: it never catches up",
        ),
        (
            "blocked_partition",
            "clicks_blocked",
            STUCK,
            "Stuck",
            "one of two partitions is never read although rows are waiting",
        ),
        (
            "growing_state",
            "visits_growing",
            RUNNING,
            "StateGrowthWithoutEviction",
            "drops duplicates without a watermark: state is never evicted",
        ),
        (
            "stuck_watermark",
            "visits_waiting",
            RUNNING,
            "WatermarkStuck",
            "one of its two inputs is silent after 30 s and holds back the watermark",
        ),
        (
            "poison_record",
            "payments_poison",
            FAILED,
            "QueryFailed",
            "fails after about 60 s on an amount that is not a number, and after each restart",
        ),
    ),
    *_of(
        "demo-billing",
        "billing.py",
        (
            "crash_loop",
            "invoices_crashing",
            FAILED,
            "CrashLoop",
            "finds no mail server; its program restarts it 6 s after each failure",
        ),
        (
            "damaged_checkpoint",
            "balances_damaged",
            FAILED,
            "CheckpointTrouble",
            "state files are deleted while it is stopped, so that it cannot load its state",
        ),
        (
            "silent_end",
            "refunds_vanished",
            LOST,
            "QuerySilentlyGone",
            "disappears from its running driver without an event",
        ),
        (
            "overrun",
            "statements_late",
            RUNNING,
            "Overrun",
            "each batch takes 4 s of a 3 s trigger interval",
        ),
    ),
    *_of(
        "demo-couriers",
        "couriers.py",
        (
            "dead_driver",
            "couriers_gone",
            LOST,
            "AgentLost",
            "its driver is killed, as by the out-of-memory killer",
        ),
    ),
)


def chosen(names: Iterable[str]) -> tuple[Trouble, ...]:
    """The troubles with these names in the table's order; all where no name is given."""
    wanted = set(names)
    unknown = wanted - {trouble.name for trouble in TROUBLES}
    if unknown:
        known = ", ".join(trouble.name for trouble in TROUBLES)
        raise UnknownTrouble(f"there is no trouble {', '.join(sorted(unknown))}; the troubles are: {known}")
    return tuple(trouble for trouble in TROUBLES if not wanted or trouble.name in wanted)


def listing(troubles: Iterable[Trouble]) -> list[dict[str, str | None]]:
    """The document that `--list --json` prints."""
    return [
        {
            "query": trouble.query,
            "trouble": trouble.name,
            "expected_status": str(trouble.expected_status),
            "expected_alert": trouble.expected_alert,
        }
        for trouble in troubles
    ]


@dataclass(frozen=True)
class Driver:
    """One Spark driver to start: a program and its selected queries."""

    app: str
    program: Path
    queries: tuple[str, ...]


def drivers(troubles: Iterable[Trouble]) -> tuple[Driver, ...]:
    """One driver for each app with a selected query, in the table's order."""
    wanted = set(troubles)
    by_app = groupby((t for t in TROUBLES if t in wanted), key=lambda t: (t.app, t.program))
    return tuple(
        Driver(app, PROGRAMS / program, tuple(t.query for t in group)) for (app, program), group in by_app
    )
