"""Function calls whose arguments are evaluated: which function takes what, and those that fit no table.

Called by the evaluator. Functions of windows are in `over_time`, those of single samples in `elementwise`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle

import numpy as np

from alerts.matching.labels import Labels, Matcher
from alerts.promql.annotations import Annotations, check_quantile
from alerts.promql.dense import DenseRange
from alerts.promql.functions import histograms, relabeling
from alerts.promql.functions.elementwise import CALENDAR, ELEMENTWISE
from alerts.promql.functions.over_time import OVER_TIME
from alerts.promql.label_sets import Flags, Integers, LabelColumn
from alerts.promql.limits import EvaluationBudget
from alerts.promql.rows import SampleRows, single_row
from alerts.promql.series import METRIC_NAME, Floats, is_stale
from alerts.promql.syntax.nodes import Call, Node, Selector
from alerts.promql.windows import Windows

#: A vector, a range vector, a scalar (one value a step), a string.
Inner = SampleRows | Windows | Floats | str
#: Functions of range vectors also take a dense one.
Argument = Inner | DenseRange
Natural = list[tuple[int, int, str]]
#: So many digits are compared as a number.
_DIGITS = re.compile(r"([0-9]{1,18})")


def call(
    node: Call,
    values: Sequence[Argument],
    steps: Integers,
    budget: EvaluationBudget,
    annotations: Annotations,
) -> Inner:
    """The value of a call. `values`: of its arguments, whose number and types are checked already."""
    name = node.function
    if name in OVER_TIME:
        return _over_time(node, values, annotations)
    if name.startswith("histogram_"):
        return _of_histograms(node, values, budget, annotations)
    match name, values:
        case "time", []:
            return steps / 1000
        case "pi", []:
            return np.full(len(steps), np.pi)
        case _, [] if name in CALENDAR:
            return single_row({}, CALENDAR[name](steps / 1000))
        case "vector", [np.ndarray() as scalar]:
            return single_row({}, scalar)
        case "scalar", [SampleRows() as rows]:
            return _scalar(rows)
        case "timestamp", [SampleRows() as rows]:
            return replace(rows, values=np.broadcast_to(steps / 1000, rows.values.shape)).without_name()
        case "sort" | "sort_desc", [SampleRows() as rows]:
            return _sorted(rows, descending=name == "sort_desc")
        case "sort_by_label" | "sort_by_label_desc", [SampleRows() as rows, *names]:
            return _sorted_by_labels(rows, [str(name) for name in names], name == "sort_by_label_desc")
        case "absent" | "absent_over_time", [(SampleRows() | Windows()) as found]:
            return _absent(node.arguments[0], found)
        case "label_join", [SampleRows() as rows, *texts]:
            return _relabeled(rows, relabeling.label_join(*map(str, texts)), budget)
        case "label_replace", [SampleRows() as rows, *texts]:
            return _relabeled(rows, relabeling.label_replace(*map(str, texts)), budget)
        case "clamp", [SampleRows() as rows, np.ndarray() as low, np.ndarray() as high]:
            return _elementwise(name, rows.where(rows.present & ~(high < low)), [low, high])
        case _, [SampleRows() as rows, *scalars]:
            return _elementwise(name, rows, scalars)
    raise AssertionError(node)


def timestamps(windows: Windows) -> SampleRows:
    """`timestamp(selector)`: when the samples were taken, and not when they are looked at."""
    times = windows.time(windows.end - 1) / 1000
    present = windows.has_at_least(1) & ~is_stale(windows.value(windows.end - 1))
    return SampleRows(windows.samples.labels, times, present).where(present).without_name()


def _over_time(node: Call, values: Sequence[Argument], annotations: Annotations) -> SampleRows:
    labels, (found, present) = _reduced(node.function, values)
    rows = SampleRows(labels, found, present).where(present)
    if node.function == "quantile_over_time" and isinstance(values[0], np.ndarray):
        check_quantile(values[0][present.any(axis=0)], node.arguments[0], annotations)
    if node.function in ("rate", "increase"):
        for metric in rows.labels.names():
            annotations.possibly_not_a_counter(metric, node.arguments[0])
    return rows if node.function in ("first_over_time", "last_over_time") else rows.without_name()


def _reduced(name: str, values: Sequence[Argument]) -> tuple[LabelColumn, tuple[Floats, Flags]]:
    """A function of windows with the labels of its rows."""
    found = next(value for value in values if isinstance(value, Windows | DenseRange))
    if isinstance(found, Windows):
        return found.samples.labels, OVER_TIME[name](*values)
    scalars = [value for value in values if isinstance(value, np.ndarray)]

    def of_windows(windows: Windows) -> tuple[Floats, Flags]:
        return OVER_TIME[name](*(windows if value is found else value for value in values))

    return found.labels, found.reduced(name, scalars, of_windows)


def _of_histograms(
    node: Call, values: Sequence[Argument], budget: EvaluationBudget, annotations: Annotations
) -> SampleRows:
    match node.function, values:
        case "histogram_quantile", [np.ndarray() as q, SampleRows() as rows]:
            check_quantile(q, node.arguments[0], annotations)
            return histograms.histogram_quantile(q, histograms.buckets(rows, node.arguments[1], annotations))
        case "histogram_fraction", [np.ndarray() as low, np.ndarray() as high, SampleRows() as rows]:
            found = histograms.buckets(rows, node.arguments[2], annotations)
            return histograms.histogram_fraction(low, high, found)
        case "histogram_quantiles", [SampleRows() as rows, str() as name, *ranks]:
            for rank, argument in zip(ranks, node.arguments[2:], strict=True):
                assert isinstance(rank, np.ndarray)
                check_quantile(rank, argument, annotations)
            found = histograms.buckets(rows, node.arguments[0], annotations)
            budget.hold(len(rows) * len(ranks), rows.steps)
            return histograms.histogram_quantiles(found, name, ranks)
    raise AssertionError(node)


def _elementwise(name: str, rows: SampleRows, scalars: Sequence[Argument]) -> SampleRows:
    return replace(rows, values=ELEMENTWISE[name](rows.values, *scalars)).without_name()


def _relabeled(rows: SampleRows, change: Callable[[Labels], Labels], budget: EvaluationBudget) -> SampleRows:
    def timed(labels: Labels) -> Labels:
        budget.tick()  # regular expressions take their time
        return change(labels)

    return rows.with_labels(rows.labels.relabeled(timed))


def _scalar(rows: SampleRows) -> Floats:
    """The value where there is just one, else NaN."""
    alone = rows.present.sum(axis=0) == 1
    return np.where(alone, np.where(rows.present, rows.values, 0.0).sum(axis=0), np.nan)


def _sorted(rows: SampleRows, descending: bool) -> SampleRows:
    """NaN last. Steps of a range query have no order to give."""
    if rows.steps != 1:
        return rows
    values = -rows.values[:, 0] if descending else rows.values[:, 0]
    return rows.take(np.argsort(values, kind="stable"))


def _sorted_by_labels(rows: SampleRows, names: Sequence[str], descending: bool) -> SampleRows:
    """In natural order of these labels, then of all labels. Steps of a range query have no order to give."""
    if rows.steps != 1:
        return rows

    def key(row: int) -> tuple[list[Natural], list[tuple[str, str]]]:
        labels = rows.labels[row]
        return [_natural(labels.get(name, "")) for name in names], sorted(labels.items())

    return rows.take(sorted(range(len(rows)), key=key, reverse=descending))


def _natural(text: str) -> Natural:
    """A key by which `a10` follows `a9`: digits count as numbers, and come before other text."""
    pieces = _DIGITS.split(text)
    return [
        (0, int(piece), piece) if odd else (1, 0, piece)
        for piece, odd in zip(pieces, cycle((False, True)), strict=False)
        if piece
    ]


def _absent(argument: Node, found: SampleRows | Windows) -> SampleRows:
    """1 where nothing is found, with the labels that the selector's equalities name once."""
    present = found.present if isinstance(found, SampleRows) else found.has_at_least(1)
    missing: Flags = ~np.any(present, axis=0)
    labels = _equalities(argument.matchers) if isinstance(argument, Selector) else {}
    rows = single_row(labels, np.ones(len(missing)), missing)
    return rows.where(rows.present)


def _equalities(matchers: Sequence[Matcher]) -> dict[str, str]:
    """Labels that a selector fixes with one equality matcher each."""
    labels: dict[str, str] = {}
    matched: set[str] = set()
    for matcher in matchers:
        if matcher.operator == "=" and matcher.name not in matched:
            labels[matcher.name] = matcher.value
            matched.add(matcher.name)
        else:
            labels.pop(matcher.name, None)
    return {name: value for name, value in labels.items() if value and name != METRIC_NAME}
