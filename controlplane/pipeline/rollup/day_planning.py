"""Plan which days have to be rolled up, and in which portions. Pure, over the manifest.

Called by `controlplane.pipeline.rollup.rollup_job`. A day whose raw rows were removed keeps its rollups.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from controlplane.lake.manifest import LakeManifest

#: Source tables of rollups.
SOURCE_TABLES = ("progress", "sources", "lifecycle")
#: The compaction job. It changes no rows, so its commits do not make rollups stale.
COMPACTION_JOB = "compact"
#: Increases when the computation changes, so that all days are recomputed.
ALGORITHM_VERSION = 1
#: Raw rows per portion.
MAX_PORTION_ROWS = 20_000_000
ONE_DAY = timedelta(days=1)
#: Days with representable neighbors; anything outside comes from a wrong clock.
FIRST_DAY, LAST_DAY = date(1970, 1, 2), date(9999, 12, 1)


@dataclass(frozen=True)
class RawDayStats:
    """Rows of a raw table and day. `newest`: Unix seconds of the last commit to it."""

    rows: int = 0
    newest: float = 0.0


@dataclass(frozen=True)
class RawDays:
    """Statistics of raw tables by day."""

    held: Mapping[tuple[str, date], RawDayStats]

    @staticmethod
    def of(manifest: LakeManifest) -> RawDays:
        """Collect the statistics from the manifest."""
        held: dict[tuple[str, date], RawDayStats] = defaultdict(RawDayStats)
        for part, commit in manifest.live_parts.values():
            if part.table in SOURCE_TABLES:
                item = held[part.table, part.date]
                newest = item.newest if commit.job == COMPACTION_JOB else max(item.newest, commit.at)
                held[part.table, part.date] = RawDayStats(item.rows + part.rows, newest)
        return RawDays(dict(held))

    def known(self, since: date | None, until: date | None) -> list[date]:
        """Days with rows from `since` to `until`, and single days between: a query may have been down all
        day.
        """
        first, last = max(since or FIRST_DAY, FIRST_DAY), min(until or LAST_DAY, LAST_DAY)
        with_rows = {
            day
            for (_, day), item in self.held.items()
            if item.rows and FIRST_DAY - ONE_DAY <= day <= LAST_DAY
        }
        between = {day + ONE_DAY for day in with_rows if day + 2 * ONE_DAY in with_rows}
        return sorted(day for day in with_rows | between if first <= day <= last)

    def beyond(self) -> list[date]:
        """Days that have rows and cannot be rolled up."""
        return sorted(
            {day for (_, day), item in self.held.items() if item.rows and not FIRST_DAY <= day <= LAST_DAY}
        )

    def rows(self, days: Sequence[date]) -> int:
        """Raw rows of these days."""
        return sum(self._of(table, day).rows for day in days for table in SOURCE_TABLES)

    def facts(self, day: date, objective: float) -> dict[str, Any]:
        """The inputs of a day's rollup, stored with it: statistics of the day and its neighbors."""
        around = [(table, day + offset * ONE_DAY) for table in SOURCE_TABLES for offset in (-1, 0, 1)]
        held = [self._of(*item) for item in around]
        newest = max(item.newest for item in held)
        return {
            "rows": [item.rows for item in held],
            "newest": newest,
            "objective": objective,
            "making": ALGORITHM_VERSION,
        }

    def _of(self, table: str, day: date) -> RawDayStats:
        return self.held.get((table, day), RawDayStats())


def is_stale(manifest: LakeManifest, jobs: Sequence[str], day: date, facts: Mapping[str, Any]) -> bool:
    """Whether a day's rollup is missing or was computed from other rows."""
    commits = [manifest.get(job, day.isoformat()) for job in jobs]
    return any(commit is None or not _is_current(commit.facts, facts) for commit in commits)


def _is_current(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether the recorded inputs still match.

    Compaction removes commits, so the newest commit may be older than recorded, but not newer. A day without
    rows was removed: that changes neither its rollup nor its neighbors'.
    """
    held, had = now["rows"], before.get("rows", [])
    if len(had) != len(held) or any(item not in (other, 0) for item, other in zip(held, had, strict=True)):
        return False
    same_parameters = all(before.get(name) == now[name] for name in ("objective", "making"))
    return same_parameters and now["newest"] <= before.get("newest", 0.0)


def split_portions(
    days: RawDays, chosen: Sequence[date], most: int = MAX_PORTION_ROWS
) -> Iterator[list[date]]:
    """Split days into runs of consecutive days with at most `most` rows."""
    portion: list[date] = []
    for day in chosen:
        if portion and (day != portion[-1] + ONE_DAY or days.rows([*portion, day]) > most):
            yield portion
            portion = []
        portion.append(day)
    if portion:
        yield portion
