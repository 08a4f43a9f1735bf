"""Rollups once more, in plain pandas and loops, as the documentation of the tables states; and random data for both."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pandas as pd

Row = dict[str, Any]
WIDTHS = {"rollup_1m": 60, "rollup_1h": 3600, "rollup_1d": 86400}
QUANTILES = {
    "duration_seconds": (10, 50, 90, 95, 99),
    "input_rows_per_second": (10, 50, 90),
    "processed_rows_per_second": (50,),
    "lag_rows": (10, 50, 90, 95),
    "lag_seconds": (50, 95),
    "state_rows": (10, 50, 90),
}


@dataclass
class Lake:
    """Rows of the raw tables."""

    progress: list[Row] = field(default_factory=list)
    sources: list[Row] = field(default_factory=list)
    lifecycle: list[Row] = field(default_factory=list)


def of_width(rows: Any, table: str) -> Any:
    """Of a DataFrame of Spark's, as `rolled` gives it: the rows of one of the tables."""
    return rows.where(rows["width"] == WIDTHS[table]).drop("width")


# -- data ----------------------------------------------------------------------------------------------


def invented(seed: int, first: date, days: int, queries: int = 6) -> Lake:
    """Runs that begin, crash and go on over midnight; reports twice, without figures, of none to three sources."""
    rng, lake = random.Random(seed), Lake()
    begin = datetime(first.year, first.month, first.day, tzinfo=UTC)
    for number in range(queries):
        at, end, run = begin + timedelta(seconds=rng.uniform(0, 40_000)), begin + timedelta(days=days), 0
        while at < end:
            at = _run(rng, lake, f"{seed:04x}{number:04x}-0000-4000-8000-000000000000", number, run, at, end)
            at += timedelta(seconds=rng.choice([1, 30, 300, 5_000, 40_000]))
            run += 1
    for rows in (lake.progress, lake.sources, lake.lifecycle):
        rows += [dict(row) for row in rows if rng.random() < 0.05]
        rng.shuffle(rows)
    return lake


def _run(
    rng: random.Random, lake: Lake, query_id: str, number: int, run: int, at: datetime, end: datetime
) -> datetime:
    whose: Row = {
        "app": f"app {number % 2}",
        "query_id": query_id,
        "run_id": f"{query_id[:8]}-1111-4000-8000-{run:012d}",
        "name": None if number == 1 else f"query {number}",
    }
    sources, heads, ends = (0, 1, 2, 3)[number % 4], [0.0] * 3, [0.0] * 3
    stateful = number % 2 == 0
    if rng.random() < 0.7:
        lake.lifecycle.append(
            {**whose, "event": "started", "reported_at": at, "exception": None, "error_class": None}
        )
    for batch in range(rng.randrange(1, 600)):
        at += timedelta(milliseconds=rng.choice([1_000, 7_500, 60_000, 300_000]))
        if at >= end:
            return at
        if rng.random() < 0.02:
            lake.lifecycle.append(
                {**whose, "event": "idle", "reported_at": at, "exception": None, "error_class": None}
            )
            continue
        rows = rng.choice([0, rng.randrange(5_000)])
        for source in range(sources):
            heads[source] += rng.choice([0, rng.randrange(10_000)])
            heads[source] = 0.0 if rng.random() < 0.002 else heads[source]
            ends[source] = min(heads[source], ends[source] + rng.choice([10_000, rng.randrange(10_000)]))
        lake.progress.append(_report(rng, whose, batch, at, rows, stateful, sources, heads, ends))
        lake.sources += [
            _source(rng, whose, batch, at, source, heads[source], ends[source]) for source in range(sources)
        ]
    if rng.random() < 0.7:
        failed = rng.random() < 0.5
        reported = {"exception": "it broke" if failed else None, "error_class": None}
        lake.lifecycle.append(
            {**whose, "event": "terminated", "reported_at": at + timedelta(seconds=1), **reported}
        )
    if rng.random() < 0.2:
        reported = {"run_id": None, "event": "start_failed", "reported_at": at + timedelta(seconds=2)}
        lake.lifecycle.append({**whose, **reported, "exception": "no such table", "error_class": None})
    return at


