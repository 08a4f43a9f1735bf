"""Every expression of the Grafana dashboards returns data where every metric of the catalogue has a series."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from alerts.promql.evaluator import evaluate
from alerts.promql.series import Series, SeriesInMemory, Vector
from alerts.promql.syntax.parser import parse
from controlplane.model import QueryStatus
from listeners.protocol.catalogue import METRICS, PREFIX, QUERY_LABELS, STATE_METRICS, Metric
from tests.paths import ROOT

DASHBOARDS = {
    path.stem: json.loads(path.read_text()) for path in (ROOT / "deploy" / "grafana").glob("*.json")
}
TIMES = np.arange(0.0, 3600.0 + 15.0, 15.0)
#: Values of labels; of the others one is enough.
VALUES = {"status": tuple(QueryStatus), "quantile": ("0.1", "0.5", "0.9"), "query": ("orders", "refunds")}
#: What Grafana replaces in an expression.
VARIABLES = {"$app": "shop", "$query": "orders|refunds", "$__rate_interval": "5m"}


@cache
def everything() -> SeriesInMemory:
    """An hour of one application with two queries: every metric with its labels; counters rise."""
    return SeriesInMemory(
        series for metric in (*METRICS, *STATE_METRICS.values()) for series in series_of(metric)
    )


def series_of(metric: Metric) -> Iterator[Series]:
    names = metric.labels if metric.name.startswith("controlplane_") else (*labels_of(metric), *metric.labels)
    values = TIMES * 2 if metric.type == "counter" else np.ones(len(TIMES))
    for chosen in product(
        *(VALUES.get(name, ("shop" if name == "app" else f"some-{name}",)) for name in names)
    ):
        yield Series({"__name__": metric.name, **dict(zip(names, chosen, strict=True))}, TIMES, values)


def labels_of(metric: Metric) -> tuple[str, ...]:
    """The labels that a metric has beside its own: of a query, or of an agent."""
    return ("app",) if "agent" in metric.labels and metric.type != "info" else QUERY_LABELS


def expressions() -> list[tuple[str, str]]:
    """Dashboard and expression of every target."""
    return [
        (name, target["expr"])
        for name, document in DASHBOARDS.items()
        for panel in document["panels"]
        for target in panel["targets"]
    ]


@pytest.mark.parametrize(("name", "expression"), expressions())
def test_every_expression_returns_data(name: str, expression: str) -> None:
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    assert "$" not in expression
    found = evaluate(parse(expression), everything(), TIMES[-1])
    assert isinstance(found, Vector) and len(found) > 0


def test_there_are_four_dashboards_that_choose_their_data_source() -> None:
    assert set(DASHBOARDS) == {"fleet", "query", "state", "server"}
    assert len({document["uid"] for document in DASHBOARDS.values()}) == 4
    for document in DASHBOARDS.values():
        variables = {variable["name"] for variable in document["templating"]["list"]}
        used = {name.lstrip("$") for name in VARIABLES if name in json.dumps(document["panels"])}
        assert used - {"__rate_interval"} <= variables - {"datasource"}
        assert all(sources_of(panel) == {"${datasource}"} for panel in document["panels"])


def sources_of(panel: dict[str, Any]) -> set[str]:
    return {item["datasource"]["uid"] for item in (panel, *panel["targets"]) if "datasource" in item}


def test_the_choices_of_variables_come_from_a_metric_of_every_query() -> None:
    queries = [
        variable["query"]["query"]
        for document in DASHBOARDS.values()
        for variable in document["templating"]["list"]
        if variable["type"] == "query"
    ]
    assert queries and all(query.startswith(f"label_values({PREFIX}query_up") for query in queries)
