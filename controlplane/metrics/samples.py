"""Compute metric samples of queries: values of `listeners.protocol.catalogue`. Pure.

Batch metrics exist while the newest run is active, so that a series ends with its run. A value that is
unknown or not finite is absent, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from statistics import median_low
from typing import TypeGuard

from controlplane.capacity.declared import retention, state_limits
from controlplane.capacity.state_runway import operator_size
from controlplane.health import lag, rates
from controlplane.health.checkpoint_drivers import overlapping
from controlplane.health.context import QueryContext, context_at
from controlplane.health.driver_status import DRIVER_GONE_KIND, driver_down
from controlplane.health.run_failure import CHANGED_KIND
from controlplane.health.terminal_status import failure
from controlplane.health.thresholds import DEFAULTS
from controlplane.metrics.rewinds import METRICS as REWINDS
from controlplane.metrics.rewinds import recent_steps, rewound_batches, rewound_offsets
from controlplane.model import (
    OperatorSample,
    ProgressSample,
    QueryStatus,
    QueryView,
    SourceSample,
    Verdict,
)
from listeners.protocol.catalogue import (
    BY_NAME,
    PREFIX,
    SNAPSHOT_UPLOADED,
    STATE_METRICS,
    Metric,
    custom_metric,
    distinct_labels,
    source_metric,
)
from listeners.protocol.wire import NO_ANSWER

#: Statuses of a query that does not run although it should, and of one that is not expected to run.
DOWN = frozenset(
    {
        QueryStatus.FAILED,
        QueryStatus.LOST,
        QueryStatus.UNREACHABLE,
        QueryStatus.BACKING_OFF,
        QueryStatus.RESTARTING,
    }
)
NOT_EXPECTED = frozenset({QueryStatus.STOPPED, QueryStatus.FINISHED, QueryStatus.RETIRED})
_NOT_RUNNING = DOWN | NOT_EXPECTED
#: Prefixes of custom metrics of operators that may be in no list.
UNLISTED = (PREFIX + "rocksdb_", PREFIX + "state_custom_")
#: Limit of custom metrics for one operator or source.
MAX_CUSTOM_METRICS = 100

Totals = Mapping[str, float]
#: Names of metrics, None for all. Expensive metrics are computed only if wanted.
Wanted = frozenset[str] | None


@dataclass(frozen=True)
class MetricSample:
    """One value of one metric."""

    metric: Metric
    labels: Mapping[str, str]
    value: float


def query_samples(
    view: QueryView, verdict: Verdict, now: float, totals: Totals, wanted: Wanted = None
) -> Iterator[MetricSample]:
    """All samples of one query. `totals`: its counters as named by `Window.totals`."""
    labels = query_labels(view)
    steady, timed = steady_facts(view, verdict, now, totals, wanted), timed_facts(view, verdict, now, wanted)
    for metric, own, value in finite_facts(chain(steady, timed), wanted):
        yield MetricSample(metric, {**labels, **own} if own else labels, value)


def finite_facts(facts: Iterable[Fact], wanted: Wanted) -> Iterator[tuple[Metric, Mapping[str, str], float]]:
    """The wanted facts whose value is known and finite, with their metrics."""
    for name, own, value in facts:
        metric = _METRICS[name] if isinstance(name, str) else name
        if (wanted is None or metric.name in wanted) and is_finite(value):
            yield metric, own, value


def is_finite(value: float | None) -> TypeGuard[float]:
    """Whether the value is a finite float; an integer too large for a float counts as infinite."""
    try:
        return value is not None and math.isfinite(value)
    except OverflowError:
        return False


def query_labels(view: QueryView) -> dict[str, str]:
    """The user's labels, overridden by `app`, `query` (the name, else 8 digits of the id) and `query_id`."""
    named = {"app": view.app, "query": view.name or view.query_id[:8], "query_id": view.query_id}
    return {**user_labels(view.labels), **named}


def user_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The user's labels without those reserved by Prometheus."""
    return {name: value for name, value in labels.items() if not name.startswith("__")}


#: The name of a metric without its prefix (or the metric), its labels besides those of the query, its value.
Fact = tuple[str | Metric, Mapping[str, str], float | None]
NONE: Mapping[str, str] = {}
_METRICS = {name.removeprefix(PREFIX): metric for name, metric in BY_NAME.items() if name.startswith(PREFIX)}


