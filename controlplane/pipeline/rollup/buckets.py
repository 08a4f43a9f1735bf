"""Compute the buckets of one query and day from its reports, sources and lifecycle events. Pure, numpy over
Arrow.

Called for each query and day by `controlplane.pipeline.rollup.rollups`, on executors. The input is one table
(`INPUT`) with four kinds of rows; `bucket_table` returns one row per bucket. Times are microseconds since
1970, UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from controlplane.lake.schema import ROLLUPS
from controlplane.pipeline.rollup import intervals, lag_estimation

Floats = npt.NDArray[np.float64]
Wholes = npt.NDArray[np.int64]

#: Kinds of rows: a progress report; a source of one; first and last event of a run on a day; a lifecycle
#: event.
REPORT, SOURCE, ACTIVITY, EVENT = range(4)
#: Input columns besides `day`, `query_id` and `kind`: name → Spark type.
WHOLES = (
    "run batch_id at until duration_ms input_rows output_rows dropped_rows lag_rows watermark state_rows "
    "state_bytes source"
).split()
NUMBERS = ("input_rows_per_second", "processed_rows_per_second", "head", "lag")
TEXTS = ("app", "name", "event")
INPUT = {
    "day": "int",
    "query_id": "string",
    "kind": "int",
    **dict.fromkeys(WHOLES, "bigint"),
    **dict.fromkeys(NUMBERS, "double"),
    **dict.fromkeys(TEXTS, "string"),
}
#: Bucket widths in seconds, by table.
BUCKET_SECONDS = {"rollup_1m": 60, "rollup_1h": 3600, "rollup_1d": 86400}
MICROS_PER_SECOND = 1_000_000
DAY_MICROS = 86400 * MICROS_PER_SECOND
#: A run without a recorded end counts as up for so long after its last event.
GRACE_MICROS = 60 * MICROS_PER_SECOND
QUANTILES = {
    "duration_seconds": (10, 50, 90, 95, 99),
    "input_rows_per_second": (10, 50, 90),
    "processed_rows_per_second": (50,),
    "lag_rows": (10, 50, 90, 95),
    "lag_seconds": (50, 95),
    "state_rows": (10, 50, 90),
}
#: Output columns: Spark types by name; `bucket_at` in microseconds.
_SPARK = {column.name: column.type.value for column in ROLLUPS["rollup_1m"].columns}
OUTPUT = {**_SPARK, "bucket_at": "bigint", "width": "int"}
_ARROW = {"string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "double": pa.float64()}
_TYPES = {name: _ARROW[spark] for name, spark in OUTPUT.items()}


def bucket_table(day: int, query_id: str, rows: pa.Table, objective: float) -> pa.Table:
    """The buckets of all widths: columns of a rollup, with `bucket_at` in microseconds and `width` in
    seconds.

    `day`: days since 1970; `objective`: seconds. Rows of adjacent days show which runs were up and the
    arrival rate.
    """
    kinds = _int_column(rows, "kind")
    batches = BatchColumns.of(rows.filter(kinds == REPORT), rows.filter(kinds == SOURCE), day * DAY_MICROS)
    signs, events = rows.filter(kinds == ACTIVITY), rows.filter(kinds == EVENT)
    activity = RunActivity.of(signs, events, day * DAY_MICROS)
    app, name = _names(pa.concat_tables([signs, events]), day)
    found = [
        _bucketed(batches, activity, day * DAY_MICROS, width, objective) for width in BUCKET_SECONDS.values()
    ]
    whole = {item: np.concatenate([part[item] for part in found]) for item in found[0]}
    count = len(whole["bucket_at"])
    texts = {"app": app, "query": name or query_id[:8], "query_id": query_id}
    name_columns = {column: pa.array([text] * count, pa.string()) for column, text in texts.items()}
    return pa.table(
        name_columns | {column: _arrow(values, column) for column, values in whole.items()}
    ).select(list(OUTPUT))


def _arrow(values: npt.NDArray[Any], name: str) -> pa.Array:
    """NaN becomes null; integer columns get integers."""
    mask = np.isnan(values) if values.dtype.kind == "f" else None
    return pa.array(values, mask=mask).cast(_TYPES[name])


def _int_column(rows: pa.Table, name: str) -> Wholes:
    """An integer column without nulls."""
    return np.asarray(rows[name].to_numpy(), np.int64)


def _float_column(rows: pa.Table, name: str) -> Floats:
    """A column as floats, NaN for null."""
    return np.asarray(rows[name].cast(pa.float64()).to_numpy(), float)


def _names(signs: pa.Table, day: int) -> tuple[str | None, str | None]:
    """Application and query name, from the last event of the day, else the last event of all.

    Each separately: a termination in an event log has no query name.
    """
    rows = signs.select(["at", "until", "app", "name"]).to_pylist()

    def last(what: str) -> str | None:
        known = [(row["at"] // DAY_MICROS == day, row["until"], row[what]) for row in rows if row[what]]
        return str(max(known)[2]) if known else None

    return last("app"), last("name")


@dataclass(frozen=True)
class BatchColumns:
    """Batches of one day in the order of their triggers; unknown figures are NaN."""

    at: Wholes
    figures: Mapping[str, Floats]

    @cached_property
    def ascending(self) -> dict[str, Wholes]:
        """Positions of the known values of each figure, ascending by value."""
        return {name: _ascending(self.figures[name]) for name in QUANTILES}

    @staticmethod
    def of(reports: pa.Table, sources: pa.Table, start: int) -> BatchColumns:
        """Each report once, from `start` on; earlier reports and sources only provide the arrival rate."""
        keys = np.array([_int_column(reports, name) for name in ("at", "run", "batch_id")])
        tie = [
            _int_column(reports, "source"),
            _float_column(reports, "input_rows"),
            _float_column(reports, "duration_ms"),
        ]
        order = np.lexsort([*tie, *keys[::-1]])
        first = _first_of_each(keys[:, order])
        kept = order[first]
        kept = kept[keys[0, kept] >= start]
        at = keys[0, kept]
        own = {name: _float_column(reports, name)[kept] for name in _REPORT_COLUMNS}
        lag = _lag_seconds(keys[:, kept], own["lag_rows"], sources)
        watermark = own.pop("watermark")
        watermark_lag = np.where(watermark > 0, (at - watermark) / MICROS_PER_SECOND, np.nan)
        more = {
            "duration_seconds": own.pop("duration_ms") / 1000,
            "lag_seconds": lag,
            "watermark_lag_seconds": watermark_lag,
        }
        return BatchColumns(at, own | more)


_REPORT_COLUMNS = (
    "duration_ms input_rows output_rows dropped_rows input_rows_per_second processed_rows_per_second lag_rows "
    "watermark state_rows state_bytes"
).split()


def _ascending(values: Floats) -> Wholes:
    order = np.argsort(values)
    found: Wholes = order[: np.count_nonzero(~np.isnan(values))]  # NaN sorts last
    return found


def _first_of_each(keys: Wholes) -> npt.NDArray[np.bool_]:
    """The first occurrence of each key in sorted keys (one per column)."""
    first = np.ones(keys.shape[1], bool)
    first[1:] = (np.diff(keys, axis=1) != 0).any(axis=0)
    return first


def _lag_seconds(keys: Wholes, lag_rows: Floats, sources: pa.Table) -> Floats:
    """Maximum age over each batch's sources, in the order of `keys`; 0 where there is no backlog."""
    names = ("at", "run", "batch_id", "source")
    at, run, batch_id, source = (_int_column(sources, name) for name in names)
    head, waiting = _float_column(sources, "head"), _float_column(sources, "lag")
    age = lag_estimation.estimate_lag_seconds(at, run, batch_id, source, head, waiting)
    source_keys = np.array([at, run, batch_id])
    both = np.concatenate([keys, source_keys], axis=1)
    order = np.lexsort(both[::-1])
    number = np.empty(both.shape[1], np.int64)
    number[order] = np.cumsum(_first_of_each(both[:, order]))
    worst = np.full(len(order) + 1, -np.inf)
    known = ~np.isnan(age)
    np.maximum.at(worst, number[keys.shape[1] :][known], age[known])
    found = worst[number[: keys.shape[1]]]
    found[np.isneginf(found)] = np.nan
    return np.where(np.isnan(found) & (lag_rows == 0), 0.0, found)


