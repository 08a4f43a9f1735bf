"""What is known about the capacity of a query, as frozen values.

Times and durations are seconds, sizes bytes, ratios 0 to 1. None means unknown, and `sentence` states why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Slope:
    """Units a second, with the interval that holds it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Throughput:
    """Load and headroom over the last `batches`, which began `seconds` ago.

    `busy_ratio`: share of the time in which a batch ran. `demand`: rows a second that arrive (`arrival`) or, where that
    is unknown, are read (`input`), as `demand_from` states. `capacity`: rows a second that the query can sustain;
    `is_lower_bound`: larger batches may sustain more. `limited_by`: the source option that caps it.
    `catch_up`: seconds until the backlog is read; None where it does not shrink, is unknown, or is at most a batch.
    """

    batches: int
    seconds: float
    busy_ratio: float
    demand: float
    demand_from: str
    capacity: float | None
    is_lower_bound: bool
    limited_by: str | None
    catch_up: float | None
    sentence: str

    @property
    def headroom(self) -> float | None:
        """Rows a second beyond the demand; negative where the query falls behind."""
        return None if self.capacity is None else self.capacity - self.demand


@dataclass(frozen=True)
class BatchPart:
    """A part of the mean batch: its seconds, and their share of the batch."""

    name: str
    seconds: float
    ratio: float


@dataclass(frozen=True)
class Bottleneck:
    """The part that takes most of a batch: `source`, `planning`, `logs`, `tasks`, `state_commit`, `skewed_partition` or
    `other`. `parts`: all of them, largest first."""

    part: str
    ratio: float
    sentence: str
    parts: Sequence[BatchPart]


@dataclass(frozen=True)
class RetentionRunway:
    """When the source deletes rows that the query has not read. `left`: seconds; None where no row comes closer."""

    retention: float
    oldest_unread: float | None
    left: float | None
    sentence: str


@dataclass(frozen=True)
class StateLimit:
    """A limit of the state in `unit` (`rows` or `bytes`); `origin`: the label or setting that states it."""

    unit: str
    value: float
    origin: str


@dataclass(frozen=True)
class StateRunway:
    """Size and growth of the state, and when it reaches `limit`.

    `growth`: None where it does not clearly grow. `earliest`, `latest`: seconds from now, None where not claimed.
    """

    unit: str
    size: float | None
    growth: Slope | None
    limit: StateLimit | None
    earliest: float | None
    latest: float | None
    sentence: str
