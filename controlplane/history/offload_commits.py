"""The commits by which a store's events moved to the lake: their names, and how far they reach without a hole. Pure.

Written by `controlplane.pipeline.offload.offload_job`, read by it and by `controlplane.history.service`, which says of each
whether it is true.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from controlplane.lake.manifest import Commit, LakeManifest
from controlplane.store.offload_marks import RangeChecksum

JOB = "offload"
#: Every event that is taken is one row of one of these.
EVENT_TABLES = ("progress", "lifecycle")


@dataclass(frozen=True)
class EventRange:
    """Events with after < id <= until of the store."""

    store: str
    after: int
    until: int

    @property
    def batch(self) -> str:
        """The name of its commit: the same stretch again replaces what was there."""
        return f"{self.store}-{self.after:015d}-{self.until:015d}"


@dataclass(frozen=True)
class OffloadCounts:
    """What became of the events of a stretch.

    `events`: of the types that the lake keeps; `taken`: became rows; `malformed`: could not; `known`: of those taken,
    what the lake had before, by another way; `numbers`: of all events, as `controlplane.store.offload_marks` adds them.
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


def commit_facts(stretch: EventRange, account: OffloadCounts) -> dict[str, Any]:
    """What a commit keeps of its making."""
    return {**asdict(stretch), **asdict(account)}


def range_of(commit: Commit) -> EventRange | None:
    """The stretch of a commit of this job; None for its commits of other things."""
    told = commit.facts
    if not isinstance(told.get("after"), int) or not isinstance(told.get("until"), int):
        return None
    return EventRange(str(told.get("store")), told["after"], told["until"])


def counts_of(commit: Commit) -> OffloadCounts:
    numbers = {name: commit.facts.get(name) for name in OffloadCounts.__dataclass_fields__}
    return OffloadCounts(**{name: value for name, value in numbers.items() if isinstance(value, int)})


def find_mismatch(commit: Commit, held: int) -> str | None:
    """What speaks against a commit where the store holds `held` events of its stretch; None where all add up."""
    account = counts_of(commit)
    rows = sum(part.rows for part in commit.parts if part.table in EVENT_TABLES)
    if held > account.events:
        return f"it saw {account.events} events, and the store has {held}"
    if account.events != account.stored + account.malformed:
        return f"it saw {account.events} events, took {account.stored} and refused {account.malformed}"
    if rows != account.stored - account.duplicates:
        return f"it took {account.stored} events, {account.duplicates} of them known, and wrote {rows} rows of them"
    return None


def store_was_restored(commit: Commit, held: RangeChecksum, lost: bool) -> bool:
    """Whether the store has other events in a stretch than were moved: it was restored from a backup since then.

    `lost`: the byte limit may have deleted some.
    """
    account = counts_of(commit)
    if held.events == account.events:
        return "checksum" in commit.facts and held.seq_sum != account.checksum
    return held.events > account.events or not lost


def contiguous_commits(manifest: LakeManifest, store: str, mark: int) -> Iterator[tuple[EventRange, Commit]]:
    """The commits that go on from `mark`, in their order, up to the first hole; of two the one that reaches further."""
    found: dict[int, tuple[EventRange, Commit]] = {}
    for commit in manifest.commits_of_job(JOB).values():
        stretch = range_of(commit)
        if stretch is None or stretch.store != store or stretch.until <= stretch.after:
            continue
        known = found.get(stretch.after)
        if known is None or known[0].until < stretch.until:
            found[stretch.after] = stretch, commit
    while mark in found:
        stretch, commit = found[mark]
        yield stretch, commit
        mark = stretch.until
