"""The exposition of `GET /metrics`: all samples as OpenMetrics or Prometheus text.

Called by the API; the values come from `controlplane.metrics.series.scrape`, the names from
`listeners.protocol.catalogue`.
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

    `totals_of`: a query's counters since it was first seen, by query id (`Window.totals`); `agents`: all
    agents, with or without a query; `heartbeat_of`: the data of an agent's last heartbeat, by agent id;
    `more`: further samples.
    """
    samples = all_samples(views, statuses, agents, totals_of, heartbeat_of, own, now)
    encode, content_type = _encoder(accept)
    return encode(_Families(chain(samples, more))), content_type


def _encoder(accept: str | None) -> tuple[Callable[[Collector], bytes], str]:
    try:
        return choose_encoder(accept or "")
    except (ValueError, TypeError):  # the client library fails on a version that is not a number
        return generate_latest, CONTENT_TYPE_PLAIN_0_0_4


class _Families(Collector):
    """Samples grouped by metric, as the client library requires."""

    def __init__(self, samples: Iterable[MetricSample]):
        self._families: dict[str, Family] = {}
        for sample in samples:
            name = sample.metric.name
            family = self._families.get(name) or self._families.setdefault(name, _family(sample.metric))
            family.add_sample(name, dict(sample.labels), float(sample.value))

    def collect(self) -> Iterable[Family]:
        return self._families.values()


def _family(metric: Metric) -> Family:
    """An empty family; the client library requires its name without the suffix of its type."""
    name = metric.name.removesuffix("_total").removesuffix("_info")
    return Family(name, metric.help, metric.type, metric.unit)
