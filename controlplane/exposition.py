"""What `GET /metrics` answers: every reading as OpenMetrics or Prometheus text.

Called by the API; the values come from `controlplane.readings`, the names from `listeners.catalogue`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from controlplane.model import Agent, QueryStatus, QueryView, Verdict
from controlplane.readings import Reading, Totals, agent_readings, query_readings
from listeners.catalogue import BY_NAME, Metric

UNJUDGED = Verdict(QueryStatus.STARTING, "not judged yet")


@dataclass(frozen=True)
class OwnFigures:
    """Figures of this server itself; totals since its start, seconds of the last commit."""

    events_stored: int = 0
    events_duplicate: int = 0
    events_rejected: int = 0
    commit_seconds: float | None = None
    open_actions: int = 0
    agents: int = 0


def _nothing(_: str) -> Mapping[str, Any]:
    return {}


def render(
    views: Sequence[QueryView],
    statuses: Mapping[str, Verdict],
    own: OwnFigures,
    now: float,
    accept: str | None = None,
    totals_of: Callable[[str], Totals] = _nothing,
    agents: Iterable[Agent] = (),
    heartbeat_of: Callable[[str], Mapping[str, Any]] = _nothing,
) -> tuple[bytes, str]:
    """The exposition and its content type; OpenMetrics when `accept` (the request's header) asks for it.

    `totals_of`: a query's counters since it was first seen, by query id (`Window.totals`); `agents`: all of
    them, with a query or without;
    `heartbeat_of`: the data of an agent's last heartbeat, by agent id.
    """
    readings = [*_all_queries(views, statuses, now, totals_of)]
    readings += agent_readings(agents, heartbeat_of)
    readings += _own_readings(
        own, Counter(statuses[v.query_id].status for v in views if v.query_id in statuses)
    )
    encode, content_type = _encoder(accept)
    return encode(_Families(readings)), content_type


def _all_queries(
    views: Iterable[QueryView],
    statuses: Mapping[str, Verdict],
    now: float,
    totals_of: Callable[[str], Totals],
) -> Iterator[Reading]:
    for view in views:
        yield from query_readings(view, statuses.get(view.query_id, UNJUDGED), now, totals_of(view.query_id))


def _own_readings(own: OwnFigures, statuses: Mapping[QueryStatus, int]) -> Iterator[Reading]:
    figures = {
        "events_stored_total": own.events_stored,
        "events_duplicate_total": own.events_duplicate,
        "events_rejected_total": own.events_rejected,
        "store_commit_seconds": own.commit_seconds,
        "open_actions": own.open_actions,
        "agents": own.agents,
    }
    for name, value in figures.items():
        if value is not None:
            yield Reading(BY_NAME[f"controlplane_{name}"], {}, value)
    for status in QueryStatus:
        yield Reading(BY_NAME["controlplane_queries"], {"status": status.value}, statuses.get(status, 0))


def _encoder(accept: str | None) -> tuple[Callable[[Collector], bytes], str]:
    try:
        return choose_encoder(accept or "")
    except (ValueError, TypeError):  # the client library stumbles over a version that is no number
        return generate_latest, CONTENT_TYPE_PLAIN_0_0_4


class _Families(Collector):
    """Readings grouped by metric, as the client library wants them."""

    def __init__(self, readings: Iterable[Reading]):
        self._families: dict[str, Family] = {}
        for reading in readings:
            name = reading.metric.name
            family = self._families.get(name) or self._families.setdefault(name, _family(reading.metric))
            family.add_sample(name, dict(reading.labels), float(reading.value))

    def collect(self) -> Iterable[Family]:
        return self._families.values()


def _family(metric: Metric) -> Family:
    """The client library wants families without the suffix of their kind."""
    name = metric.name.removesuffix("_total").removesuffix("_info")
    return Family(name, metric.help, metric.type, metric.unit)
