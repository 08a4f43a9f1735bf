"""The troubles of the demonstration: a name, the query that has it, and what the server must say of it.

Pure data; `controlplane demo --list` prints it, `--only` chooses from it, the fleet starts what is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from controlplane.cli.errors import UnknownTrouble
from controlplane.model import QueryStatus

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Trouble:
    """One query of the fleet. `expected_alert` is None where no alert must fire."""

    name: str
    query: str
    app: str
    program: str
    expected_status: QueryStatus
    story: str
    expected_alert: str | None = None


TROUBLES = (
    Trouble(
        "steady_copy",
        "orders_copy",
        "demo-orders",
        "orders.py",
        QueryStatus.RUNNING,
        "healthy: copies files to Parquet, no state",
    ),
    Trouble(
        "steady_windows",
        "orders_by_minute",
        "demo-orders",
        "orders.py",
        QueryStatus.RUNNING,
        "healthy: counts by minute, state in RocksDB with changelog checkpoints",
    ),
    Trouble(
        "slow_consumer",
        "clicks_slow",
        "demo-clicks",
        "clicks.py",
        QueryStatus.LAGGING,
        "200 clicks arrive a second, 100 are read: it never catches up",
    ),
    Trouble(
        "poison_record",
        "payments_poison",
        "demo-clicks",
        "clicks.py",
        QueryStatus.FAILED,
        "dies after about 60 s on an amount that is not a number, and again after each restart",
    ),
)


def chosen(names: Iterable[str]) -> tuple[Trouble, ...]:
    """The troubles of these names, in the table's order; all of them where no name is given."""
    wanted = set(names)
    unknown = wanted - {trouble.name for trouble in TROUBLES}
    if unknown:
        known = ", ".join(trouble.name for trouble in TROUBLES)
        raise UnknownTrouble(f"no trouble is called {', '.join(sorted(unknown))}; there are: {known}")
    return tuple(trouble for trouble in TROUBLES if not wanted or trouble.name in wanted)


def listing(troubles: Iterable[Trouble]) -> list[dict[str, str | None]]:
    """What `--list --json` prints."""
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
    """One Spark driver to start: a program and those of its queries that are wanted."""

    app: str
    program: Path
    queries: tuple[str, ...]


def drivers(troubles: Iterable[Trouble]) -> tuple[Driver, ...]:
    """One driver for each app that has a wanted query."""
    by_app = groupby(sorted(troubles, key=lambda t: t.app), key=lambda t: (t.app, t.program))
    return tuple(
        Driver(app, PROGRAMS / program, tuple(t.query for t in TROUBLES if t in members))
        for (app, program), group in by_app
        if (members := list(group))
    )
