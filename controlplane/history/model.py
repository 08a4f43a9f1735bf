"""Requests for a query's history, and the answers. Plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.model import ProgressSample, RunEnd


@dataclass(frozen=True)
class ProgressPoint:
    """Figures of one report, or of a bucket of `resolution` seconds: medians, last state values, total rows.

    A bucket has no run and no batch. Times are Unix seconds, `duration` is in seconds.
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
    """Points of a range, oldest first. `resolution`: of its coarsest part, in seconds; None: all are reports."""

    points: Sequence[ProgressPoint | ProgressSample]
    resolution: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProgressRequest:
    """Points with start <= t <= end; with `step` the last one per step; at most `limit`."""

    query_id: str
    start: float
    end: float
    limit: int
    step: float | None = None


@dataclass(frozen=True)
class PastRun:
    """A run as stored in the lake, times in Unix seconds. `first_seen_at`, `last_seen_at`: its first and last
    event.

    `ended_at` None: no end was recorded and no run followed, so the run may still be active.
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
    """Runs, alerts and actions of a query, oldest first. Alerts and actions are rows of the lake, times in
    Unix seconds.
    """

    runs: Sequence[PastRun] = ()
    alerts: Sequence[dict[str, Any]] = ()
    actions: Sequence[dict[str, Any]] = ()
    notes: Sequence[str] = ()
