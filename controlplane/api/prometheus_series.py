"""Series search: label sets for `series`, `labels` and `label/…/values` of Prometheus' API.

Live series are found completely. The past is searched by probes, since past series are computed on request: a series
that existed only between two probes is not found.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from alerts.matching.labels import Labels, Matcher, matches
from alerts.promql.errors import LimitExceeded
from alerts.promql.series import METRIC_NAME, SeriesSource

#: The recent time is searched completely, as far as a query looks back; earlier times by probes of this length.
RECENT_SECONDS, PROBE_SECONDS = 300.0, 60.0
MAX_PROBES = 12
DEFAULT_RANGE = 3600.0
#: Time limit of a search; then the series found so far are the answer, with a warning.
SEARCH_SECONDS = 10.0
INCOMPLETE = (
    "results may be incomplete: the search reached its limit; request a shorter time range or fewer series"
)
ONLY_NOW = "a selector without a metric name finds only series that are live now"

Reading = tuple[str, Mapping[str, str], float]
Sets = dict[frozenset[tuple[str, str]], Labels]


class LiveSeries(Protocol):
    """The source of series; `controlplane.metrics.series` implements it."""

    def source(self, now: float) -> SeriesSource: ...

    def live(self, now: float) -> Iterable[Reading]:
        """Name, labels and value of every series that has a value at `now`."""


@dataclass(frozen=True)
class FoundSeries:
    """Sorted label sets, with warnings."""

    series: tuple[Labels, ...]
    warnings: tuple[str, ...] = ()


def live_series(source: LiveSeries, now: float) -> list[dict[str, str]]:
    return [
        {METRIC_NAME: name, **{label: value for label, value in labels.items() if value}}
        for name, labels, _ in source.live(now)
    ]


def find(
    source: LiveSeries, selectors: Sequence[Sequence[Matcher]], start: float, end: float, now: float
) -> FoundSeries:
    """Series that match any selector and have a sample from `start` to `end`; without a selector all live series.

    Series over the limits of the source are left out, with a warning.
    """
    found: Sets = {}
    named = [matchers for matchers in selectors if _names_metric(matchers)]
    complete = not named or _search(source.source(now), named, probes(start, min(end, now)), found)
    lacking = [] if complete or end < now - RECENT_SECONDS else named
    by_live = [*lacking, *(matchers for matchers in selectors if matchers not in named)]
    if by_live or not selectors:
        for labels in live_series(source, now):
            if not selectors or any(matches(matchers, labels) for matchers in by_live):
                found.setdefault(frozenset(labels.items()), labels)
    warnings = [] if complete else [INCOMPLETE]
    warnings += [ONLY_NOW] * (len(named) < len(selectors) and end < now - RECENT_SECONDS)
    return FoundSeries(
        tuple(sorted(found.values(), key=lambda labels: sorted(labels.items()))), tuple(warnings)
    )


def _names_metric(matchers: Iterable[Matcher]) -> bool:
    return any(m.name == METRIC_NAME and m.operator == "=" and m.value for m in matchers)


def _search(
    source: SeriesSource,
    selectors: Sequence[Sequence[Matcher]],
    spans: Iterable[tuple[float, float]],
    found: Sets,
) -> bool:
    """Add the series of the spans; False if not all spans could be searched."""
    deadline, complete = time.monotonic() + SEARCH_SECONDS, True
    for start, end in spans:
        for matchers in selectors:
            if time.monotonic() > deadline:
                return False
            try:
                series = source.select(matchers, start, end)
            except LimitExceeded:
                complete = False
                continue
            found |= {frozenset(item.labels.items()): item.labels for item in series if len(item.times)}
    return complete


def probes(start: float, end: float) -> list[tuple[float, float]]:
    """The spans (open at the left) to search, newest first: the recent time, then up to `MAX_PROBES` probes."""
    if end < start:
        return []
    recent = max(start, end - RECENT_SECONDS)
    # A source excludes the left edge of a span; a sample exactly at `start` counts.
    spans = [(recent - 0.001, end)]
    gap = (recent - start) / MAX_PROBES
    if gap > 0:
        tops = [recent - gap * (count + 0.5) for count in range(MAX_PROBES)]
        spans += [(max(top - min(gap, PROBE_SECONDS), start) - 0.001, top) for top in tops]
    return spans


def names(series: Iterable[Labels]) -> list[str]:
    return sorted({name for labels in series for name in labels})


def values(series: Iterable[Labels], name: str) -> list[str]:
    return sorted({labels[name] for labels in series if name in labels})