def timed_facts(view: QueryView, verdict: Verdict, now: float, wanted: Wanted) -> Iterator[Fact]:
    """The facts of a query that change with time alone."""
    if _without_batches(verdict, wanted):
        return
    context = context_at(view, now, DEFAULTS)
    if view.run is not None and context.last is None and context.last_idle_at is None:
        yield "query_starting_seconds", NONE, now - view.run.started_at
    if view.status is not None:
        active = context.fresh_status is not None and context.fresh_status.trigger_active
        yield "batch_age_seconds", NONE, context.activity_age if active else 0.0
    if context.last is not None and (wanted is None or PREFIX + "source_lag_seconds" in wanted):
        for index, name in enumerate(distinct_labels(source.name for source in context.last.sources)):
            yield "source_lag_seconds", {"source": name}, lag.source_lag_seconds(view, index, now)


def _without_batches(verdict: Verdict, wanted: Wanted) -> bool:
    return verdict.status in _NOT_RUNNING or (wanted is not None and wanted <= LIFECYCLE_METRICS)


def steady_facts(
    view: QueryView, verdict: Verdict, now: float, totals: Totals, wanted: Wanted
) -> Iterator[Fact]:
    """The facts of a query that hold until its next event."""
    yield from _lifecycle(view, verdict, wanted)
    if verdict.status is QueryStatus.FAILED:
        yield "query_failure_info", _failure(context_at(view, now, DEFAULTS)), 1
    if verdict.status is QueryStatus.LOST:
        yield from _driver_silent(context_at(view, now, DEFAULTS))
    if verdict.status in (QueryStatus.FAILED, QueryStatus.UNREACHABLE):
        yield from _driver_down(view, verdict, now)
    yield from _counters(totals)
    yield from _checkpoint(view)
    if _without_batches(verdict, wanted):
        return
    context = context_at(view, now, DEFAULTS)
    yield from _running_batch(view)
    if context.last is not None:
        yield from _last_batch(context, context.last)
        yield from _sources(context, context.last, wanted)
        yield from _operators(context.last, wanted)
        yield from _state_limits(view, context.last)


def _lifecycle(view: QueryView, verdict: Verdict, wanted: Wanted) -> Iterator[Fact]:
    yield "query_status", {"status": verdict.status.value}, 1
    yield "query_up", NONE, verdict.status not in DOWN | NOT_EXPECTED
    yield "query_expected", NONE, verdict.status not in NOT_EXPECTED
    if (hold := view.supervised.hold) is not None:
        yield "restart_given_up", {"policy": hold.policy, "code": hold.code}, 1
    if (incident := view.supervised.incident) is not None:
        found = {"incident": incident.id, "kind": incident.cause.kind.value, "cause": incident.cause.value}
        yield "query_incident", found, 1
    if len(view.writers) > 1 and (others := overlapping(view)):
        yield "query_checkpoint_drivers", NONE, 1 + len(others)
    if view.run is not None:
        if wanted is None or PREFIX + "query_info" in wanted:
            yield "query_info", _info(view, view.run.run_id), 1
        yield "query_start_timestamp_seconds", NONE, view.run.started_at


def _info(view: QueryView, run_id: str) -> dict[str, str]:
    spark_version = view.agent.spark_version if view.agent else None
    facts = {name: getattr(view.facts, name) for name in ("checkpoint", "trigger", "sink", "output_mode")}
    agent = view.run.agent if view.run else None
    labels = {"run_id": run_id, "agent": agent, "spark_version": spark_version, **facts}
    labels["unnamed"] = None if view.name else "true"
    labels["temporary_checkpoint"] = "true" if view.facts.checkpoint_is_temporary else None
    return {name: value for name, value in labels.items() if value}


def _driver_down(view: QueryView, verdict: Verdict, now: float) -> Iterator[Fact]:
    """The cause is unknown for a past time, of which only the status is recorded."""
    unreachable = verdict.status is QueryStatus.UNREACHABLE and not view.outlives_agent
    cause = driver_down(context_at(view, now, DEFAULTS)) or (NO_ANSWER if unreachable else None)
    if cause is not None:
        yield "query_driver_down", {"cause": cause, **_app_id(view)}, 1


def _driver_silent(context: QueryContext) -> Iterator[Fact]:
    if context.active and context.silent:
        yield "query_driver_silent", _app_id(context.view), 1


def _app_id(view: QueryView) -> dict[str, str]:
    app_id = view.agent.app_id if view.agent else None
    return {"spark_app_id": app_id} if app_id else {}


