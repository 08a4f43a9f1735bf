"""Evaluate an expression over series: `evaluate` at one time, `evaluate_range` at every step of a range.

Every node is evaluated once for all steps, as arrays (see `rows` and `windows`); an instant query is a range of one
step. Semantics are those of Prometheus 3: ranges and the look-back exclude their left edge. Used by the rule engine
and the query API; reads series only through SeriesSource.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from alerts.matching.labels import Matcher
from alerts.promql import operators
from alerts.promql.aggregation import aggregate
from alerts.promql.annotations import Annotations
from alerts.promql.dense import DenseRange, DenseSeries, as_dense
from alerts.promql.errors import EvaluationError, LimitError, LimitExceeded, OperationError
from alerts.promql.functions import dispatch, extended, info
from alerts.promql.functions.dispatch import Argument, Inner
from alerts.promql.functions.over_time import OVER_TIME
from alerts.promql.label_sets import Integers, LabelSets
from alerts.promql.limits import DEFAULT_LIMITS, EvaluationBudget, Limits
from alerts.promql.results import matrix, matrix_of_windows, vector
from alerts.promql.rows import SampleRows, no_rows, single_row
from alerts.promql.series import (
    Floats,
    Matrix,
    Scalar,
    SeriesSource,
    String,
    Value,
    is_stale,
)
from alerts.promql.shared_results import SharedResults
from alerts.promql.syntax.literals import MAX_TIMESTAMP_SECONDS
from alerts.promql.syntax.nodes import (
    Aggregation,
    Anchor,
    Binary,
    Call,
    Negation,
    Node,
    Number,
    RangeEdges,
    Selector,
    Shift,
    StringLiteral,
    Subquery,
    chain,
)
from alerts.promql.syntax.signatures import SETS
from alerts.promql.windows import Samples, Windows

LOOKBACK_SECONDS = 300.0
#: For subqueries without a step.
DEFAULT_STEP_SECONDS = 60.0


def evaluate(
    node: Node,
    source: SeriesSource,
    at: float,
    lookback: float = LOOKBACK_SECONDS,
    limits: Limits = DEFAULT_LIMITS,
    default_step: float = DEFAULT_STEP_SECONDS,
    annotations: Annotations | None = None,
    shared: SharedResults | None = None,
) -> Value:
    """Evaluate an expression at one time (Unix seconds). Raises EvaluationError or LimitError.

    `annotations` collects what to warn of; `shared`: results of subexpressions of other expressions, without warnings.
    """
    steps = np.array([_moment(node, at)], np.int64)
    clock = _Clock(int(steps[0]), int(steps[0]), 0, lookback, default_step)
    evaluation = _Evaluation(source, EvaluationBudget(limits), clock, annotations or Annotations(), shared)
    found = evaluation.result(node, steps)
    match found:
        case SampleRows():
            return vector(found)
        case Windows():
            return matrix_of_windows(found)
        case str():
            return String(found)
    return Scalar(float(found[0]))


def evaluate_range(
    node: Node,
    source: SeriesSource,
    start: float,
    end: float,
    step: float,
    lookback: float = LOOKBACK_SECONDS,
    limits: Limits = DEFAULT_LIMITS,
    default_step: float = DEFAULT_STEP_SECONDS,
    annotations: Annotations | None = None,
) -> Matrix:
    """Evaluate at start, start + step … up to and including end. A scalar becomes a series without labels."""
    steps = _steps(node, _moment(node, start), _moment(node, end), _moment(node, step), limits.points)
    clock = _Clock(int(steps[0]), _moment(node, end), _moment(node, step), lookback, default_step)
    evaluation = _Evaluation(source, EvaluationBudget(limits), clock, annotations or Annotations())
    found = evaluation.result(node, steps)
    if isinstance(found, Windows | str):
        what = "range vector" if isinstance(found, Windows) else "string"
        message = f"invalid expression type {what} for range query, must be scalar or instant vector"
        raise EvaluationError(message, node.place.line, node.place.column)
    return matrix(found if isinstance(found, SampleRows) else single_row({}, found), steps)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _moment(node: Node, seconds: float) -> int:
    if not abs(seconds) <= MAX_TIMESTAMP_SECONDS:
        raise EvaluationError(f"timestamp out of bounds: {seconds}", node.place.line, node.place.column)
    return _milliseconds(seconds)


def _steps(node: Node, start: int, end: int, step: int, points: int) -> Integers:
    if step <= 0 or end < start:
        problem = "the step must be positive" if step <= 0 else "the end must not be before the start"
        raise EvaluationError(problem, node.place.line, node.place.column)
    if (end - start) // step + 1 > points:
        message = f"exceeded maximum resolution of {points} points per timeseries. Try decreasing the query resolution"
        raise LimitError(message, node.place.line, node.place.column)
    return np.arange(start, end + 1, step, dtype=np.int64)


# -- evaluation -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Clock:
    """`start`, `end` and `step` of the query in milliseconds; look-back and default step in seconds."""

    start: int
    end: int
    step: int
    lookback: float
    default_step: float


class _Evaluation:
    """Evaluates one syntax tree. `steps` (milliseconds) differ between a query and its subqueries."""

    def __init__(
        self,
        source: SeriesSource,
        budget: EvaluationBudget,
        clock: _Clock,
        annotations: Annotations,
        shared: SharedResults | None = None,
    ):
        self._source, self._budget, self._clock, self._annotations = source, budget, clock, annotations
        self._shared = shared
        self._sets = LabelSets() if shared is None else shared.label_sets
        arrays = as_dense(source)
        self._dense = arrays.dense if arrays else None

    def result(self, node: Node, steps: Integers) -> Inner:
        """The value of the whole expression at each step."""
        with self._budget.current():
            return self.value(node, steps)

    def value(self, node: Node, steps: Integers) -> Inner:
        """The value of a node at each step."""
        if isinstance(node, Binary):  # places its errors itself, link by link
            return self._chain(node, steps)
        known = self._known(node, steps)
        if known is not None:
            return known
        with self._located(node):
            return self._remembered(node, steps, self._value(node, steps))

    def _known(self, node: Node, steps: Integers) -> SampleRows | None:
        """The result of the same subexpression of another expression, for an instant query."""
        if self._shared is None or len(steps) != 1:
            return None
        return self._shared.find(node, (int(steps[0]), self._clock))

    def _remembered(self, node: Node, steps: Integers, found: Inner) -> Inner:
        if self._shared is not None and len(steps) == 1 and isinstance(found, SampleRows):
            self._shared.remember(node, (int(steps[0]), self._clock), found)
        return found

    @contextmanager
    def _located(self, node: Node) -> Iterator[None]:
        """Check the deadline; add the node's place to errors."""
        try:
            self._budget.tick()
            with np.errstate(all="ignore"):
                yield
        except LimitExceeded as problem:
            raise LimitError(str(problem), node.place.line, node.place.column) from None
        except OperationError as problem:
            raise EvaluationError(str(problem), node.place.line, node.place.column) from None

    def _value(self, node: Node, steps: Integers) -> Inner:
        match node:
            case Number():
                return np.full(len(steps), node.value)
            case StringLiteral():
                return node.value
            case Selector():
                if node.range is None and (dense := self._dense_series(node, steps)) is not None:
                    return dense.newest()
                windows = self._selected(node, steps)
                if node.range is not None:
                    return windows
                if isinstance(windows, extended.ExtendedWindows):
                    return extended.interpolated(windows)
                return _newest(windows)
            case Subquery():
                return self._subquery(node, steps)
            case Negation():
                return _negated(self.value(node.inner, steps))
            case Aggregation():
                parameter = None if node.parameter is None else self.value(node.parameter, steps)
                assert not isinstance(parameter, SampleRows | Windows)
                rows = self._rows(node.inner, steps)
                return aggregate(node, rows, parameter, self._budget, self._annotations)
            case Call():
                return self._call(node, steps)
        raise AssertionError(node)

    def _rows(self, node: Node, steps: Integers) -> SampleRows:
        found = self.value(node, steps)
        assert isinstance(found, SampleRows)
        return found

    # -- selectors -------------------------------------------------------------------------------

    def _selected(self, node: Selector, steps: Integers) -> Windows:
        until = self._shifted(node.shift, steps)
        lookback = _milliseconds(self._clock.lookback)
        length = lookback if node.range is None else _milliseconds(node.range)
        before = lookback if node.edges is not None and node.range is not None else 0
        after = lookback if node.edges is RangeEdges.SMOOTHED else 0
        edges = int(until.min()) - length - before, int(until.max()) + after
        samples = self._samples(node.matchers, *edges, marks=node.range is None)
        self._budget.hold(len(samples.labels), len(steps))
        if node.edges is None:
            return Windows.over(samples, until, steps, length)
        return extended.windows(samples, until, steps, length, before, after)

    def _samples(self, matchers: Sequence[Matcher], start: int, end: int, marks: bool) -> Samples:
        dense = self._dense_between(matchers, start, end)
        if dense is not None:
            self._budget.read(len(dense.labels), dense.values.size)
            return dense.samples(marks)
        series = self._source.select(matchers, start / 1000, end / 1000)
        self._budget.read(len(series), sum(len(found.times) for found in series))
        return Samples.of_series(series, marks, self._sets)

    def _dense_between(self, matchers: Sequence[Matcher], start: int, end: int) -> DenseSeries | None:
        found = None if self._dense is None else self._dense(matchers, start / 1000, end / 1000)
        if found is None:
            return None
        self._budget.read(len(found.labels), 0)  # nothing is copied
        return replace(found, labels=found.labels.within(self._sets))

    def _dense_series(self, node: Selector, steps: Integers) -> DenseSeries | None:
        """The series of a selector at one time as an array, if the source has them so."""
        if self._dense is None or len(steps) != 1 or node.edges is not None:
            return None
        until = int(self._shifted(node.shift, steps)[0])
        length = _milliseconds(self._clock.lookback if node.range is None else node.range)
        return self._dense_between(node.matchers, until - length, until)

    def _range(self, node: Node, steps: Integers) -> Argument:
        """An argument of a function of range vectors."""
        if isinstance(node, Selector) and node.range is not None:
            found = self._dense_series(node, steps)
            if found is not None:
                until = int(self._shifted(node.shift, steps)[0])
                return DenseRange.of(found, until, int(steps[0]), _milliseconds(node.range))
        return self.value(node, steps)

    def _shifted(self, shift: Shift, steps: Integers) -> Integers:
        """Evaluation times shifted by `offset` and `@`."""
        match shift.at:
            case Anchor.START:
                steps = np.full(len(steps), self._clock.start)
            case Anchor.END:
                steps = np.full(len(steps), self._clock.end)
            case float() as at:
                steps = np.full(len(steps), _milliseconds(at))
        return steps - _milliseconds(shift.offset or 0.0)

    def _subquery(self, node: Subquery, steps: Integers) -> Windows:
        """Evaluate the inner expression at multiples of the step, then form windows over the result."""
        until, length = self._shifted(node.shift, steps), _milliseconds(node.range)
        step = _milliseconds(node.step or self._clock.default_step)
        first = ((int(until.min()) - length) // step + 1) * step
        last = int(until.max())
        self._budget.hold(1, (last - first) // step + 1)
        grid = np.arange(first, last + 1, step, dtype=np.int64)
        rows = self._rows(node.inner, grid) if len(grid) else no_rows(0)
        return Windows.over(Samples.of_rows(rows, grid), until, steps, length)

    # -- operators -------------------------------------------------------------------------------

    def _chain(self, node: Binary, steps: Integers) -> SampleRows | Floats:
        """The operations of a chain one after the other, from the left."""
        links = chain(node)
        known, done = self._known_part(links, steps)
        found: Inner = self.value(links[0].left, steps) if known is None else known
        for link in links[done:]:
            right = self.value(link.right, steps)
            with self._located(link):
                found = self._remembered(link, steps, self._binary(link, found, right))
        assert isinstance(found, SampleRows | np.ndarray)
        return found

    def _known_part(self, links: Sequence[Binary], steps: Integers) -> tuple[SampleRows | None, int]:
        """The result of the longest known beginning of a chain, and the number of its links."""
        for done in range(len(links), 0, -1):
            if (known := self._known(links[done - 1], steps)) is not None:
                return known, done
        return None, 0

    def _binary(self, node: Binary, first: Inner, second: Inner) -> SampleRows | Floats:
        match first, second:
            case SampleRows() as left, SampleRows() as right:
                if node.operator in SETS:
                    return operators.sets(node, left, right)
                return operators.matched(node, left, right, self._budget)
            case SampleRows() as left, np.ndarray() as right:
                return operators.with_scalar(node, left, right, swapped=False)
            case np.ndarray() as left, SampleRows() as right:
                return operators.with_scalar(node, right, left, swapped=True)
            case np.ndarray() as left, np.ndarray() as right:
                return operators.scalars(node, left, right)
        raise AssertionError(node)

    # -- functions -------------------------------------------------------------------------------

    def _call(self, node: Call, steps: Integers) -> Inner:
        argument = node.arguments[0] if node.arguments else None
        if node.function == "timestamp" and isinstance(argument, Selector) and argument.edges is None:
            return dispatch.timestamps(self._selected(argument, steps))
        if node.function == "info":
            return self._with_info(node, steps)
        if node.function in ("start", "end", "step", "range"):
            return np.full(len(steps), self._of_query(node.function))
        of_argument = self._range if node.function in OVER_TIME else self.value
        values = [of_argument(argument, steps) for argument in node.arguments]
        return dispatch.call(node, values, steps, self._budget, self._annotations)

    def _of_query(self, function: str) -> float:
        """`start()`, `end()`, `step()` and `range()`, in seconds."""
        clock = self._clock
        return (clock.end - clock.start if function == "range" else getattr(clock, function)) / 1000

    def _with_info(self, node: Call, steps: Integers) -> SampleRows:
        """`info(v, selector)`: the data labels of info metrics, such as `target_info`, joined to v."""
        given = node.arguments[1] if len(node.arguments) > 1 else None
        assert given is None or isinstance(given, Selector)
        selector = info.info_selector(given, node.place)
        return info.joined(
            self._rows(node.arguments[0], steps), self._selected(selector, steps), selector.matchers
        )


def _newest(windows: Windows) -> SampleRows:
    """An instant selector's result: the last sample within the look-back."""
    values = windows.value(windows.end - 1)
    rows = SampleRows(windows.samples.labels, values, windows.has_at_least(1))
    return rows.where(rows.present & ~is_stale(values))


def _negated(inner: Inner) -> SampleRows | Floats:
    if isinstance(inner, SampleRows):
        return replace(inner, values=-inner.values).without_name()
    assert isinstance(inner, np.ndarray)
    return -inner
