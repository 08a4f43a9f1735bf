"""Estimate the age of the oldest unread row of a source's batches from recorded latest offsets. Pure, numpy.

Called by `controlplane.pipeline.rollup.buckets`. `controlplane.health.lag` does the same for one time and per
partition; this works on a whole day and on whole sources, and assumes that rows arrive evenly over the last
batches.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Wholes = npt.NDArray[np.int64]
#: Batches of a run over which the arrival rate is measured.
RATE_BATCHES = 10
MICROS_PER_SECOND = 1_000_000


def estimate_lag_seconds(
    at: Wholes, run: Wholes, batch_id: Wholes, source: Wholes, latest: Floats, lag: Floats
) -> Floats:
    """Age in seconds for each source and batch, in input order; NaN where unknown, 0 without backlog.

    `at`: microseconds; `latest`: sum of the latest offsets, NaN where unknown; `lag`: backlog in the same unit. Rows may
    occur twice.
    """
    age = np.where(lag == 0, 0.0, np.nan)
    known = np.flatnonzero(~np.isnan(latest))
    if not len(known):
        return age
    order = known[np.lexsort([batch_id[known], at[known], source[known], run[known]])]
    order = order[_distinct(run[order], source[order], at[order])]
    # Setting the age of one duplicate suffices: the maximum of a batch counts.
    age[order] = _estimated(at[order], _begins(run[order], source[order]), latest[order], lag[order])
    return age


def _distinct(*keys: Wholes) -> npt.NDArray[np.bool_]:
    """The first occurrence of each key in sorted keys."""
    first = np.ones(len(keys[0]), bool)
    first[1:] = np.logical_or.reduce([np.diff(key) != 0 for key in keys])
    return first


def _begins(*keys: Wholes) -> Wholes:
    """For each row of a sorted list, where the rows of its key begin."""
    first = np.flatnonzero(_distinct(*keys))
    return np.repeat(first, np.diff(np.append(first, len(keys[0]))))


def _estimated(at: Wholes, begins: Wholes, latest: Floats, lag: Floats) -> Floats:
    here = np.arange(len(at))
    before = np.maximum(here - RATE_BATCHES, begins)
    seconds = (at - at[before]) / MICROS_PER_SECOND
    arrived = latest - latest[before]
    with np.errstate(divide="ignore", invalid="ignore"):
        age = lag * seconds / arrived
    # Where the latest offset did not change, the rows are at least as old as these batches. A decrease gives
    # no estimate.
    age = np.where(arrived == 0, seconds, np.where(arrived < 0, np.nan, age))
    age = np.where((seconds > 0) & ~np.isnan(lag), age, np.nan)
    return np.where(lag == 0, 0.0, age)
