"""Which series there are: label sets for `series`, `labels` and `label/…/values` of Prometheus' API.

What is live now is known whole. The past is looked at in glances, since a series of the past is
computed when it is asked for: one that lived only between two of them is not found.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from alerts.matching.labels import Labels, Matcher, matches
from alerts.promql.errors import LimitExceeded
from alerts.promql.series import METRIC_NAME, SeriesSource

#: How far back is looked at without a gap (as far as a query does), and how long each glance at the time before
#: is, in seconds.
RECENT_SECONDS, PROBE_SECONDS = 300.0, 60.0
MAX_PROBES = 12
DEFAULT_RANGE = 3600.0
#: So long it may take; then what was found so far is the answer, with a warning.
SEARCH_SECONDS = 10.0
INCOMPLETE = (
    "results may be incomplete: that is a lot to look through; ask for a shorter time or fewer series"
)
ONLY_NOW = "a selector that does not say which metric finds only what is live now"

Reading = tuple[str, Mapping[str, str], float]
Sets = dict[frozenset[tuple[str, str]], Labels]


class LiveSeries(Protocol):
    """Where series come from; `controlplane.metrics.series` implements it."""

    def source(self, now: float) -> SeriesSource: ...

    def live(self, now: float) -> Iterable[Reading]:
        """Name, labels and value of every series that has a value at `now`."""


@dataclass(frozen=True)
class FoundSeries:
    """Label sets in their order, and what has to be said of them."""

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
    """Series that pass any of the selectors and have a sample from `start` to `end`; no selector: all that is live.

    What is too much for the source is left out, with a warning.
    """
    found: Sets = {}
    named = [matchers for matchers in selectors if _names_metric(matchers)]
    complete = not named or _look(source.source(now), named, glances(start, min(end, now)), found)
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


def _look(
    source: SeriesSource,
    selectors: Sequence[Sequence[Matcher]],
    spans: Iterable[tuple[float, float]],
    found: Sets,
) -> bool:
    """Adds what the spans have; whether all of them could be looked at."""
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
            found |= {frozenset(one.labels.items()): one.labels for one in series if len(one.times)}
    return complete


def glances(start: float, end: float) -> list[tuple[float, float]]:
    """The spans (open at the left) to look at, newest first: the recent time whole, before that GLANCES."""
    if end < start:
        return []
    recent = max(start, end - RECENT_SECONDS)
    # A source leaves out what lies at the left edge; a sample right at `start` counts.
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
