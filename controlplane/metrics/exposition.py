"""What `GET /metrics` answers: every reading as OpenMetrics or Prometheus text.

Called by the API; the values come from `controlplane.metrics.series.scrape`, the names from `listeners.protocol.catalogue`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from controlplane.metrics.samples import MetricSample, Totals
from controlplane.metrics.series.scrape import ServerMetrics, all_samples
from controlplane.model import Agent, QueryView, Verdict
from listeners.protocol.catalogue import Metric


def _nothing(_: str) -> Mapping[str, Any]:
    return {}


def render(
    views: Sequence[QueryView],
    statuses: Mapping[str, Verdict],
    own: ServerMetrics,
    now: float,
    accept: str | None = None,
    totals_of: Callable[[str], Totals] = _nothing,
    agents: Iterable[Agent] = (),
    heartbeat_of: Callable[[str], Mapping[str, Any]] = _nothing,
    more: Iterable[MetricSample] = (),
) -> tuple[bytes, str]:
    """The exposition and its content type; OpenMetrics when `accept` (the request's header) asks for it.

    `totals_of`: a query's counters since it was first seen, by query id (`Window.totals`); `agents`: all of
    them, with a query or without;
    `heartbeat_of`: the data of an agent's last heartbeat, by agent id; `more`: readings besides these.
    """
    told = all_samples(views, statuses, agents, totals_of, heartbeat_of, own, now)
    encode, content_type = _encoder(accept)
    return encode(_Families(chain(told, more))), content_type


def _encoder(accept: str | None) -> tuple[Callable[[Collector], bytes], str]:
    try:
        return choose_encoder(accept or "")
    except (ValueError, TypeError):  # the client library stumbles over a version that is no number
        return generate_latest, CONTENT_TYPE_PLAIN_0_0_4


class _Families(Collector):
    """Readings grouped by metric, as the client library wants them."""

    def __init__(self, readings: Iterable[MetricSample]):
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
