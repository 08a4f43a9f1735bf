"""All samples of this server at one time: the function behind `/metrics` and the grid. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.metrics.samples import MetricSample, Totals, Wanted, agent_samples, query_samples
from controlplane.model import Agent, QueryStatus, QueryView, Verdict
from listeners.protocol.catalogue import BY_NAME, PREFIX

UNJUDGED = Verdict(QueryStatus.STARTING, "Starting: no verdict yet.")


@dataclass(frozen=True)
class ServerMetrics:
    """Metrics of the server itself: totals since its start, seconds of the last commit."""

    events_stored: int = 0
    events_duplicate: int = 0
    events_rejected: int = 0
    commit_seconds: float | None = None
    open_actions: int = 0
    agents: int = 0
    rule_evaluations: int = 0
    rule_evaluation_failures: int = 0
    notifications_sent: int = 0
    notifications_failed: int = 0
    series: int = 0
    series_refused: int = 0
    scrape_seconds: float = 0.0
    lake_events_lost: int | None = None
    lake_verified_at: float | None = None


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
    if wanted is None or any(name.startswith(PREFIX) for name in wanted):
        for view in views:
            verdict = verdicts.get(view.query_id, UNJUDGED)
            yield from query_samples(view, verdict, now, totals_of(view.query_id), wanted)
    statuses = Counter(verdicts[view.query_id].status for view in views if view.query_id in verdicts)
    for sample in (*agent_samples(agents, heartbeat_of), *_server_samples(server, statuses)):
        if wanted is None or sample.metric.name in wanted:
            yield sample


def _server_samples(server: ServerMetrics, statuses: Mapping[QueryStatus, int]) -> Iterator[MetricSample]:
    figures = {
        "events_stored_total": server.events_stored,
        "events_duplicate_total": server.events_duplicate,
        "events_rejected_total": server.events_rejected,
        "store_commit_seconds": server.commit_seconds,
        "open_actions": server.open_actions,
        "agents": server.agents,
        "rule_evaluations_total": server.rule_evaluations,
        "rule_evaluation_failures_total": server.rule_evaluation_failures,
        "notifications_sent_total": server.notifications_sent,
        "notifications_failed_total": server.notifications_failed,
        "series": server.series,
        "series_refused_total": server.series_refused,
        "scrape_seconds": server.scrape_seconds,
        "lake_events_lost_total": server.lake_events_lost,
        "lake_verified_timestamp_seconds": server.lake_verified_at,
    }
    for name, value in figures.items():
        if value is not None:
            yield MetricSample(BY_NAME[f"controlplane_{name}"], {}, value)
    for status in QueryStatus:
        yield MetricSample(BY_NAME["controlplane_queries"], {"status": status.value}, statuses.get(status, 0))
