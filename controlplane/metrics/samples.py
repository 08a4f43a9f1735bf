"""Compute metric samples of queries and agents: values of the metrics in `listeners.protocol.catalogue`.
Pure.

Batch metrics exist while the newest run is active, so that a series ends with its run. A value that is
unknown or not finite is absent, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeGuard

from controlplane.driver_model import HostLoad
from controlplane.health import lag
from controlplane.health.context import QueryContext, context_at
from controlplane.health.driver_status import DRIVER_GONE_KIND, driver_down
from controlplane.health.host import host_load, overload
from controlplane.health.terminal_status import failure
from controlplane.health.thresholds import DEFAULTS
from controlplane.model import (
    Agent,
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
    for name, own, value in _facts(view, verdict, now, totals, wanted):
        metric = BY_NAME[PREFIX + name] if isinstance(name, str) else name
        if (wanted is None or metric.name in wanted) and _is_finite(value):
            yield MetricSample(metric, {**labels, **own}, value)


def _is_finite(value: float | None) -> TypeGuard[float]:
    """Whether the value is a finite float; an integer too large for a float counts as infinite."""
    try:
        return value is not None and math.isfinite(value)
    except OverflowError:
        return False


def query_labels(view: QueryView) -> dict[str, str]:
    """The user's labels, overridden by `app`, `query` (the name, else 8 digits of the id) and `query_id`."""
    named = {"app": view.app, "query": view.name or view.query_id[:8], "query_id": view.query_id}
    return {**_user_labels(view.labels), **named}


def _user_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The user's labels without those reserved by Prometheus."""
    return {name: value for name, value in labels.items() if not name.startswith("__")}


Fact = tuple[str | Metric, Mapping[str, str], float | None]
NONE: Mapping[str, str] = {}


def _facts(view: QueryView, verdict: Verdict, now: float, totals: Totals, wanted: Wanted) -> Iterator[Fact]:
    yield from _lifecycle(view, verdict)
    if verdict.status is QueryStatus.FAILED:
        yield "query_failure_info", _failure(context_at(view, now, DEFAULTS)), 1
    if verdict.status in (QueryStatus.FAILED, QueryStatus.UNREACHABLE):
        yield from _driver_down(view, verdict, now)
    yield from _counters(totals)
    yield from _checkpoint(view)
    if verdict.status in DOWN | NOT_EXPECTED or (wanted is not None and wanted <= LIFECYCLE_METRICS):
        return
    context = context_at(view, now, DEFAULTS)
    yield from _running_batch(context)
    if context.last is not None:
        yield from _last_batch(context, context.last)
        yield from _sources(context, context.last, wanted)
        yield from _operators(context.last, wanted)


def _lifecycle(view: QueryView, verdict: Verdict) -> Iterator[Fact]:
    yield "query_status", {"status": verdict.status.value}, 1
    yield "query_up", NONE, verdict.status not in DOWN | NOT_EXPECTED
    yield "query_expected", NONE, verdict.status not in NOT_EXPECTED
    if view.run is not None:
        yield "query_info", _info(view, view.run.run_id), 1
        yield "query_start_timestamp_seconds", NONE, view.run.started_at


def _info(view: QueryView, run_id: str) -> dict[str, str]:
    spark_version = view.agent.spark_version if view.agent else None
    facts = {"checkpoint": view.facts.checkpoint, "trigger": view.facts.trigger, "sink": view.facts.sink}
    agent = view.run.agent if view.run else None
    labels = {"run_id": run_id, "agent": agent, "spark_version": spark_version, **facts}
    return {name: value for name, value in labels.items() if value}


def _driver_down(view: QueryView, verdict: Verdict, now: float) -> Iterator[Fact]:
    """The cause is unknown for a past time, of which only the status is recorded."""
    unreachable = verdict.status is QueryStatus.UNREACHABLE
    cause = driver_down(context_at(view, now, DEFAULTS)) or (NO_ANSWER if unreachable else None)
    if cause is not None:
        app_id = view.agent.app_id if view.agent else None
        yield "query_driver_down", {"cause": cause, **({"spark_app_id": app_id} if app_id else {})}, 1


def _failure(context: QueryContext) -> dict[str, str]:
    """The failure of a driver is not that of its queries, although they carry its text."""
    if context.ended_with_driver:
        return {"error_class": DRIVER_GONE_KIND, "retry": "never"}
    found = failure(context)
    return {"error_class": found.kind, "retry": found.retry}


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


