"""The exposition of `GET /metrics`: all samples as OpenMetrics or Prometheus text.

Rendered by `controlplane.metrics.exposition_pages` for the API; the values come from `controlplane.metrics.samples` and
`controlplane.metrics.series.scrape`, the names from `listeners.protocol.catalogue`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.exposition import ALLOWUTF8, UNDERSCORES, escape_label_name
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from alerts.matching.labels import Labels, Matcher, matches
from alerts.promql.series import METRIC_NAME
from controlplane.metrics.samples import (
    MetricSample,
    Totals,
    Wanted,
    finite_facts,
    query_labels,
    steady_facts,
    timed_facts,
)
from controlplane.metrics.series.scrape import UNJUDGED, ServerMetrics, other_samples, reads_queries
from controlplane.model import Agent, QueryView, Verdict
from listeners.protocol.catalogue import Metric

#: Conditions of which a series must meet all of one.
Selectors = Sequence[tuple[Matcher, ...]]
Encode = Callable[[Collector], bytes]
_END = b"# EOF\n"


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
    selectors: Selectors = (),
) -> tuple[Iterator[bytes], str]:
    """The exposition in parts, which take no memory before they are read, and its content type.

    `accept`: the request's header, which may ask for OpenMetrics.

    `totals_of`: a query's counters since it was first seen, by query id (`Window.totals`); `agents`: all
    agents, with or without a query; `heartbeat_of`: the data of an agent's last heartbeat, by agent id;
    `more`: further samples; `selectors`: only series that meet one of them, all series without any.
    """
    wanted = wanted_names(selectors)
    encode, kind = _encoder(accept)
    page = _Page(encode, selectors)
    for view in views if reads_queries(wanted) else ():
        verdict, totals = statuses.get(view.query_id, UNJUDGED), totals_of(view.query_id)
        steady = steady_facts(view, verdict, now, totals, wanted)
        page.add(
            query_labels(view), finite_facts(chain(steady, timed_facts(view, verdict, now, wanted)), wanted)
        )
    judged = [statuses[view.query_id].status for view in views if view.query_id in statuses]
    others = other_samples(judged, agents, heartbeat_of, own, wanted)
    for sample in chain(others, more):
        page.add(sample.labels, [(sample.metric, {}, float(sample.value))])
    return page.parts(), kind


def content_type(accept: str | None) -> str:
    """The content type of the answer to this `Accept` header."""
    return _encoder(accept)[1]


def wanted_names(selectors: Selectors) -> Wanted:
    """The metrics that the selectors name; None where one of them names none, or without selectors."""
    named = [
        next((m.value for m in matchers if m.name == METRIC_NAME and m.operator == "=" and m.value), None)
        for matchers in selectors
    ]
    return frozenset(name for name in named if name) if named and all(named) else None


def _encoder(accept: str | None) -> tuple[Encode, str]:
    try:
        return choose_encoder(accept or "")
    except (ValueError, TypeError):  # the client library fails on a version that is not a number
        return generate_latest, CONTENT_TYPE_PLAIN_0_0_4


class _Page:
    """Lines by metric. The client library writes headers, and everything where names must be escaped specially."""

    def __init__(self, encode: Encode, selectors: Selectors):
        self._encode, self._selectors = encode, selectors
        self._escaping = getattr(encode, "keywords", {}).get("escaping", UNDERSCORES)
        self._plain = self._escaping not in (UNDERSCORES, ALLOWUTF8)
        self._lines: dict[str, tuple[Metric, list[str]]] = {}
        self._families: dict[str, Family] = {}
        self._texts: dict[tuple[tuple[str, str], ...], str] = {}

    def add(self, labels: Labels, facts: Iterable[tuple[Metric, Labels, float]]) -> None:
        """Add samples that share labels, each with labels of its own."""
        shared = self._written(labels)
        for metric, own, value in facts:
            if self._selectors and not self._selected(metric, labels, own):
                continue
            if self._plain:
                self._family(metric).add_sample(metric.name, {**labels, **own}, value)
                continue
            _, lines = self._lines.get(metric.name) or self._lines.setdefault(metric.name, (metric, []))
            text = self._joined(labels, shared, own) if own else shared
            lines.append(f"{metric.name}{{{text}}} {_number(value)}\n" if text else _bare(metric, value))

    def _selected(self, metric: Metric, labels: Labels, own: Labels) -> bool:
        known = {METRIC_NAME: metric.name, **labels, **own}
        return any(matches(matchers, known) for matchers in self._selectors)

    def _joined(self, labels: Labels, shared: str, own: Labels) -> str:
        if not labels.keys().isdisjoint(own):
            return self._written({**labels, **own})
        key = tuple(own.items())
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = self._written(own)
        return f"{shared},{text}" if shared else text

    def _written(self, labels: Labels) -> str:
        named = ((escape_label_name(name, self._escaping), value) for name, value in sorted(labels.items()))
        return ",".join(f'{name}="{_escaped(value)}"' for name, value in named)

    def _family(self, metric: Metric) -> Family:
        return self._families.get(metric.name) or self._families.setdefault(metric.name, _family(metric))

    def parts(self) -> Iterator[bytes]:
        """The page, metric by metric; each is forgotten when it was read."""
        if self._plain:
            yield self._encode(_Families(self._families.values()))
            return
        for name in list(self._lines):
            metric, lines = self._lines.pop(name)
            yield self._encode(_Families([_family(metric)])).removesuffix(_END)
            yield "".join(lines).encode()
        yield self._encode(_Families([]))


def _bare(metric: Metric, value: float) -> str:
    return f"{metric.name} {_number(value)}\n"


def _number(value: float) -> str:
    """What `floatToGoString` writes, which does more only for numbers of more than six digits."""
    number = float(value)
    return repr(number) if number < 1e6 else floatToGoString(number)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


class _Families(Collector):
    """Families as the client library takes them."""

    def __init__(self, families: Iterable[Family]):
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


def _family(metric: Metric) -> Family:
    """An empty family; the client library requires its name without the suffix of its type."""
    name = metric.name.removesuffix("_total").removesuffix("_info")
    return Family(name, metric.help, metric.type, metric.unit)
