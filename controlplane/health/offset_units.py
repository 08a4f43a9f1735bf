"""Whether a source's offsets count rows, and how often a batch reads its source. Pure.

The offsets of Kafka count rows. Those of other sources may count seconds (`rate`), versions (Delta Lake) or anything
else: they count rows only if the rows read agree with the offsets read in several batches. Called by
`controlplane.health`, `controlplane.metrics` and the API for the batches of a query, and by `controlplane.lake` for
single reports.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice

from controlplane.cached_properties import cached_property
from controlplane.model import ProgressSample, SourceSample

#: Batches that must agree.
MIN_AGREEING = 3
Offsets = Mapping[str, float] | None

_KAFKA = re.compile(r"Kafka(V2|Source)?\w*\[")
#: Each offset of the rate source is a second of so many rows.
_RATE = re.compile(r"RateStreamV2\[rowsPerSecond=(\d+), rampUpTimeSeconds=0,")
_PARTITION = re.compile(r".+/\d+")


@lru_cache(maxsize=4096)
def _is_kafka(description: str) -> bool:
    return _KAFKA.match(description) is not None


def _by_partition(offsets: Offsets) -> bool:
    """Whether the offsets have Kafka's form: topic, then partition."""
    return bool(offsets) and all(_PARTITION.fullmatch(part) for part in offsets or ())


def offsets_read(start: Offsets, end: Offsets) -> float | None:
    """By how much the offsets of a batch advanced; None where its start is unknown, as in a first batch."""
    if not start or not end or start.keys() != end.keys():
        return None
    read = sum(end.values()) - sum(start.values())
    return read if math.isfinite(read) else None


def agreement(description: str, start: Offsets, end: Offsets, input_rows: int) -> bool | None:
    """Whether one batch supports that offsets count rows; None where it shows nothing.

    With offsets by partition the rows may be a multiple: a query that reads its source twice.
    """
    if _is_kafka(description):
        return True
    read = offsets_read(start, end)
    if read is None or read <= 0:
        return None
    return input_rows % read == 0 if _by_partition(end) else input_rows == read


def counts_rows_in(description: str, start: Offsets, end: Offsets, input_rows: int) -> bool:
    """Whether the offsets count rows, judged by one report alone."""
    found = agreement(description, start, end, input_rows)
    return _by_partition(end) if found is None else found


class RecentProgress(tuple[ProgressSample, ...]):
    """The progress of a query, oldest first, with what verdicts, rows and metrics derive from it again and again."""

    @cached_property
    def row_sources(self) -> frozenset[str]:
        """What the function `row_sources` returns."""
        return _row_sources(self)

    @cached_property
    def runs(self) -> frozenset[str]:
        """The ids of the runs that reported them."""
        return frozenset(sample.run_id for sample in self)


def row_sources(samples: Sequence[ProgressSample]) -> frozenset[str]:
    """The names of the newest batch's sources whose offsets count rows. `samples`: oldest first."""
    return samples.row_sources if isinstance(samples, RecentProgress) else _row_sources(samples)


def _row_sources(samples: Sequence[ProgressSample]) -> frozenset[str]:
    newest = samples[-1].sources if samples else ()
    return frozenset(source.name for index, source in enumerate(newest) if _counts_rows(samples, index))


def _counts_rows(samples: Sequence[ProgressSample], index: int) -> bool:
    newest = samples[-1].sources[index]
    if _is_kafka(newest.description):
        return True
    shown = (agreement(s.description, s.start, s.end, s.input_rows) for s in _reports(samples, index))
    found = list(islice((each for each in shown if each is not None), MIN_AGREEING))
    if _by_partition(newest.end):
        return not found or any(found)
    return len(found) == MIN_AGREEING and all(found)


def _reports(samples: Sequence[ProgressSample], index: int) -> Iterator[SourceSample]:
    """The reports of the newest batch's source at this index, newest first."""
    name = samples[-1].sources[index].name
    for sample in reversed(samples):
        if index < len(sample.sources) and sample.sources[index].name == name:
            yield sample.sources[index]


def lag_rows(sample: ProgressSample, counting: frozenset[str]) -> float | None:
    """The backlog in rows over the sources in `counting` (`row_sources`); None if it is unknown of all."""
    known = [source.lag_offsets for source in sample.sources if source.name in counting]
    return sum_known(known)


def sum_known(values: Iterable[float | None]) -> float | None:
    """The sum of the known values; None without any."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def reads_per_batch(samples: Sequence[ProgressSample]) -> int | None:
    """How often the last batches read their source: 2 where each row was read twice; None if once or unknown.

    Only the offsets of Kafka and of the rate source have a known number of rows, and only the same whole multiple in
    several batches is evidence: markers of transactions make Kafka's offsets advance by more than the rows.
    """
    newest = samples[-1].sources if samples else ()
    found = (_multiple(samples, i, _rows_per_offset(source.description)) for i, source in enumerate(newest))
    return max((times for times in found if times is not None), default=None)


@lru_cache(maxsize=4096)
def _rows_per_offset(description: str) -> int:
    """How many rows an offset is; 0 if unknown."""
    rate = _RATE.match(description)
    return int(rate[1]) if rate else int(_is_kafka(description))


def _multiple(samples: Sequence[ProgressSample], index: int, rows_per_offset: int) -> int | None:
    if not rows_per_offset:
        return None
    read = ((s.input_rows, offsets_read(s.start, s.end)) for s in _reports(samples, index))
    times = [
        rows / (offsets * rows_per_offset)
        for rows, offsets in islice(((r, o) for r, o in read if o), MIN_AGREEING)
    ]
    agree = len(times) == MIN_AGREEING and len(set(times)) == 1 and times[0] >= 2
    return int(times[0]) if agree and times[0].is_integer() else None