@dataclass(frozen=True)
class RunActivity:
    """Start and failure times of runs on the day, and the spans when no run was up."""

    starts: Wholes
    failures: Wholes
    down: Sequence[intervals.Span]

    @staticmethod
    def of(signs: pa.Table, events: pa.Table, start: int) -> RunActivity:
        """From first and last events of runs, and lifecycle events, of the day and its neighbors."""
        runs: dict[int, list[int]] = {}
        for run, at, until in _row_tuples(signs, "run", "at", "until"):
            known = runs.setdefault(run, [at, until])
            runs[run] = [min(known[0], at), max(known[1], until)]
        began = _first_times(events, "started")
        ended = _first_times(events, "terminated")
        failed = [at for (run, at) in _failures(events, ended)]
        starts = [began.get(run, first) for run, (first, _) in runs.items()]
        spans = [_up_span(runs[run], began.get(run), ended.get(run)) for run in runs]
        return RunActivity(_of_day(starts, start), _of_day(failed, start), intervals.gaps(spans))


def _of_day(times: Sequence[int], start: int) -> Wholes:
    return np.array(sorted(at for at in times if start <= at < start + DAY_MICROS), np.int64)


def _row_tuples(rows: pa.Table, *names: str) -> list[tuple[int, ...]]:
    return list(zip(*(rows[name].to_pylist() for name in names), strict=True))


