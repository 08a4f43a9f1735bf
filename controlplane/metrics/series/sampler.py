"""Samples of all queries as numbers of their label sets and values, computed anew where something changed.

A query's samples are those of `controlplane.metrics.samples`. They hold until its view or its status is another one,
except for the few that change with time alone. Used by the scrape and by live sources; one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from alerts.promql.label_sets import Integers, LabelSets
from alerts.promql.series import Floats
from controlplane.metrics.samples import (
    TIMED_METRICS,
    Fact,
    Totals,
    finite_facts,
    query_labels,
    steady_facts,
    timed_facts,
)
from controlplane.metrics.series.scrape import UNJUDGED
from controlplane.model import QueryStatus, QueryView, Verdict

#: Statuses whose cause is derived from the view and the time together.
_UNSTEADY = frozenset({QueryStatus.FAILED, QueryStatus.UNREACHABLE})


@dataclass
class _QuerySamples:
    """The last samples of a query that hold until an event, and the numbers of all its label sets."""

    numbers_of: dict[object, int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    view: QueryView | None = None
    status: QueryStatus | None = None
    numbers: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


class FleetSampler:
    """`totals_of`: a query's counters by its id (`Window.totals`)."""

    def __init__(self, totals_of: Callable[[str], Totals]):
        self._totals_of = totals_of
        self._queries: dict[str, _QuerySamples] = {}
        self._sets = LabelSets()
        self._names: frozenset[str] = frozenset()

    def sample(
        self,
        views: Iterable[QueryView],
        verdicts: Mapping[str, Verdict],
        now: float,
        names: frozenset[str],
        sets: LabelSets,
    ) -> tuple[Integers, Floats]:
        """The samples of these metrics at `now` (Unix seconds): numbers of their label sets in `sets`, and values."""
        if sets is not self._sets or names != self._names:
            self._queries, self._sets, self._names = {}, sets, names
        before, self._queries = self._queries, {}
        numbers: list[int] = []
        values: list[float] = []
        moving = not names.isdisjoint(TIMED_METRICS)
        for view in views:
            known = self._queries[view.query_id] = before.get(view.query_id) or _QuerySamples()
            verdict = verdicts.get(view.query_id, UNJUDGED)
            if view is not known.view or verdict.status is not known.status or verdict.status in _UNSTEADY:
                self._renew(known, view, verdict, now)
            numbers += known.numbers
            values += known.values
            if moving:
                self._add(known, timed_facts(view, verdict, now, names), numbers, values)
        return np.array(numbers, np.int64), np.array(values, np.float64)

    def _renew(self, known: _QuerySamples, view: QueryView, verdict: Verdict, now: float) -> None:
        labels = query_labels(view)
        if labels != known.labels:
            known.labels, known.numbers_of = labels, {}
        known.view, known.status, known.numbers, known.values = view, verdict.status, [], []
        totals = self._totals_of(view.query_id)
        steady = steady_facts(view, verdict, now, totals, self._names)
        self._add(known, steady, known.numbers, known.values)

    def _add(
        self, known: _QuerySamples, facts: Iterable[Fact], numbers: list[int], values: list[float]
    ) -> None:
        for metric, own, value in finite_facts(facts, self._names):
            key = (metric.name, *own.items()) if own else metric.name
            number = known.numbers_of.get(key)
            if number is None:
                labels = {name: text for name, text in {**known.labels, **own}.items() if text}
                number = known.numbers_of[key] = self._sets.numbered(metric.name, labels)
            numbers.append(number)
            values.append(value)