def _report(
    rng: random.Random,
    whose: Row,
    batch: int,
    at: datetime,
    rows: int,
    stateful: bool,
    sources: int,
    heads: Sequence[float],
    ends: Sequence[float],
) -> Row:
    duration = rng.choice([None, 250, rng.randrange(400_000), rng.randrange(9_000), rng.randrange(9_000)])
    waiting = sum(int(heads[source] - ends[source]) for source in range(sources))
    return {
        **whose,
        "batch_id": batch,
        "trigger_at": at,
        "duration_ms": duration,
        "input_rows": rows,
        "output_rows": rng.choice([None, rows // 2]) if stateful else None,
        "dropped_rows": rng.randrange(5) if stateful else None,
        "input_rows_per_second": rng.choice([None, rows / 7]),
        "processed_rows_per_second": rows / 3,
        "lag_rows": waiting if sources else None,
        "watermark": rng.choice(
            [None, at - timedelta(seconds=rng.randrange(900)), datetime(1970, 1, 1, tzinfo=UTC)]
        ),
        "state_rows": rng.choice([None, rng.randrange(10_000)]) if stateful else None,
        "state_bytes": rng.randrange(10**9) if stateful else None,
        "origin": "agent",
    }


def _source(
    rng: random.Random, whose: Row, batch: int, at: datetime, source: int, head: float, end: float
) -> Row:
    reported, counts_rows = rng.random() > 0.02, rng.random() > 0.1
    return {
        **{name: whose[name] for name in ("app", "query_id", "run_id")},
        "batch_id": batch,
        "trigger_at": at,
        "source": source,
        "latest_total": head if reported else None,
        "end_total": end,
        "lag_rows": int(head - end) if reported and counts_rows else None,
    }


# -- rollups -------------------------------------------------------------------------------------------


def rollups(lake: Lake, day: date, objective: float) -> dict[str, pd.DataFrame]:
    """The tables `rollup_*` of one day, by name, in the order of query and bucket."""
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    ids = sorted({row["query_id"] for row in [*lake.progress, *lake.lifecycle]})
    rows: dict[str, list[Row]] = {table: [] for table in WIDTHS}
    for query_id in ids:
        own = Lake(*([r for r in part if r["query_id"] == query_id] for part in vars(lake).values()))
        batches, lifecycle = _batches(own, start), _lifecycle(own, start)
        for table, width in WIDTHS.items():
            rows[table] += _buckets(own, query_id, batches, lifecycle, start, width, objective)
    return {table: pd.DataFrame(found) for table, found in rows.items()}


def _batches(own: Lake, start: datetime) -> pd.DataFrame:
    durations = _durations(own, start)
    found: dict[tuple[Any, ...], Row] = {}
    for row in own.progress:
        key = row["trigger_at"], row["run_id"], row["batch_id"]
        if start <= row["trigger_at"] < start + timedelta(days=1):
            found[key] = row
    rows = []
    for key in sorted(found):
        row = found[key]
        known = [age for age in durations.get(key, []) if age is not None]
        lag = max(known, default=0.0 if row["lag_rows"] == 0 else None)
        mark = row["watermark"]
        behind = (
            (row["trigger_at"] - mark).total_seconds() if mark is not None and mark.timestamp() > 0 else None
        )
        duration = None if row["duration_ms"] is None else row["duration_ms"] / 1000
        rows.append(
            {**row, "lag_seconds": lag, "watermark_lag_seconds": behind, "duration_seconds": duration}
        )
    return pd.DataFrame(rows)


def _durations(own: Lake, start: datetime) -> dict[tuple[Any, ...], list[float | None]]:
    """Of each batch, the ages of the oldest unread rows of its sources."""
    trails: dict[tuple[Any, ...], dict[datetime, tuple[Row, float]]] = {}
    found: dict[tuple[Any, ...], list[float | None]] = {}
    for row in own.sources:
        inside = start - timedelta(hours=1) <= row["trigger_at"] < start + timedelta(days=1)
        if inside and row["latest_total"] is not None:
            trail = trails.setdefault((row["run_id"], row["source"]), {})
            trail[row["trigger_at"]] = (row, row["latest_total"])
    for trail in trails.values():
        points = [trail[at] for at in sorted(trail)]
        for place, (row, head) in enumerate(points):
            earlier, before = points[max(0, place - 10)]
            seconds = (row["trigger_at"] - earlier["trigger_at"]).total_seconds()
            key = row["trigger_at"], row["run_id"], row["batch_id"]
            age: float | None
            waiting = max(0.0, head - row["end_total"]) if row["lag_rows"] is None else row["lag_rows"]
            if waiting == 0:
                age = 0.0
            elif seconds <= 0 or head < before:
                age = None
            else:
                age = seconds if head == before else waiting * seconds / (head - before)
            found.setdefault(key, []).append(age)
    return found


@dataclass
class _Lifecycle:
    starts: list[datetime]
    failures: list[datetime]
    down: list[tuple[datetime, datetime]]


def _lifecycle(own: Lake, start: datetime) -> _Lifecycle:
    low, high = start - timedelta(days=1), start + timedelta(days=2)
    signs: dict[str, list[tuple[datetime, datetime]]] = {}
    began: dict[str, datetime] = {}
    ended: dict[str, datetime] = {}
    broke: dict[str, datetime] = {}
    failures = []
    for row in own.progress:
        if low <= row["trigger_at"] < high:
            end = row["trigger_at"] + timedelta(milliseconds=row["duration_ms"] or 0)
            signs.setdefault(row["run_id"], []).append((row["trigger_at"], end))
    for row in own.lifecycle:
        if not low <= row["reported_at"] < high:
            continue
        if row["event"] == "start_failed":
            failures.append(row["reported_at"])
            continue
        signs.setdefault(row["run_id"], []).append((row["reported_at"], row["reported_at"]))
        if row["event"] == "started":
            began[row["run_id"]] = row["reported_at"]
        if row["event"] == "terminated":
            ended[row["run_id"]] = row["reported_at"]
            if row["exception"] is not None:
                broke[row["run_id"]] = row["reported_at"]
    first = {run: began.get(run, min(item[0] for item in reported)) for run, reported in signs.items()}
    last = {run: max(item[1] for item in reported) for run, reported in signs.items()}
    over = {
        run: max(end, ended[run]) if run in ended else end + timedelta(minutes=1) for run, end in last.items()
    }
    low_end = {run: min(first[run], *(item[0] for item in reported)) for run, reported in signs.items()}
    down, up_to = [], None
    for begin, end in sorted((low_end[run], over[run]) for run in signs):
        if up_to is not None and begin > up_to:
            down.append((up_to, begin))
        up_to = end if up_to is None else max(up_to, end)
    return _Lifecycle(list(first.values()), [*set(failures), *broke.values()], down)


def _buckets(
    own: Lake,
    query_id: str,
    batches: pd.DataFrame,
    lifecycle: _Lifecycle,
    start: datetime,
    width: int,
    objective: float,
) -> Iterator[Row]:
    inside = (start - timedelta(days=1), start + timedelta(days=2))
    if not any(
        inside[0] <= (r.get("trigger_at") or r["reported_at"]) < inside[1]
        for r in [*own.progress, *own.lifecycle]
    ):
        return
    step, buckets = timedelta(seconds=width), range(86400 // width)
    down = dict.fromkeys(buckets, 0.0)
    for begin, end in lifecycle.down:
        for number in range(max(0, (begin - start) // step), min(len(buckets), (end - start) // step + 1)):
            low, high = start + number * step, start + (number + 1) * step
            down[number] += max(0.0, (min(end, high) - max(begin, low)).total_seconds())
    starts = [(at - start) // step for at in lifecycle.starts]
    failures = [(at - start) // step for at in lifecycle.failures]
    figures = _figures(batches, start, step, objective) if len(batches) else pd.DataFrame()
    for number in buckets:
        batched = number in figures.index
        if batched or down[number] or number in starts or number in failures:
            yield {
                "app": (own.progress + own.lifecycle)[0]["app"],
                "query": (own.progress + own.lifecycle)[0]["name"] or query_id[:8],
                "query_id": query_id,
                "bucket_at": start + number * step,
                "starts": starts.count(number),
                "failures": failures.count(number),
                "downtime_seconds": down[number],
                **NOTHING,
                **(figures.loc[number].to_dict() if batched else {}),
            }


NOTHING = dict.fromkeys(("batches", "input_rows", "busy_seconds", "slo_batches", "slo_good"), 0)


def _figures(batches: pd.DataFrame, start: datetime, step: timedelta, objective: float) -> pd.DataFrame:
    """By the number of the bucket."""
    names = [*QUANTILES, "input_rows", "output_rows", "dropped_rows", "watermark_lag_seconds", "state_bytes"]
    numbers = (batches["trigger_at"] - start) // step
    figures = batches[names].astype(float)
    groups = figures.groupby(numbers)
    worst = figures[["lag_seconds", "duration_seconds"]].max(axis=1)
    found = {
        "batches": groups.size(),
        "input_rows": groups["input_rows"].sum(),
        "busy_seconds": groups["duration_seconds"].sum(),
        "output_rows": groups["output_rows"].sum(min_count=1),
        "dropped_rows": groups["dropped_rows"].sum(min_count=1),
        "state_rows_first": groups["state_rows"].first(),
        "state_rows_last": groups["state_rows"].last(),
        "state_bytes_last": groups["state_bytes"].last(),
        "slo_batches": worst.notna().groupby(numbers).sum(),
        "slo_good": (worst <= objective).groupby(numbers).sum(),
    }
    for name in "duration_seconds lag_rows lag_seconds watermark_lag_seconds state_rows state_bytes".split():
        found[f"{name}_max"] = groups[name].max()
    for name, percents in QUANTILES.items():
        for percent in percents:
            found[f"{name}_p{percent}"] = groups[name].quantile(percent / 100)
    return pd.DataFrame(found)
