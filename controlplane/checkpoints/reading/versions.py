"""What each version of Spark can read in a checkpoint, and what it does about damage. Pure.

From the source of Spark and from runs of 3.5.9 and 4.3.0; between those two the version that brought a change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering

_VERSION = re.compile(r"\s*(\d+)\.(\d+)(?:\.(\d+))?")


@total_ordering
@dataclass(frozen=True)
class SparkVersion:
    """A release of Spark; compared by its three numbers."""

    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    def __lt__(self, other: SparkVersion) -> bool:
        return (self.major, self.minor, self.patch) < (other.major, other.minor, other.patch)

    def since(self, major: int, minor: int) -> bool:
        return (self.major, self.minor) >= (major, minor)

    @property
    def newest_offset_log(self) -> int:
        return 2 if self.since(4, 2) else 1

    @property
    def newest_commit_log(self) -> int:
        return 3 if self.since(4, 3) else 2 if self.since(4, 0) else 1

    @property
    def requires_metadata(self) -> bool:
        """Whether a lost `metadata` beside full logs stops the start; before, a new id is written."""
        return self.since(4, 2)

    @property
    def skips_bad_snapshots(self) -> bool:
        """Whether a bad snapshot is passed over for an older one and its change files."""
        return self.since(4, 1)

    @property
    def verifies_checksums(self) -> bool:
        return self.since(4, 1)

    @property
    def rejects_leftover_state(self) -> bool:
        """Whether state without logs stops the first batch; before, Spark starts over on top of it."""
        return self.since(4, 0)

    @property
    def validates_operators(self) -> bool:
        """Whether the operator metadata (and a missing state/) is looked at before the first batch."""
        return self.since(4, 0)

    @property
    def detects_unfinished_repartition(self) -> bool:
        return self.since(4, 2)


#: What is judged for where neither the user nor the checkpoint names a version.
LATEST = SparkVersion(4, 3, 0)


def parse_version(text: str) -> SparkVersion:
    """`4.3.0`, `4.3` or `4.3.0-SNAPSHOT`. ValueError where it is none."""
    match = _VERSION.match(text)
    if match is None:
        raise ValueError(f"{text!r} is no Spark version such as 4.3.0")
    major, minor, patch = match.groups()
    return SparkVersion(int(major), int(minor), int(patch or 0))


#: Key of the offset log's conf → the first version that writes it, newest first.
_FIRST_WRITERS = (
    ("spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled", SparkVersion(4, 3)),
    ("spark.sql.streaming.queryEvolution.enableSourceEvolution", SparkVersion(4, 3)),
    ("spark.sql.streaming.stateStore.encodingFormat", SparkVersion(4, 0)),
    ("spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan", SparkVersion(3, 5)),
    ("spark.sql.streaming.statefulOperator.useStrictDistribution", SparkVersion(3, 3)),
    ("spark.sql.streaming.stateStore.rocksdb.formatVersion", SparkVersion(3, 2)),
    ("spark.sql.streaming.stateStore.compression.codec", SparkVersion(3, 1)),
    ("spark.sql.streaming.join.stateFormatVersion", SparkVersion(3, 0)),
    ("spark.sql.streaming.aggregation.stateFormatVersion", SparkVersion(2, 4)),
)


def writer_from_conf(conf: dict[str, str]) -> SparkVersion | None:
    """The version whose set of pinned settings this is; the patch is unknown. None where there is no conf."""
    return next((version for key, version in _FIRST_WRITERS if key in conf), None)
