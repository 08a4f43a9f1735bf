"""What each Spark version can read in a checkpoint, and how it handles damage. Pure.

Sources: Spark's source code and classes, and runs of 3.5.9 and 4.3.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering

_VERSION = re.compile(r"\s*(\d+)\.(\d+)(?:\.(\d+))?")


@total_ordering
@dataclass(frozen=True)
class SparkVersion:
    """A Spark release, ordered by its three numbers."""

    major: int
    minor: int
    patch: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    def __lt__(self, other: SparkVersion) -> bool:
        return (self.major, self.minor, self.patch) < (other.major, other.minor, other.patch)

    def since(self, major: int, minor: int) -> bool:
        """Whether this is release major.minor or a later one."""
        return (self.major, self.minor) >= (major, minor)

    @property
    def newest_offset_log(self) -> int:
        """The highest version of the offset log that it reads."""
        return 2 if self.since(4, 2) else 1

    @property
    def newest_commit_log(self) -> int:
        """The highest version of the commit log that it reads."""
        return 3 if self.since(4, 3) else 2 if self.since(4, 0) else 1

    @property
    def requires_metadata(self) -> bool:
        """Whether a start fails without `metadata` beside full logs; older releases write a new id."""
        return self.since(4, 2)

    @property
    def skips_bad_snapshots(self) -> bool:
        """Whether it falls back from a bad snapshot to an older one and its change files."""
        return self.since(4, 2)

    @property
    def verifies_checksums(self) -> bool:
        """Whether it verifies `name.crc` files beside state files."""
        return self.since(4, 1)

    @property
    def rejects_leftover_state(self) -> bool:
        """Whether the first batch fails on state without logs; older releases start over on top of it."""
        return self.since(4, 0)

    @property
    def validates_operators(self) -> bool:
        """Whether it checks the operator metadata before the first batch."""
        return self.since(4, 0)

    @property
    def detects_unfinished_repartition(self) -> bool:
        """Whether a start fails on an unfinished offline repartition."""
        return self.since(4, 2)


#: The target where neither the user nor the checkpoint names a version.
LATEST = SparkVersion(4, 3, 0)


def parse_version(text: str) -> SparkVersion:
    """Parse `4.3.0`, `4.3` or `4.3.0-SNAPSHOT`. Raises ValueError for anything else."""
    match = _VERSION.match(text)
    if match is None:
        raise ValueError(f"{text!r} is not a Spark version such as 4.3.0")
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
    """The newest version whose pinned settings these are, without the patch number; None for an empty conf."""
    return next((version for key, version in _FIRST_WRITERS if key in conf), None)
