"""Results of subexpressions that several rules have, for the time of one evaluation of the rules.

Rules repeat selectors and conditions. `SharedResults` knows all expressions of a set of rules in advance, and holds the
result only of what occurs in them more than once. Not thread-safe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import fields

from alerts.promql.label_sets import LabelSets
from alerts.promql.rows import SampleRows
from alerts.promql.series import METRIC_NAME
from alerts.promql.syntax.nodes import Binary, Node, Place, Selector, chain

Key = tuple[Hashable, ...]


class SharedResults:
    """`nodes`: the expressions; `label_sets`: the numbers of the labels of all results."""

    def __init__(self, nodes: Iterable[Node], label_sets: LabelSets | None = None):
        self.label_sets = LabelSets() if label_sets is None else label_sets
        self._nodes = list(nodes)  # they must live, since they are known by their identity
        self._numbers: dict[Key, int] = {}
        self._known: dict[int, int] = {}
        self._names: dict[int, frozenset[str | None]] = {}
        self._results: dict[tuple[int, Hashable], SampleRows] = {}
        for node in self._nodes:
            self._number(node)
        self._repeated = {number for number, count in Counter(self._known.values()).items() if count > 1}

    def begin(self, label_sets: LabelSets) -> None:
        """Forget all results: the source has changed. `label_sets`: of the results to come."""
        self._results.clear()
        self.label_sets = label_sets

    def find(self, node: Node, at: Hashable) -> SampleRows | None:
        """The result of an equal subexpression at the same time, if there is one."""
        number = self._known.get(id(node))
        return None if number is None else self._results.get((number, at))

    def remember(self, node: Node, at: Hashable, found: SampleRows) -> None:
        """Hold a result if the subexpression occurs more than once."""
        number = self._known.get(id(node))
        if number in self._repeated:
            self._results[number, at] = found

    def forget(self, names: frozenset[str]) -> None:
        """Forget the results that depend on these metrics, which have new samples."""
        stale = {number for number, read in self._names.items() if None in read or not read.isdisjoint(names)}
        self._results = {key: found for key, found in self._results.items() if key[0] not in stale}

    # -- equal subexpressions ----------------------------------------------------------------------

    def _number(self, node: Node) -> int:
        """A number for each distinct subexpression, wherever it stands in a text."""
        if isinstance(node, Binary):
            links = chain(node)
            number = self._number(links[0].left)
            for link in links:
                joined: Key = (
                    Binary,
                    link.operator,
                    link.as_bool,
                    link.matching,
                    number,
                    self._number(link.right),
                )
                number = self._numbered(link, joined, [link.left, link.right])
            return number
        inner: list[Node] = []
        key: Key = (
            type(node).__name__,
            *(self._part(getattr(node, field.name), inner) for field in fields(node)),
        )
        return self._numbered(node, key, inner)

    def _part(self, value: object, inner: list[Node]) -> Hashable:
        if isinstance(value, Place):
            return None
        if isinstance(value, Node):
            inner.append(value)
            return ("node", self._number(value))
        if isinstance(value, tuple):
            return tuple(self._part(item, inner) for item in value)
        assert isinstance(value, Hashable)
        return repr(value) if isinstance(value, float) else value

    def _numbered(self, node: Node, key: Key, inner: Iterable[Node]) -> int:
        number = self._numbers.setdefault(key, len(self._numbers))
        self._known[id(node)] = number
        names = frozenset[str | None]().union(*(self._names[self._known[id(item)]] for item in inner))
        self._names[number] = names | ({_metric(node)} if isinstance(node, Selector) else frozenset())
        return number


def _metric(selector: Selector) -> str | None:
    named = (m.value for m in selector.matchers if m.name == METRIC_NAME and m.operator == "=")
    return next((name for name in named if name), None)
