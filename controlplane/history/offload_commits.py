"""Names and checks of the commits that offload a store's events. Pure.

Written by `controlplane.pipeline.offload.offload_job`; read by it and by `controlplane.history.service`,
which verifies each commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from controlplane.lake.manifest import Commit, LakeManifest
from controlplane.store.offload_marks import RangeChecksum

JOB = "offload"
#: Each stored event is one row of one of these tables.
EVENT_TABLES = ("progress", "lifecycle")


@dataclass(frozen=True)
class EventRange:
    """Events of a store with after < id <= until."""

    store: str
    after: int
    until: int

    @property
    def batch(self) -> str:
        """The name of the range's commit: repeating the range replaces its rows."""
        return f"{self.store}-{self.after:015d}-{self.until:015d}"


@dataclass(frozen=True)
class OffloadCounts:
    """Counts of the events in a range.

    `events`: of types that the lake stores; `stored`: converted to rows; `malformed`: not convertible;
    `duplicates`: of the stored, those that the lake already had; `checksum`: over all events, as in
    `controlplane.store.offload_marks`.
    """

    events: int = 0
    stored: int = 0
    malformed: int = 0
    duplicates: int = 0
    checksum: int = 0

    def __add__(self, other: OffloadCounts) -> OffloadCounts:
        return OffloadCounts(
            self.events + other.events,
            self.stored + other.stored,
            self.malformed + other.malformed,
            self.duplicates + other.duplicates,
            self.checksum + other.checksum,
        )


def commit_facts(event_range: EventRange, counts: OffloadCounts) -> dict[str, Any]:
    """The facts that are stored with a commit."""
    return {**asdict(event_range), **asdict(counts)}


def range_of(commit: Commit) -> EventRange | None:
    """The event range of a commit of this job; None for commits without one."""
    facts = commit.facts
    if not isinstance(facts.get("after"), int) or not isinstance(facts.get("until"), int):
        return None
    return EventRange(str(facts.get("store")), facts["after"], facts["until"])


def counts_of(commit: Commit) -> OffloadCounts:
    """The counts that are stored with a commit."""
    numbers = {name: commit.facts.get(name) for name in OffloadCounts.__dataclass_fields__}
    return OffloadCounts(**{name: value for name, value in numbers.items() if isinstance(value, int)})


def find_mismatch(commit: Commit, held: int) -> str | None:
    """Why a commit is inconsistent, given that the store holds `held` events of its range; None where it is
    consistent.
    """
    counts = counts_of(commit)
    rows = sum(part.rows for part in commit.parts if part.table in EVENT_TABLES)
    if held > counts.events:
        return f"it read {counts.events} events but the store has {held}"
    if counts.events != counts.stored + counts.malformed:
        return (
            f"it read {counts.events} events but counted {counts.stored} stored and "
            f"{counts.malformed} malformed"
        )
    if rows != counts.stored - counts.duplicates:
        return (
            f"it counted {counts.stored} stored events, {counts.duplicates} of them duplicates, "
            f"but wrote {rows} rows"
        )
    return None


def store_was_restored(commit: Commit, held: RangeChecksum, lost: bool) -> bool:
    """Whether the store holds other events in a range than were offloaded, because it was restored from a
    backup.

    `lost`: the byte limit may have deleted some.
    """
    counts = counts_of(commit)
    if held.events == counts.events:
        return "checksum" in commit.facts and held.seq_sum != counts.checksum
    return held.events > counts.events or not lost


def contiguous_commits(manifest: LakeManifest, store: str, mark: int) -> Iterator[tuple[EventRange, Commit]]:
    """The commits that follow `mark` without a gap, in order; of two with the same start the one that reaches
    further.
    """
    found: dict[int, tuple[EventRange, Commit]] = {}
    for commit in manifest.commits_of_job(JOB).values():
        event_range = range_of(commit)
        if event_range is None or event_range.store != store or event_range.until <= event_range.after:
            continue
        known = found.get(event_range.after)
        if known is None or known[0].until < event_range.until:
            found[event_range.after] = event_range, commit
    while mark in found:
        event_range, commit = found[mark]
        yield event_range, commit
        mark = event_range.until
