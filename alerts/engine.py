"""Evaluate a rule group: its rules in order, at one time, each seeing the results of the rules before it.

Pure except for the clock that measures durations. The server decides when a group is due (`slot`), stores
the returned states and passes the transitions on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np

from alerts import state
from alerts.errors import AlertsError
from alerts.matching.labels import Labels, Matcher, matches
from alerts.promql.dense import DenseSeries, DenseSource, as_dense
from alerts.promql.evaluator import LOOKBACK_SECONDS
from alerts.promql.evaluator import evaluate as evaluate_promql
from alerts.promql.label_sets import LabelSets
from alerts.promql.series import METRIC_NAME, Sample, Scalar, Series, SeriesSource, Vector
from alerts.promql.shared_results import SharedResults
from alerts.promql.syntax.nodes import Node
from alerts.promql.syntax.parser import parse
from alerts.rules.model import Rule, RuleGroup, RuleKind
from alerts.state import Alert, Alerts, AlertState, TemplateContext, Transition

Evaluate = Callable[..., Any]
#: Alerts of each rule of a group, in the order of the rules.
States = Sequence[Alerts]


@dataclass(frozen=True)
class RuleResult:
    """Result of one rule. `error`: why its evaluation failed; its alerts are then unchanged."""

    rule: Rule
    alerts: Alerts
    transitions: tuple[Transition, ...] = ()
    recorded: tuple[Series, ...] = ()
    error: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class GroupResult:
    """Result of a group at `at`. `recorded` has one sample per series and includes `ALERTS`."""

    group: RuleGroup
    at: float
    rules: tuple[RuleResult, ...]
    seconds: float

    @property
    def states(self) -> tuple[Alerts, ...]:
        return tuple(result.alerts for result in self.rules)

    @property
    def transitions(self) -> tuple[Transition, ...]:
        return tuple(change for result in self.rules for change in result.transitions)

    @property
    def recorded(self) -> tuple[Series, ...]:
        return tuple(series for result in self.rules for series in result.recorded)

    @property
    def errors(self) -> Mapping[str, str]:
        return {result.rule.name: result.error for result in self.rules if result.error}


def evaluate_group(
    group: RuleGroup,
    source: SeriesSource,
    states: States,
    now: float,
    context: TemplateContext | None = None,
    lookback: float = LOOKBACK_SECONDS,
    evaluate: Evaluate = evaluate_promql,
    clock: Callable[[], float] = time.perf_counter,
    shared: SharedResults | None = None,
) -> GroupResult:
    """Evaluate the rules of a group at `now` (Unix seconds) over `source`, given their previous alerts.

    `lookback`: maximum age (seconds) of a series' last sample; a source on a fixed grid, where a gap means that
    the series ended, passes little more than one step. `shared`: results that rules of several groups share, over
    this source at this time. A failing rule does not stop those after it.
    Rules without an entry in `states` start with no alerts.
    """
    base = context or TemplateContext()
    seen = _Overlay(source, shared)
    if shared is not None:
        evaluate = partial(evaluate, shared=shared)
    query = partial(_queried, seen, now, lookback)
    group_context = TemplateContext(base.external_labels, base.external_url, group.labels, query)
    began = clock()
    results = []
    for number, rule in enumerate(group.rules):
        before = states[number] if number < len(states) else {}
        started = clock()
        value = partial(_answer, rule, seen, now - group.query_offset, lookback, evaluate)
        result = _evaluated(rule, before, group, now, group_context, value)
        results.append(_timed(result, clock() - started))
        seen.add(result.recorded)
    seen.close()
    return GroupResult(group, now, tuple(results), clock() - began)


def _queried(source: SeriesSource, at: float, lookback: float, expression: str) -> Sequence[Sample]:
    """The samples of a query in a template."""
    match evaluate_promql(_parsed(expression), source, at, lookback):
        case Vector() as vector:
            return vector
        case Scalar(value):
            return [Sample({}, value)]
    raise AlertsError("a query in a template must give an instant vector or a scalar")


@lru_cache(maxsize=256)  # templates make the same queries at every evaluation
def _parsed(expression: str) -> Node:
    return parse(expression)


def _timed(result: RuleResult, seconds: float) -> RuleResult:
    return RuleResult(result.rule, result.alerts, result.transitions, result.recorded, result.error, seconds)


def _evaluated(
    rule: Rule,
    before: Alerts,
    group: RuleGroup,
    now: float,
    context: TemplateContext,
    answer: Callable[[], Sequence[Sample]],
) -> RuleResult:
    try:
        vector = answer()
        if rule.kind is RuleKind.RECORD:
            return RuleResult(rule, {}, recorded=_recorded(rule, vector, group, now))
        alerts, transitions = state.step(before, vector, rule, now, context)
        if problem := _over_limit(len(_unresolved(alerts)), group, "alerts"):
            alerts, transitions = state.clear(before, now, problem)
            return RuleResult(rule, alerts, transitions, error=problem)
        return RuleResult(rule, alerts, transitions, _as_series(alerts, now))
    except AlertsError as error:
        return RuleResult(rule, before, recorded=_as_series(before, now), error=str(error))


def _answer(
    rule: Rule, source: SeriesSource, at: float, lookback: float, evaluate: Evaluate
) -> Sequence[Sample]:
    """The result of an expression as samples; a scalar becomes a sample without labels."""
    match evaluate(rule.node, source, at, lookback):
        case Vector() as vector:
            return vector
        case Scalar(value):
            return [Sample({}, value)]
    raise AlertsError("a rule's expression must give an instant vector or a scalar")


def _over_limit(count: int, group: RuleGroup, what: str) -> str | None:
    if not group.limit or count <= group.limit:
        return None
    return f"exceeded limit of {group.limit} with {count} {what}"


def _unresolved(alerts: Alerts) -> list[Alert]:
    return [alert for alert in alerts.values() if alert.state is not AlertState.RESOLVED]


def _recorded(rule: Rule, vector: Sequence[Sample], group: RuleGroup, now: float) -> tuple[Series, ...]:
    if problem := _over_limit(len(vector), group, "series"):
        raise AlertsError(problem)
    found: dict[frozenset[tuple[str, str]], Series] = {}
    for sample in vector:
        given = {**group.labels, **rule.labels, METRIC_NAME: rule.name}
        labels = {name: value for name, value in {**sample.labels, **given}.items() if value}
        if found.setdefault(frozenset(labels.items()), new := _series(labels, sample.value, now)) is not new:
            raise AlertsError(f"two series of {rule.name} have the same labels")
    return tuple(found.values())


def _as_series(alerts: Alerts, now: float) -> tuple[Series, ...]:
    """The series `ALERTS` and `ALERTS_FOR_STATE`, as in Prometheus."""
    series = []
    for alert in _unresolved(alerts):
        named = {**alert.labels, METRIC_NAME: "ALERTS", "alertstate": alert.state.value}
        series.append(_series(named, 1.0, now))
        series.append(_series({**alert.labels, METRIC_NAME: "ALERTS_FOR_STATE"}, alert.active_at, now))
    return tuple(series)


def _series(labels: Labels, value: float, at: float) -> Series:
    return Series(labels, np.array([at], float), np.array([value], float))


@dataclass
class _Overlay:
    """A source overlaid with the series recorded during this evaluation, and the results shared over it."""

    source: SeriesSource
    shared: SharedResults | None = None
    recorded: list[Series] = field(default_factory=list)
    names: frozenset[str] = frozenset()
    arrays: DenseSource | None = field(init=False)

    def __post_init__(self) -> None:
        self.arrays = as_dense(self.source)

    def add(self, series: Sequence[Series]) -> None:
        self.recorded.extend(series)
        names = frozenset(new.labels[METRIC_NAME] for new in series)
        self.names |= names
        if self.shared is not None and names:
            self.shared.forget(names)

    def close(self) -> None:
        """Forget the shared results that read the recorded series: other groups read the source alone."""
        if self.shared is not None and self.names:
            self.shared.forget(self.names)

    @property
    def label_sets(self) -> LabelSets:
        """The numbers of the source's labels."""
        return LabelSets() if self.arrays is None else self.arrays.label_sets

    def dense(self, matchers: Sequence[Matcher], start: float, end: float) -> DenseSeries | None:
        named = {matcher.value for matcher in matchers if matcher.name == METRIC_NAME}
        if self.arrays is None or not named.isdisjoint(self.names):
            return None
        return self.arrays.dense(matchers, start, end)

    def select(self, matchers: Sequence[Matcher], start: float, end: float) -> Sequence[Series]:
        stored = list(self.source.select(matchers, start, end))
        ours = [new for new in self.recorded if matches(matchers, new.labels) and start < new.times[0] <= end]
        if not ours:
            return stored
        indices = {frozenset(series.labels.items()): index for index, series in enumerate(stored)}
        for new in ours:
            index = indices.get(frozenset(new.labels.items()))
            if index is None:
                stored.append(new)
            else:
                stored[index] = _joined(stored[index], new)
        return stored


def _joined(stored: Series, ours: Series) -> Series:
    before = stored.times < ours.times[0]
    return Series(
        stored.labels,
        np.concatenate([stored.times[before], ours.times]),
        np.concatenate([stored.values[before], ours.values]),
    )


def slot(group: RuleGroup, now: float, interval: float) -> float:
    """Time of the newest evaluation due at `now`: a multiple of the group's interval.

    `interval`: the default for a group without one.
    """
    every = group.interval or interval
    return math.floor(now / every) * every


def missed_evaluations(group: RuleGroup, last: float | None, at: float, interval: float) -> int:
    """Number of evaluations skipped between the last one and the one at `at`."""
    if last is None:
        return 0
    return max(0, round((at - last) / (group.interval or interval)) - 1)