def _first_times(events: pa.Table, event: str) -> dict[int, int]:
    """Run → first time of an event: it occurs once, however often it is reported."""
    found: dict[int, int] = {}
    for run, at, which in zip(*(events[name].to_pylist() for name in ("run", "at", "event")), strict=True):
        if which.removesuffix("!") == event:
            found[run] = min(at, found.get(run, at))
    return found


def _failures(events: pa.Table, ended: Mapping[int, int]) -> set[tuple[int, int]]:
    """Runs that ended with an exception (their event has a `!`), and failed starts, each once."""
    found = set()
    for run, at, which in zip(*(events[name].to_pylist() for name in ("run", "at", "event")), strict=True):
        if which == "terminated!":
            found.add((run, ended[run]))
        elif which == "start_failed!":
            found.add((run, at))
    return found


def _up_span(signs: Sequence[int], began: int | None, ended: int | None) -> intervals.Span:
    first, last = signs
    return min(first, first if began is None else began), max(
        last, last + GRACE_MICROS if ended is None else ended
    )


@dataclass(frozen=True)
class BatchBuckets:
    """Batches by bucket. `number`: each batch's bucket within the day; `ascending`: see `BatchColumns`."""

    number: Wholes
    figures: Mapping[str, Floats]
    ascending: Mapping[str, Wholes]

    @cached_property
    def places(self) -> Wholes:
        """The first batch of each bucket that has batches."""
        return np.flatnonzero(np.diff(self.number, prepend=-1))

    def summed(self, name: str) -> Floats:
        """Sum per bucket."""
        return self._reduced(name, np.add, 0.0)

    def most(self, name: str) -> Floats:
        """Maximum per bucket."""
        return self._reduced(name, np.maximum, -np.inf)

    def _reduced(self, name: str, how: np.ufunc, neutral: float) -> Floats:
        """Reduce the known values; NaN where there are none."""
        values = self.figures[name]
        known = ~np.isnan(values)
        if not len(self.places):
            return np.zeros(0)
        has_value = np.logical_or.reduceat(known, self.places)
        found = how.reduceat(np.where(known, values, neutral), self.places)
        return np.where(has_value, found, np.nan)

    def ends(self, name: str) -> tuple[Floats, Floats]:
        """First and last known value of each bucket."""
        known = np.flatnonzero(~np.isnan(self.figures[name]))
        own = self.number[known]
        first, last = self._empty(), self._empty()
        if len(known):
            begins = np.flatnonzero(np.diff(own, prepend=-1))
            ends = np.append(begins[1:], len(own)) - 1
            where = np.searchsorted(self.number[self.places], own[begins])
            first[where] = self.figures[name][known[begins]]
            last[where] = self.figures[name][known[ends]]
        return first, last

    def quantiles(self, name: str, percents: Sequence[int]) -> dict[str, Floats]:
        """Exact quantiles of the known values, interpolated between the two nearest."""
        known = self.ascending[name]
        found = {f"{name}_p{percent}": self._empty() for percent in percents}
        if not len(known):
            return found
        # Values are sorted already: a stable sort by the small bucket numbers is fast and needed once per
        # width.
        own = self.number[known].astype(np.uint16)
        order = np.argsort(own, kind="stable")
        own, values = own[order], self.figures[name][known[order]]
        begins = np.flatnonzero(np.diff(own, prepend=-1))
        counts = np.diff(np.append(begins, len(own)))
        where = np.searchsorted(self.number[self.places], own[begins])
        for percent in percents:
            place = (counts - 1) * (percent / 100)
            below = np.floor(place).astype(np.int64)
            low = values[begins + below]
            high = values[begins + np.minimum(below + 1, counts - 1)]
            found[f"{name}_p{percent}"][where] = low + (high - low) * (place - below)
        return found

    def _empty(self) -> Floats:
        return np.full(len(self.places), np.nan)