def _failure(context: QueryContext) -> dict[str, str]:
    """The failure of a driver is not that of its queries, although they carry its text."""
    if context.ended_with_driver:
        return {"error_class": DRIVER_GONE_KIND, "retry": "never"}
    found = failure(context)
    kind = found.kind if found.change is None else CHANGED_KIND
    return {"error_class": kind, "retry": found.retry}


COUNTERS = {
    "batches": ("batches_total", ""),
    "batches_unreported": ("batches_unreported_total", ""),
    "input_rows": ("input_rows_total", ""),
    "output_rows": ("output_rows_total", ""),
    "starts": ("query_starts_total", ""),
    "failures": ("query_failures_total", "error_class"),
    "source_input_rows": ("source_input_rows_total", "source"),
    "state_rows_updated": ("state_rows_updated_total", "operator"),
    "state_rows_removed": ("state_rows_removed_total", "operator"),
    "state_rows_dropped_by_watermark": ("state_rows_dropped_by_watermark_total", "operator"),
}


#: Metrics of a query that change with time alone.
_TIMED = ("query_starting_seconds", "batch_age_seconds", "source_lag_seconds")
TIMED_METRICS = frozenset(PREFIX + name for name in _TIMED)
#: Metrics of a query that exist whether it runs or not.
LIFECYCLE_METRICS = frozenset(
    PREFIX + name
    for name in (
        *("query_status", "query_up", "query_expected"),
        *("query_info", "query_failure_info", "query_incident"),
        *("restart_given_up", "query_checkpoint_drivers"),
        "query_driver_down",
        "query_driver_silent",
        "query_start_timestamp_seconds",
        "checkpoint_findings",
        "checkpoint_bytes",
        "checkpoint_files",
        "checkpoint_last_commit_timestamp_seconds",
        *(name for name, _ in COUNTERS.values()),
    )
)


def _counters(totals: Totals) -> Iterator[Fact]:
    for key, value in totals.items():
        counted, _, label = key.partition("|")
        if counted in COUNTERS:
            name, label_name = COUNTERS[counted]
            yield name, {label_name: label} if label_name else NONE, value


def _checkpoint(view: QueryView) -> Iterator[Fact]:
    """Metrics of the newest checkpoint inventory, whether the query runs or not."""
    seen = view.checkpoint
    if seen is None or view.retired_at is not None:
        return
    for (check, severity), count in seen.counts.items():
        yield "checkpoint_findings", {"check": check, "severity": severity}, count
    yield "checkpoint_bytes", NONE, seen.bytes
    yield "checkpoint_files", NONE, seen.files
    yield "checkpoint_last_commit_timestamp_seconds", NONE, seen.committed_at


def _running_batch(view: QueryView) -> Iterator[Fact]:
    if view.status is not None:
        yield "last_task_finished_timestamp_seconds", NONE, view.status.last_task_at
    yield "trigger_interval_seconds", NONE, view.facts.trigger_interval
    yield "watermark_delay_seconds", NONE, view.facts.watermark_delay


def _last_batch(context: QueryContext, last: ProgressSample) -> Iterator[Fact]:
    yield "batch_id", NONE, last.batch_id
    yield "batch_duration_seconds", NONE, last.duration
    yield from (("batch_phase_seconds", {"phase": name}, ms / 1000) for name, ms in last.phases_ms.items())
    yield "input_rows_per_second", NONE, rates.input_rate(context.batches)
    yield "processed_rows_per_second", NONE, rates.processing_rate(last)
    yield "last_progress_timestamp_seconds", NONE, last.at
    yield "utilization_ratio", NONE, _utilization(context.batches)
    yield "watermark_timestamp_seconds", NONE, last.watermark
    behind = None if last.watermark is None else lag.triggered_at(last) - last.watermark
    yield "watermark_lag_seconds", NONE, behind
    yield "event_time_max_timestamp_seconds", NONE, last.event_time.get("max")


def _utilization(samples: Sequence[ProgressSample]) -> float | None:
    if len(samples) < 2:
        return None
    gap = lag.triggered_at(samples[-1]) - lag.triggered_at(samples[-2])
    return samples[-1].duration / gap if gap > 0 else None


