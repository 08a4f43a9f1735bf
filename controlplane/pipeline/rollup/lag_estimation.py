"""How old the oldest row is that a source's batch left unread, estimated from the source's recorded heads. Pure, numpy.

Called by `controlplane.pipeline.rollup.buckets`. As `controlplane.health.lag` does it for one moment, for a day at once and of
whole sources: rows are taken to arrive evenly over the last batches.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Wholes = npt.NDArray[np.int64]
#: The pace of arrival is taken over so many batches of a run.
RATE_BATCHES = 10
MICROS_PER_SECOND = 1_000_000


def estimate_lag_seconds(
    at: Wholes, run: Wholes, batch_id: Wholes, source: Wholes, head: Floats, lag_rows: Floats
) -> Floats:
    """Seconds, in the order of the arguments, one row a source and batch; NaN where unknown, 0 where nothing waits.

    `at`: microseconds; `head`: sum of the latest offsets, NaN where it is not told. Rows may come twice.
    """
    age = np.where(lag_rows == 0, 0.0, np.nan)
    told = np.flatnonzero(~np.isnan(head))
    if not len(told):
        return age
    order = told[np.lexsort([batch_id[told], at[told], source[told], run[told]])]
    order = order[_distinct(run[order], source[order], at[order])]
    # A row that came twice needs its age once: the greatest of a batch counts.
    age[order] = _estimated(at[order], _begins(run[order], source[order]), head[order], lag_rows[order])
    return age


def _distinct(*keys: Wholes) -> npt.NDArray[np.bool_]:
    """Where a key of a sorted list is met first."""
    first = np.ones(len(keys[0]), bool)
    first[1:] = np.logical_or.reduce([np.diff(key) != 0 for key in keys])
    return first


def _begins(*keys: Wholes) -> Wholes:
    """Of each row of a sorted list: where the rows of its key begin."""
    first = np.flatnonzero(_distinct(*keys))
    return np.repeat(first, np.diff(np.append(first, len(keys[0]))))


def _estimated(at: Wholes, begins: Wholes, head: Floats, lag_rows: Floats) -> Floats:
    here = np.arange(len(at))
    before = np.maximum(here - RATE_BATCHES, begins)
    seconds = (at - at[before]) / MICROS_PER_SECOND
    arrived = head - head[before]
    with np.errstate(divide="ignore", invalid="ignore"):
        age = lag_rows * seconds / arrived
    # A head that stood still: the rows are as old as these batches at least. One that went back tells nothing.
    age = np.where(arrived == 0, seconds, np.where(arrived < 0, np.nan, age))
    age = np.where((seconds > 0) & ~np.isnan(lag_rows), age, np.nan)
    return np.where(lag_rows == 0, 0.0, age)
