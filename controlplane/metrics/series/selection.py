"""Which metrics the rules read, and for how long the grid must keep them. Pure.

Called after rule files were loaded; the log names rules that read more than the grid keeps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from alerts.promql.evaluator import LOOKBACK_SECONDS
from alerts.promql.series import METRIC_NAME
from alerts.promql.syntax.nodes import Node, Selector, Shift, Subquery, children
from alerts.rules.model import Rule, RuleGroup

#: The longest time that the grid keeps; a thousand series then take 90 MB.
MAX_KEPT_SECONDS = 2 * 86400.0


class MetricRetention(NamedTuple):
    """`seconds` to keep by metric name; `beyond`: rules that the grid cannot serve completely.

    These have a selector without a metric name, an absolute time, or a range of more than MAX_KEPT_SECONDS.
    """

    seconds: dict[str, float]
    beyond: tuple[Rule, ...]


def retention_for(groups: Iterable[RuleGroup], step: float) -> MetricRetention:
    """The retention that these groups need.

    `step`: of the grid, in seconds; one step is added to every range.
    """
    seconds: dict[str, float] = {}
    beyond: list[Rule] = []
    for group in groups:
        for rule in group.rules:
            reaches = (_reaches(node, max(0.0, group.query_offset)) for node in rule.expressions)
            for name, reach in chain.from_iterable(reaches):
                if name is None or reach > MAX_KEPT_SECONDS:
                    beyond += [rule] if rule not in beyond else []
                if name is not None:
                    needed = min(reach, MAX_KEPT_SECONDS) + LOOKBACK_SECONDS + step
                    seconds[name] = max(seconds.get(name, 0.0), needed)
    return MetricRetention(seconds, tuple(beyond))


def _reaches(node: Node, back: float) -> Iterator[tuple[str | None, float]]:
    """The name (or None) and range in seconds of every selector below a node evaluated `back` seconds ago."""
    if isinstance(node, Selector | Subquery):
        if isinstance(node.shift.at, float):
            yield None, 0.0
        back = max(0.0, back + (node.range or 0.0) + _offset(node.shift))
    if isinstance(node, Selector):
        yield _name(node), back
    for child in children(node):
        yield from _reaches(child, back)


def _offset(shift: Shift) -> float:
    return shift.offset or 0.0


def _name(selector: Selector) -> str | None:
    named = (m.value for m in selector.matchers if m.name == METRIC_NAME and m.operator == "=")
    return next((name for name in named if name), None)