def _bucketed(
    batches: BatchColumns, activity: RunActivity, start: int, width: int, objective: float
) -> dict[str, npt.NDArray[Any]]:
    """The figures of every non-empty bucket of a width, by column name."""
    step = width * MICROS_PER_SECOND
    buckets = BatchBuckets((batches.at - start) // step, batches.figures, batches.ascending)
    edges = start + np.arange(DAY_MICROS // step + 1) * step
    down = intervals.overlap(activity.down, edges.astype(float)) / MICROS_PER_SECOND
    starts, failures = (
        np.bincount((t - start) // step, minlength=len(down)) for t in (activity.starts, activity.failures)
    )
    held = buckets.number[buckets.places]
    counts = np.zeros(len(down), np.int64)
    counts[held] = np.diff(np.append(buckets.places, len(batches.at)))
    chosen = np.flatnonzero((counts > 0) | (down > 0) | (starts > 0) | (failures > 0))
    spread = _scatter(held, chosen)
    own = {name: spread(values) for name, values in _figures(buckets).items()}
    judged, good = _objective_counts(buckets, objective)
    return own | {
        "width": np.full(len(chosen), width),
        "bucket_at": edges[chosen],
        "batches": counts[chosen],
        "starts": starts[chosen],
        "failures": failures[chosen],
        "downtime_seconds": down[chosen],
        "busy_seconds": np.nan_to_num(own["busy_seconds"]),
        "input_rows": np.nan_to_num(own["input_rows"]),
        "slo_batches": np.nan_to_num(spread(judged)),
        "slo_good": np.nan_to_num(spread(good)),
    }


def _scatter(held: Wholes, chosen: Wholes) -> Callable[[Floats], Floats]:
    """Map values from buckets that have batches to all returned buckets: NaN in the others."""
    where = np.searchsorted(chosen, held)

    def spread(values: Floats) -> Floats:
        whole = np.full(len(chosen), np.nan)
        whole[where] = values
        return whole

    return spread


def _figures(buckets: BatchBuckets) -> dict[str, Floats]:
    """Figures of the buckets that have batches."""
    found = {name: buckets.summed(name) for name in ("input_rows", "output_rows", "dropped_rows")}
    found["busy_seconds"] = buckets.summed("duration_seconds")
    for name, percents in QUANTILES.items():
        found |= buckets.quantiles(name, percents)
    most = "duration_seconds lag_rows lag_seconds watermark_lag_seconds state_rows state_bytes".split()
    found |= {f"{name}_max": buckets.most(name) for name in most}
    found["state_rows_first"], found["state_rows_last"] = buckets.ends("state_rows")
    found["state_bytes_last"] = buckets.ends("state_bytes")[1]
    return found


def _objective_counts(buckets: BatchBuckets, objective: float) -> tuple[Floats, Floats]:
    """Per bucket: batches that can be evaluated, and those that met the objective."""
    lag, duration = buckets.figures["lag_seconds"], buckets.figures["duration_seconds"]
    known = ~(np.isnan(lag) & np.isnan(duration))
    good = known & ~(lag > objective) & ~(duration > objective)
    if not len(buckets.places):
        return np.zeros(0), np.zeros(0)
    return (
        np.add.reduceat(known.astype(float), buckets.places),
        np.add.reduceat(good.astype(float), buckets.places),
    )
