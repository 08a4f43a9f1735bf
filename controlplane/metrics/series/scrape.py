"""All samples of this server at one time: the function behind `/metrics` and the grid. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.metrics.agent_samples import agent_samples
from controlplane.metrics.samples import MetricSample, Totals, Wanted, query_samples
from controlplane.model import Agent, QueryStatus, QueryView, Verdict
from listeners.protocol.catalogue import AGENT, BY_NAME, PREFIX

_OF_AGENTS = frozenset(metric.name for metric in AGENT)
UNJUDGED = Verdict(QueryStatus.STARTING, "Starting: no verdict yet.")


@dataclass(frozen=True)
class ServerMetrics:
    """Metrics of the server itself: totals since its start, seconds of the last commit."""

    events_stored: int = 0
    events_duplicate: int = 0
    events_rejected: int = 0
    quota_refused: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by (quota, app)
    apps_given_up: Mapping[str, str] = field(default_factory=dict)  # the policy by app
    ingest_waiting: int = 0
    commit_seconds: float | None = None
    store_bytes: int | None = None
    polls: int = 0
    window_loading: int = 0
    judge_seconds: float | None = None
    verdicts_judged: int = 0
    open_actions: int = 0
    agents: int = 0
    active: bool = True
    rule_evaluations: int = 0
    rule_evaluation_failures: int = 0
    rule_evaluation_seconds: float = 0.0
    rule_slot_lateness_seconds: float = 0.0
    notifications_sent: int = 0
    notifications_failed: int = 0
    alertmanager_alerts_sent: int = 0
    alertmanager_alerts_failed: int = 0
    remote_write_sent: int = 0
    remote_write_dropped: int = 0
    remote_write_pending: int = 0
    series: int = 0
    series_refused: int = 0
    scrape_seconds: float = 0.0
    lake_events_lost: int | None = None
    lake_verified_at: float | None = None
    tls_expires_at: float | None = None
    tls_renewal_failures: float | None = None


def all_samples(
    views: Sequence[QueryView],
    verdicts: Mapping[str, Verdict],
    agents: Iterable[Agent],
    totals_of: Callable[[str], Totals],
    heartbeat_of: Callable[[str], Mapping[str, Any]],
    server: ServerMetrics,
    now: float,
    wanted: Wanted = None,
) -> Iterator[MetricSample]:
    """All samples at `now` (Unix seconds): of queries, of agents that have not ended, of the server.

    `totals_of`: a query's counters by its id (`Window.totals`); `heartbeat_of`: the data of an agent's last
    heartbeat by its id. `wanted`: the names of the metrics to compute, None for all.
    """
    if reads_queries(wanted):
        for view in views:
            verdict = verdicts.get(view.query_id, UNJUDGED)
            yield from query_samples(view, verdict, now, totals_of(view.query_id), wanted)
    statuses = (verdicts[view.query_id].status for view in views if view.query_id in verdicts)
    yield from other_samples(statuses, agents, heartbeat_of, server, wanted)


def other_samples(
    statuses: Iterable[QueryStatus],
    agents: Iterable[Agent],
    heartbeat_of: Callable[[str], Mapping[str, Any]],
    server: ServerMetrics,
    wanted: Wanted = None,
) -> Iterator[MetricSample]:
    """The samples that are not of one query. `statuses`: of all queries."""
    for sample in (*agent_samples(agents, heartbeat_of), *_server_samples(server, Counter(statuses))):
        if wanted is None or sample.metric.name in wanted:
            yield sample


def reads_queries(wanted: Wanted) -> bool:
    """Whether a metric of queries is wanted."""
    return wanted is None or bool(query_metrics(wanted))


def query_metrics(names: frozenset[str]) -> frozenset[str]:
    """Those of the metrics that are of queries."""
    return frozenset(name for name in names if name.startswith(PREFIX) and name not in _OF_AGENTS)


def _server_samples(server: ServerMetrics, statuses: Mapping[QueryStatus, int]) -> Iterator[MetricSample]:
    for name, value in own_figures(server).items():
        yield MetricSample(BY_NAME[name], {}, value)
    for (quota, app), count in server.quota_refused.items():
        yield MetricSample(BY_NAME["controlplane_quota_refused_total"], {"quota": quota, "app": app}, count)
    for app, policy in server.apps_given_up.items():
        yield MetricSample(BY_NAME["controlplane_app_given_up"], {"app": app, "policy": policy}, 1)
    for status in QueryStatus:
        yield MetricSample(BY_NAME["controlplane_queries"], {"status": status.value}, statuses.get(status, 0))


def own_figures(server: ServerMetrics) -> dict[str, float]:
    """The known metrics of the server that have no labels, by name."""
    figures = {
        "events_stored_total": server.events_stored,
        "events_duplicate_total": server.events_duplicate,
        "events_rejected_total": server.events_rejected,
        "ingest_waiting_events": server.ingest_waiting,
        "store_commit_seconds": server.commit_seconds,
        "store_bytes": server.store_bytes,
        "polls": server.polls,
        "window_loading_queries": server.window_loading,
        "judge_seconds": server.judge_seconds,
        "verdicts_judged_total": server.verdicts_judged,
        "open_actions": server.open_actions,
        "agents": server.agents,
        "active": float(server.active),
        "rule_evaluations_total": server.rule_evaluations,
        "rule_evaluation_failures_total": server.rule_evaluation_failures,
        "rule_evaluation_seconds": server.rule_evaluation_seconds,
        "rule_slot_lateness_seconds": server.rule_slot_lateness_seconds,
        "notifications_sent_total": server.notifications_sent,
        "notifications_failed_total": server.notifications_failed,
        "alertmanager_alerts_sent_total": server.alertmanager_alerts_sent,
        "alertmanager_alerts_failed_total": server.alertmanager_alerts_failed,
        "remote_write_samples_sent_total": server.remote_write_sent,
        "remote_write_samples_dropped_total": server.remote_write_dropped,
        "remote_write_samples_pending": server.remote_write_pending,
        "series": server.series,
        "series_refused_total": server.series_refused,
        "scrape_seconds": server.scrape_seconds,
        "lake_events_lost_total": server.lake_events_lost,
        "lake_verified_timestamp_seconds": server.lake_verified_at,
        "tls_certificate_expiry_timestamp_seconds": server.tls_expires_at,
        "tls_renewal_failures_total": server.tls_renewal_failures,
    }
    return {f"controlplane_{name}": value for name, value in figures.items() if value is not None}
