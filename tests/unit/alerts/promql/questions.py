"""Expressions by chance: well typed, over the names of `specimens`, from a seed.

Kept out is what Prometheus 2.42 answers otherwise than version 3, or by accident: counters that begin at 0 within
a window (it stretches them to zero, however far that is), the standard deviation of an infinity, which of two
equal values `topk` takes, `predict_linear` with @ in a range query, the weekday of NaN, digits of cosh(710).
"""

from __future__ import annotations

import random

from alerts.promql.functions.elementwise import CALENDAR, ELEMENTWISE
from alerts.promql.functions.over_time import OVER_TIME

_METRICS = ("requests_total", "errors_total", "load", "queue", "odd", "lone", "latency_bucket", "nothing")
_MATCHERS = ('job="api"', 'job!="api"', 'instance=~"a.*|b:1"', 'instance!~"b.+"', 'kind=""', 'job=~".*"')
_RANGES = ("1m", "5m", "12m", "1m30s")
#: Of subqueries: no whole multiple of a step, so that no edge falls on a point of the grid.
_STRETCHES = ("1m5s", "5m5s", "12m5s")
_SIMPLE = ("sum", "min", "max", "avg", "count", "group")
_CLAUSES = ("", " by (job)", " by (job, instance)", " without (instance)", " by ()", " by (kind)")
_ARITHMETIC = ("+", "-", "*", "/", "%", "^")
_COMPARISONS = ("==", "!=", ">", "<", ">=", "<=")
_MATCHING = ("", " ignoring (instance)", " on (job, instance)", " on (instance)", " ignoring (kind)")
_NUMBERS = ("0", "1", "2.5", "-3", "10", "0.5", "NaN", "Inf", "-Inf", "time()", "1e3")
_UNARY = tuple(sorted(set(ELEMENTWISE) - set(CALENDAR) - {"clamp", "clamp_min", "clamp_max", "cosh", "sinh"}))
_COUNTERS = ("requests_total", "errors_total", "latency_bucket")
_FINITE = ("load", "queue", "requests_total", "errors_total")


class Questions:
    """`vector(depth)` writes an expression that nests at most so deep."""

    def __init__(self, seed: int):
        self._random = random.Random(seed)

    def vector(self, depth: int) -> str:
        if depth <= 0:
            return self._selector() + self._modifier()
        kinds = (
            self._call,
            self._over_time,
            self._aggregation,
            self._binary,
            self._with_number,
            self._filter,
        )
        return self._random.choice(kinds)(depth - 1)

    def _one(self, choices: tuple[str, ...]) -> str:
        return self._random.choice(choices)

    def _selector(self, names: tuple[str, ...] = _METRICS) -> str:
        chosen = self._random.sample(_MATCHERS, self._random.choice((0, 0, 1, 1, 2)))
        return f"{self._one(names)}{{{','.join(chosen)}}}"

    def _modifier(self) -> str:
        return self._one(("", "", "", "", " offset 3m", " offset -2m", " @ start()", " @ end() offset 1m"))

    def _range(self, depth: int) -> str:
        if depth > 0 and self._random.random() < 0.4:
            return f"({self.vector(depth - 1)})[{self._one(_STRETCHES)}:{self._one(('30s', '1m', '10s'))}]"
        return f"{self._selector()}[{self._one(_RANGES)}]{self._modifier()}"

    def _over_time(self, depth: int) -> str:
        name = self._random.choice(sorted(OVER_TIME))
        match name:
            case "quantile_over_time":
                return f"{name}({self._one(('0.5', '0', '1', '0.93', '2', '-1'))}, {self._range(depth)})"
            case "predict_linear":
                ahead = self._one(("60", "3600", "-60"))
                return f"{name}({self._selector()}[{self._one(_RANGES)}] offset 1m, {ahead})"
            case "rate" | "increase":
                counter = self._selector(_COUNTERS)
                return f"{name}({counter}[{self._one(_RANGES)}]{self._modifier()})"
            case "double_exponential_smoothing":
                return f"{name}({self._range(depth)}, {self._one(('0.1', '0.5', '0.9'))}, 0.3)"
        return f"{name}({self._range(depth)})"

    def _call(self, depth: int) -> str:
        inner = self.vector(depth)
        match self._random.randrange(9):
            case 0:
                return f"clamp({inner}, {self._one(_NUMBERS)}, {self._one(_NUMBERS)})"
            case 1:
                return f"{self._one(('clamp_min', 'clamp_max', 'round'))}({inner}, {self._one(_NUMBERS)})"
            case 2:
                return f"{self._one(tuple(CALENDAR))}(clock{{}} * {self._one(('1', '0.7', '-0.1', '3'))})"
            case 3:
                template = self._one(("$1", "x-$1", "${1}y", ""))
                pattern = self._one(("(.).*", "(.*):.*", "a.*", ""))
                return f'label_replace({inner}, "to", "{template}", "instance", "{pattern}")'
            case 4:
                return f'label_join({inner}, "to", "-", "job", "instance", "none")'
            case 5:
                return f"{self._one(('sort', 'sort_desc', 'timestamp', 'absent'))}({inner})"
            case 6:
                return f"vector(scalar({inner}))"
            case 7:
                return f"histogram_quantile({self._one(('0.5', '0.9', '0', '1', '-1'))}, {inner})"
        return f"{self._one(_UNARY)}({inner})"

    def _aggregation(self, depth: int) -> str:
        inner, clause = self.vector(depth), self._one(_CLAUSES)
        match self._random.randrange(6):
            case 0:
                return f"quantile{clause} ({self._one(('0.5', '0', '1', '0.3', '2', '-1'))}, {inner})"
            case 1:
                return f'count_values{clause} ("value", round({inner}))'
            case 2:
                most, load = self._one(("1", "2", "0", "3.7")), self._selector(("load",))
                return f"{self._one(('topk', 'bottomk'))}{clause} ({most}, {load})"
            case 3:
                return f"{self._one(('stddev', 'stdvar'))}{clause} ({self._selector(_FINITE)})"
        return f"{self._one(_SIMPLE)}{clause} ({inner})"

    def _binary(self, depth: int) -> str:
        left, right = self.vector(depth), self.vector(depth)
        if self._random.random() < 0.3:
            return f"({left}) {self._one(('and', 'or', 'unless'))}{self._one(_MATCHING)} ({right})"
        if self._random.random() < 0.3:
            side = self._one(("group_left ()", "group_right ()", "group_left (job)", "group_right (kind)"))
            return f"({left}) {self._one(_ARITHMETIC)} on (instance) {side} ({right})"
        operator = self._one(_ARITHMETIC + _COMPARISONS)
        as_bool = " bool" if operator in _COMPARISONS and self._random.random() < 0.5 else ""
        return f"({left}) {operator}{as_bool}{self._one(_MATCHING)} ({right})"

    def _with_number(self, depth: int) -> str:
        sides = [f"({self.vector(depth)})", self._one(_NUMBERS)]
        self._random.shuffle(sides)
        return f"{self._one(('', '', '-'))}({sides[0]} {self._one(_ARITHMETIC)} {sides[1]})"

    def _filter(self, depth: int) -> str:
        sides = [f"({self.vector(depth)})", self._one(_NUMBERS)]
        self._random.shuffle(sides)
        return f"({sides[0]} {self._one(_COMPARISONS)}{self._one(('', '', ' bool'))} {sides[1]})"
