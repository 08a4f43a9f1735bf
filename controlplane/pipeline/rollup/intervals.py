"""Time spans: when a query was up, and how long it was down within each bucket. Pure, numpy.

Called by `controlplane.pipeline.rollup.buckets`. All times have the same unit and origin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Span = tuple[float, float]  # from, to


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Merge overlapping and adjacent spans. Spans that end before they begin are dropped."""
    found: list[Span] = []
    for begin, end in sorted(span for span in spans if span[1] >= span[0]):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def gaps(spans: Iterable[Span]) -> list[Span]:
    """The gaps between spans; none before the first and after the last."""
    up = merge_spans(spans)
    return [(before[1], after[0]) for before, after in pairwise(up)]


def overlap(spans: Sequence[Span], edges: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Overlap of the spans (sorted, disjoint) with the interval between each edge and the next."""
    if not spans:
        return np.zeros(len(edges) - 1)
    points = np.array(spans, float).ravel()
    lengths = np.diff(np.array(spans, float), axis=1).ravel()
    ends = np.cumsum(lengths)
    covered = np.column_stack([ends - lengths, ends]).ravel()
    return np.diff(np.interp(edges, points, covered))
