"""What is asked of a query's past, and what is told of it. Plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.model import ProgressSample, RunEnd


@dataclass(frozen=True)
class ProgressPoint:
    """Figures of one report, or of a bucket of `resolution` seconds: medians, what state was last, rows in all.

    A bucket has no run and no batch. Times in Unix seconds, `duration` in seconds.
    """

    at: float
    trigger_at: float
    run_id: str
    batch_id: int
    duration: float
    input_rows: int
    output_rows: int | None
    input_rows_per_second: float | None
    processed_rows_per_second: float | None
    lag_rows: float | None
    state_rows: int | None
    state_bytes: int | None
    watermark: float | None = None
    resolution: float | None = None


@dataclass(frozen=True)
class ProgressSeries:
    """What is known of a stretch, oldest first. `resolution`: of its coarsest part, seconds; None: reports all."""

    points: Sequence[ProgressPoint | ProgressSample]
    resolution: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProgressRequest:
    """start <= t <= end; with `step` the last of each so many seconds; at most `limit` points."""

    query_id: str
    start: float
    end: float
    limit: int
    step: float | None = None


@dataclass(frozen=True)
class PastRun:
    """A run as the lake tells it, times in Unix seconds. `first_seen_at`, `last_seen_at`: its first and last sign of life.

    `ended_at` None: no end was told and no run followed it, so that it may go on.
    """

    run_id: str
    started_at: float | None = None
    ended_at: float | None = None
    end: RunEnd | None = None
    first_seen_at: float | None = None
    last_seen_at: float | None = None
    failure: str | None = None
    error_class: str | None = None


@dataclass(frozen=True)
class TimelineResult:
    """What happened to a query, oldest first. Alerts and actions are rows of the lake, times in Unix seconds."""

    runs: Sequence[PastRun] = ()
    alerts: Sequence[dict[str, Any]] = ()
    actions: Sequence[dict[str, Any]] = ()
    notes: Sequence[str] = ()
