"""Every reading of this server at a moment: the one function behind `/metrics` and the grid. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.metrics.samples import MetricSample, Totals, Wanted, agent_samples, query_samples
from controlplane.model import Agent, QueryStatus, QueryView, Verdict
from listeners.protocol.catalogue import BY_NAME, PREFIX

UNJUDGED = Verdict(QueryStatus.STARTING, "not judged yet")


@dataclass(frozen=True)
class ServerMetrics:
    """Figures of this server itself; totals since its start, seconds of the last commit."""

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
    own: ServerMetrics,
    now: float,
    wanted: Wanted = None,
) -> Iterator[MetricSample]:
    """All that is known at `now` (Unix seconds): of queries, of agents that have not ended, of ourselves.

    `totals_of`: a query's counters by its id (`Window.totals`); `heartbeat_of`: the data of an agent's last
    heartbeat by its id. `wanted`: only metrics of these names.
    """
    if wanted is None or any(name.startswith(PREFIX) for name in wanted):
        for view in views:
            verdict = verdicts.get(view.query_id, UNJUDGED)
            yield from query_samples(view, verdict, now, totals_of(view.query_id), wanted)
    statuses = Counter(verdicts[view.query_id].status for view in views if view.query_id in verdicts)
    for reading in (*agent_samples(agents, heartbeat_of), *_own_readings(own, statuses)):
        if wanted is None or reading.metric.name in wanted:
            yield reading


def _own_readings(own: ServerMetrics, statuses: Mapping[QueryStatus, int]) -> Iterator[MetricSample]:
    figures = {
        "events_stored_total": own.events_stored,
        "events_duplicate_total": own.events_duplicate,
        "events_rejected_total": own.events_rejected,
        "store_commit_seconds": own.commit_seconds,
        "open_actions": own.open_actions,
        "agents": own.agents,
        "rule_evaluations_total": own.rule_evaluations,
        "rule_evaluation_failures_total": own.rule_evaluation_failures,
        "notifications_sent_total": own.notifications_sent,
        "notifications_failed_total": own.notifications_failed,
        "series": own.series,
        "series_refused_total": own.series_refused,
        "scrape_seconds": own.scrape_seconds,
        "lake_events_lost_total": own.lake_events_lost,
        "lake_verified_timestamp_seconds": own.lake_verified_at,
    }
    for name, value in figures.items():
        if value is not None:
            yield MetricSample(BY_NAME[f"controlplane_{name}"], {}, value)
    for status in QueryStatus:
        yield MetricSample(BY_NAME["controlplane_queries"], {"status": status.value}, statuses.get(status, 0))