#: Metrics of a source, computed from its index in the query.
_SOURCE: Mapping[str, Callable[[QueryContext, SourceSample, int], float | None]] = {
    "source_lag_offsets": lambda context, source, index: source.lag_offsets,
    "source_catch_up_seconds": lambda context, source, index: lag.catch_up_seconds(
        lag.lag_points(lag.trend_window(context.batches, context.limits) or context.batches, index)
    ),
    "source_retention_seconds": lambda context, source, index: retention(context.view.labels),
}
#: The same, of sources whose offsets count rows.
_ROW_SOURCE: Mapping[str, Callable[[QueryContext, SourceSample, int], float | None]] = {
    "source_lag_rows": lambda context, source, index: source.lag_offsets,
    "source_max_partition_lag_rows": lambda context, source, index: max(
        lag.partition_lags(source).values(), default=None
    ),
    "source_median_partition_lag_rows": lambda context, source, index: median_low(
        lag.partition_lags(source).values() or (math.nan,)
    ),
    "source_arrival_rows_per_second": lambda context, source, index: lag.arrival_rate(context.batches, index),
}


def _sources(context: QueryContext, last: ProgressSample, wanted: Wanted) -> Iterator[Fact]:
    of_all, of_rows = (
        [figure for figure in figures.items() if wanted is None or PREFIX + figure[0] in wanted]
        for figures in (_SOURCE, _ROW_SOURCE)
    )
    rewinds = wanted is None or not wanted.isdisjoint(REWINDS)
    steps = recent_steps(context.view.progress, context.batches) if rewinds else []
    counting = context.row_sources if of_rows or rewinds else frozenset()
    names = distinct_labels(source.name for source in last.sources)
    yield "rewound_batches", NONE, rewound_batches(steps) or None
    for index, (name, source) in enumerate(zip(names, last.sources, strict=True)):
        own = {"source": name}
        chosen = [*of_all, *of_rows] if source.name in counting else of_all
        yield from ((figure, own, value_of(context, source, index)) for figure, value_of in chosen)
        if source.name in counting:
            yield "source_rewound_rows", own, rewound_offsets(steps, index) or None
        if wanted is None or not wanted <= BY_NAME.keys():
            yield from _reported(source, own)


def _reported(source: SourceSample, own: Mapping[str, str]) -> Iterator[Fact]:
    """The source's own metrics, which Spark writes as text."""
    for name, text in islice(source.metrics.items(), MAX_CUSTOM_METRICS):
        metric = source_metric(name)
        if metric is not None:
            yield metric, own, _number(text, metric.factor)


def _number(text: str, factor: float) -> float | None:
    try:
        return float(text) * factor
    except ValueError:
        return None


def _operators(last: ProgressSample, wanted: Wanted) -> Iterator[Fact]:
    for name, operator in zip(distinct_labels(op.name for op in last.operators), last.operators, strict=True):
        own = {"operator": name}
        yield "state_rows", own, operator.rows_total
        yield "state_memory_bytes", own, operator.memory_bytes
        yield "state_commit_seconds", own, operator.commit_ms / 1000
        yield "state_shuffle_partitions", own, operator.shuffle_partitions
        yield "state_snapshot_lag_versions", own, _snapshot_lag(operator, last.batch_id)
        if wanted is None or not wanted <= BY_NAME.keys():
            yield from _custom(operator, own, wanted)


def _state_limits(view: QueryView, last: ProgressSample) -> Iterator[Fact]:
    for limit in state_limits(view.labels) if last.operators else ():
        size = sum(operator_size(operator, limit.unit) for operator in last.operators)
        yield "state_limit_ratio", {"unit": limit.unit}, size / limit.value


def _snapshot_lag(operator: OperatorSample, batch_id: int) -> float | None:
    """Versions since the oldest uploaded snapshot (-1: none yet). Batch N writes version N + 1."""
    uploaded = [value for name, value in operator.metrics.items() if name.startswith(SNAPSHOT_UPLOADED)]
    return batch_id + 1 - max(0.0, min(uploaded)) if uploaded else None


def _custom(operator: OperatorSample, own: Mapping[str, str], wanted: Wanted) -> Iterator[Fact]:
    known = None if wanted is None else _wanted_figures(wanted)
    names = operator.metrics if known is None else [name for name in known if name in operator.metrics]
    named = ((custom_metric(name), operator.metrics[name]) for name in names)
    return (
        (metric, own, value * metric.factor)
        for metric, value in islice(named, MAX_CUSTOM_METRICS)
        if metric is not None
    )


@lru_cache(maxsize=8)
def _wanted_figures(wanted: frozenset[str]) -> tuple[str, ...] | None:
    """Spark's names of the wanted custom metrics; None if one of them is in no list."""
    listed = {metric.name: name for name, metric in STATE_METRICS.items()}
    if any(name.startswith(UNLISTED) and name not in listed for name in wanted):
        return None
    return tuple(name for metric, name in listed.items() if metric in wanted)
