"""Which metrics rules read, and how far back: what the grid has to keep. Pure.

Called when rule files were read; the log names rules that read more than is ever kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from alerts.promql.evaluator import LOOKBACK_SECONDS
from alerts.promql.series import METRIC_NAME
from alerts.promql.syntax.nodes import Node, Selector, Shift, Subquery, children
from alerts.rules.model import Rule, RuleGroup

#: The grid keeps no more than this; of a thousand series that is 90 MB.
MAX_KEPT_SECONDS = 2 * 86400.0


class MetricRetention(NamedTuple):
    """`seconds` to keep by metric name; `beyond`: rules that read what the grid never holds whole.

    Those have a selector that names no metric, an absolute time, or a reach of more than LONGEST.
    """

    seconds: dict[str, float]
    beyond: tuple[Rule, ...]


def retention_for(groups: Iterable[RuleGroup], step: float) -> MetricRetention:
    """What these groups read. `step`: of the grid, in seconds; one is added to every reach."""
    seconds: dict[str, float] = {}
    beyond: list[Rule] = []
    for group in groups:
        for rule in group.rules:
            for name, reach in _reaches(rule.node, max(0.0, group.query_offset)):
                if name is None or reach > MAX_KEPT_SECONDS:
                    beyond += [rule] if rule not in beyond else []
                if name is not None:
                    needed = min(reach, MAX_KEPT_SECONDS) + LOOKBACK_SECONDS + step
                    seconds[name] = max(seconds.get(name, 0.0), needed)
    return MetricRetention(seconds, tuple(beyond))


def _reaches(node: Node, back: float) -> Iterator[tuple[str | None, float]]:
    """Name (None: not told) and seconds back of every selector below a node that is evaluated `back` ago."""
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
