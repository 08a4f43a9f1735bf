"""Stretches of time, added up and taken apart."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from controlplane.pipeline.rollup import intervals

CASES = {
    "nothing": ([], []),
    "one": ([(1.0, 2.0)], []),
    "apart": ([(5.0, 6.0), (1.0, 2.0)], [(2.0, 5.0)]),
    "touching": ([(1.0, 2.0), (2.0, 3.0)], []),
    "one within another": ([(1.0, 9.0), (2.0, 3.0), (10.0, 11.0)], [(9.0, 10.0)]),
    "one that ends before it begins": ([(1.0, 2.0), (8.0, 4.0), (5.0, 6.0)], [(2.0, 5.0)]),
}


@pytest.mark.parametrize("case", CASES)
def test_gaps_are_what_no_stretch_covers(case: str) -> None:
    spans, expected = CASES[case]
    assert intervals.gaps(spans) == expected


def test_what_lies_within_each_bucket_is_what_counting_states() -> None:
    rng = random.Random(5)
    for _ in range(50):
        points = sorted(rng.sample(range(1000), 2 * rng.randrange(6)))
        spans = [(float(a), float(b)) for a, b in zip(points[::2], points[1::2], strict=True)]
        edges = np.arange(200.0, 801.0, rng.choice([1, 50, 200]))
        counted = [
            sum(a <= second < b for second in range(int(low), int(high)) for a, b in spans)
            for low, high in pairwise(edges)
        ]
        assert intervals.overlap(spans, edges).tolist() == counted