#: Metrics of a query that exist whether it runs or not.
LIFECYCLE_METRICS = frozenset(
    PREFIX + name
    for name in (
        "query_status",
        "query_up",
        "query_expected",
        "query_info",
        "query_failure_info",
        "query_driver_down",
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


def _running_batch(context: QueryContext) -> Iterator[Fact]:
    status = context.view.status
    if status is not None:
        yield (
            "batch_age_seconds",
            NONE,
            context.activity_age if context.fresh_status and context.fresh_status.trigger_active else 0.0,
        )
        yield "last_task_finished_timestamp_seconds", NONE, status.last_task_at
    yield "trigger_interval_seconds", NONE, context.view.facts.trigger_interval
    yield "watermark_delay_seconds", NONE, context.view.facts.watermark_delay


def _last_batch(context: QueryContext, last: ProgressSample) -> Iterator[Fact]:
    yield "batch_id", NONE, last.batch_id
    yield "batch_duration_seconds", NONE, last.duration
    yield from (("batch_phase_seconds", {"phase": name}, ms / 1000) for name, ms in last.phases_ms.items())
    yield "input_rows_per_second", NONE, last.input_rows_per_second
    yield "processed_rows_per_second", NONE, last.processed_rows_per_second
    yield "last_progress_timestamp_seconds", NONE, last.at
    yield "utilization_ratio", NONE, _utilization(context.batches)
    yield "watermark_timestamp_seconds", NONE, last.watermark
    yield (
        "watermark_lag_seconds",
        NONE,
        None if last.watermark is None else lag.triggered_at(last) - last.watermark,
    )
    yield "event_time_max_timestamp_seconds", NONE, last.event_time.get("max")


def _utilization(samples: Sequence[ProgressSample]) -> float | None:
    if len(samples) < 2:
        return None
    gap = lag.triggered_at(samples[-1]) - lag.triggered_at(samples[-2])
    return samples[-1].duration / gap if gap > 0 else None


#: Metrics of a source, computed from its index in the query.
_SOURCE: Mapping[str, Callable[[QueryContext, SourceSample, int], float | None]] = {
    "source_lag_offsets": lambda context, source, index: source.lag_offsets,
    "source_lag_seconds": lambda context, source, index: lag.source_lag_seconds(
        context.view, index, context.now
    ),
    "source_catch_up_seconds": lambda context, source, index: lag.catch_up_seconds(
        lag.lag_points(lag.trend_window(context.batches, context.limits) or context.batches, index)
    ),
}
#: The same, of sources whose offsets count rows.
_ROW_SOURCE: Mapping[str, Callable[[QueryContext, SourceSample, int], float | None]] = {
    "source_lag_rows": lambda context, source, index: source.lag_offsets,
    "source_max_partition_lag_rows": lambda context, source, index: max(
        lag.partition_lags(source).values(), default=None
    ),
    "source_arrival_rows_per_second": lambda context, source, index: lag.arrival_rate(context.batches, index),
}


def _sources(context: QueryContext, last: ProgressSample, wanted: Wanted) -> Iterator[Fact]:
    of_all, of_rows = (
        [figure for figure in figures.items() if wanted is None or PREFIX + figure[0] in wanted]
        for figures in (_SOURCE, _ROW_SOURCE)
    )
    counting = context.row_sources if of_rows else frozenset()
    names = distinct_labels(source.name for source in last.sources)
    for index, (name, source) in enumerate(zip(names, last.sources, strict=True)):
        own = {"source": name}
        chosen = [*of_all, *of_rows] if source.name in counting else of_all
        yield from ((figure, own, value_of(context, source, index)) for figure, value_of in chosen)
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
            yield from _custom(operator, own)


def _snapshot_lag(operator: OperatorSample, batch_id: int) -> float | None:
    """Versions since the oldest uploaded snapshot (-1: none yet). Batch N writes version N + 1."""
    uploaded = [value for name, value in operator.metrics.items() if name.startswith(SNAPSHOT_UPLOADED)]
    return batch_id + 1 - max(0.0, min(uploaded)) if uploaded else None


def _custom(operator: OperatorSample, own: Mapping[str, str]) -> Iterator[Fact]:
    named = ((custom_metric(name), value) for name, value in operator.metrics.items())
    return (
        (metric, own, value * metric.factor)
        for metric, value in islice(named, MAX_CUSTOM_METRICS)
        if metric is not None
    )


#: Metric -> field of `HostLoad`.
HOST_FIGURES = {
    "driver_host_load1": "load",
    "driver_host_cpus": "cpus",
    "driver_cpu_limit": "cpu_limit",
    "driver_cpu_throttled_ratio": "throttled_ratio",
    "driver_cpu_throttled_seconds_total": "throttled_seconds",
    "driver_host_memory_bytes": "memory_total",
    "driver_host_memory_available_bytes": "memory_available",
    "driver_memory_pressure_ratio": "memory_pressure",
}


def agent_samples(
    agents: Iterable[Agent], heartbeat_of: Callable[[str], Mapping[str, Any]]
) -> Iterator[MetricSample]:
    """Samples of every agent that has not ended.

    `heartbeat_of`: the data of an agent's last heartbeat, by id.
    """
    for agent in agents:
        if agent.ended_at is not None:
            continue
        labels = {**_user_labels(agent.labels), "app": agent.app, "agent": agent.agent}
        for name, own, value in _agent_facts(agent, heartbeat_of(agent.agent)):
            if _is_finite(value):
                yield MetricSample(BY_NAME[PREFIX + name], {**labels, **own}, value)


def _agent_facts(
    agent: Agent, heartbeat: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, str], float | None]]:
    yield "agent_heartbeat_timestamp_seconds", NONE, agent.last_seen_at
    yield "agent_start_timestamp_seconds", NONE, agent.first_seen_at
    for reason, count in agent.dropped.items():
        yield "agent_events_dropped_total", {"reason": reason}, count
    yield "executors", NONE, _number_at(heartbeat, "executors")
    yield "driver_heap_bytes", NONE, _number_at(heartbeat, "driver", "heapUsed")
    yield "driver_heap_max_bytes", NONE, _number_at(heartbeat, "driver", "heapMax")
    yield "listener_callback_seconds", NONE, _number_at(heartbeat, "callback", "seconds_max")
    yield from _host_facts(host_load(heartbeat))


def _host_facts(host: HostLoad | None) -> Iterator[tuple[str, Mapping[str, str], float | None]]:
    if host is not None:
        if not host.of_client:  # the driver runs elsewhere
            yield "driver_host_overloaded", NONE, overload(host) is not None
        yield from ((metric, NONE, getattr(host, figure)) for metric, figure in HOST_FIGURES.items())


def _number_at(data: Any, *path: str) -> float | None:
    """The number at a path in a JSON value, or None."""
    for name in path:
        data = data.get(name) if isinstance(data, Mapping) else None
    return data if isinstance(data, int | float) and not isinstance(data, bool) else None
