"""Run rule unit tests in promtool's format: input series, expected alerts and expected values.

`load` parses a test file and reports every error in it; `run` evaluates one test and reports each difference
from the expectation. A rule that fails at any time makes its test fail. Pure: the caller reads the files. Not
supported: histograms in input series.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from alerts.engine import GroupResult, evaluate_group
from alerts.errors import AlertsError, MatcherError
from alerts.matching.labels import parse_matchers
from alerts.promql.evaluator import evaluate
from alerts.promql.series import METRIC_NAME, STALE, Scalar, Series, SeriesInMemory, Vector
from alerts.promql.syntax.parser import parse as parse_promql
from alerts.rules.model import RuleGroup
from alerts.state import Alerts, AlertState, TemplateContext
from alerts.yaml.fields import FieldReader, Fields
from alerts.yaml.parser import parse as parse_yaml
from alerts.yaml.tree import DocumentError, Node, YamlScalar

MAX_SAMPLES = 100_000
MAX_EVALUATIONS = 100_000
#: Relative difference that `fuzzy_compare` allows: a few last bits.
FUZZY = 1e-14

_TOP = ("rule_files", "evaluation_interval", "fuzzy_compare", "group_eval_order", "tests")
_TEST = (
    "name",
    "interval",
    "input_series",
    "alert_rule_test",
    "promql_expr_test",
    "external_labels",
    "external_url",
)
_SERIES = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)?\s*(\{.*\})?\s*", re.DOTALL)
_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+|[Ii]nf|NaN)"
_STEP = re.compile(rf"({_NUMBER})(?:([+-])({_NUMBER}))?x(\d+)")
_GAP = re.compile(r"_(?:x(\d+))?")


@dataclass(frozen=True)
class ExpectedAlert:
    """Labels and annotations of an alert that must fire."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


@dataclass(frozen=True)
class AlertCheck:
    """The exact set of alerts of one name that fire at `at` (seconds after the start)."""

    at: float
    alert: str
    expected: tuple[ExpectedAlert, ...]
    line: int


@dataclass(frozen=True)
class ValueCheck:
    """The expected result of an expression at `at`: values by labels."""

    at: float
    expr: str
    node: Any
    expected: tuple[tuple[Mapping[str, str], float], ...]
    line: int


@dataclass(frozen=True)
class UnitTest:
    """A test: input series and checks."""

    name: str
    line: int
    series: tuple[Series, ...]
    alerts: tuple[AlertCheck, ...]
    values: tuple[ValueCheck, ...]
    context: TemplateContext


@dataclass(frozen=True)
class UnitTestFile:
    """A test file: paths of rule files as written, seconds between evaluations, and the tests.

    `fuzzy`: values may differ in their last bits (`fuzzy_compare`).
    """

    rule_files: tuple[str, ...]
    interval: float
    group_order: tuple[str, ...]
    tests: tuple[UnitTest, ...]
    fuzzy: bool = False


def load(text: str) -> tuple[UnitTestFile, tuple[DocumentError, ...]]:
    """Parse a test file; return it with all errors in order of lines."""
    tree, mistakes = parse_yaml(text)
    loader = _Loader()
    file = loader.file(tree) if tree is not None else UnitTestFile((), 60.0, (), ())
    return file, tuple(sorted((*mistakes, *loader.errors)))


def run(test: UnitTest, groups: Sequence[RuleGroup], file: UnitTestFile) -> tuple[DocumentError, ...]:
    """Run one test; each difference from the expectation is an error at the line of its check."""
    found: list[DocumentError] = []
    fired = _played(test, _ordered(groups, file.group_order), file.interval)
    found += _failures(test, fired, file.interval)
    for check in test.alerts:
        found += _compared(check, fired[_moment(check.at, file.interval)])
    source = SeriesInMemory([*test.series, *_recorded(fired)])
    for value in test.values:
        found += _answered(value, source, file.fuzzy)
    return tuple(found)


@dataclass(frozen=True)
class _Moment:
    """Firing alerts, recorded series and errors of one evaluation."""

    firing: Mapping[str, list[ExpectedAlert]]
    recorded: tuple[Series, ...]
    errors: tuple[str, ...]


def _moment(at: float, interval: float) -> int:
    return math.floor(at / interval + 1e-9)


def _ordered(groups: Sequence[RuleGroup], order: Sequence[str]) -> list[RuleGroup]:
    places = {name: place for place, name in enumerate(order)}
    return sorted(groups, key=lambda group: places.get(group.name, len(places)))


def _played(test: UnitTest, groups: Sequence[RuleGroup], interval: float) -> dict[int, _Moment]:
    """Evaluate all groups at every step up to the last check."""
    moments = [check.at for check in test.alerts] + [check.at for check in test.values]
    last = max(moments, default=0.0)
    states: dict[str, tuple[Alerts, ...]] = {}
    latest: dict[str, Recorded] = {}
    played: dict[int, _Moment] = {}
    series = list(test.series)
    for number in range(min(_moment(last, interval), MAX_EVALUATIONS) + 1):
        firing: dict[str, list[ExpectedAlert]] = {}
        recorded: list[Series] = []
        errors: list[str] = []
        for group in groups:
            source = SeriesInMemory(series)
            result = evaluate_group(group, source, states.get(group.key, ()), number * interval, test.context)
            states[group.key] = result.states
            errors += [f"{name}: {error}" for name, error in result.errors.items()]
            new = [*result.recorded, *_ended(latest.setdefault(group.key, {}), result, number * interval)]
            series = _with(series, new)
            recorded += new
            for alert in (alert for alerts in result.states for alert in alerts.values()):
                if alert.state is AlertState.FIRING:
                    fired = ExpectedAlert(alert.labels, alert.annotations)
                    firing.setdefault(alert.rule, []).append(fired)
        played[number] = _Moment(firing, tuple(recorded), tuple(errors))
    return played


#: Labels of the series of each rule of a group, by the rule's place, as of its last evaluation without an error.
Recorded = dict[int, dict[frozenset[tuple[str, str]], Mapping[str, str]]]


def _ended(before: Recorded, result: GroupResult, now: float) -> list[Series]:
    """Staleness markers at `now` of the series that a rule no longer records; updates `before`."""
    ended = []
    for place, rule in enumerate(result.rules):
        if not rule.error:
            after = {frozenset(series.labels.items()): series.labels for series in rule.recorded}
            ended += [labels for key, labels in before.get(place, {}).items() if key not in after]
            before[place] = after
    return [Series(labels, np.array([now]), np.array([STALE])) for labels in ended]


def _with(series: list[Series], recorded: Sequence[Series]) -> list[Series]:
    """The series with the recorded samples appended."""
    places = {frozenset(known.labels.items()): place for place, known in enumerate(series)}
    after = list(series)
    for new in recorded:
        place = places.get(frozenset(new.labels.items()))
        if place is None:
            after.append(new)
        else:
            old = after[place]
            times, values = np.append(old.times, new.times), np.append(old.values, new.values)
            after[place] = Series(old.labels, times, values)
    return after


def _recorded(played: Mapping[int, _Moment]) -> list[Series]:
    series: list[Series] = []
    for number in sorted(played):
        series = _with(series, played[number].recorded)
    return series


def _failures(test: UnitTest, played: Mapping[int, _Moment], interval: float) -> Iterator[DocumentError]:
    """Each error of a rule, when it first happened and how often."""
    times: dict[str, list[float]] = {}
    for number, moment in sorted(played.items()):
        for error in moment.errors:
            times.setdefault(error, []).append(number * interval)
    for error, at in times.items():
        often = f", and {len(at) - 1} times after it" if len(at) > 1 else ""
        yield DocumentError(test.line, 1, f"at {at[0]:g} s a rule failed{often}: {error}")


def _compared(check: AlertCheck, moment: _Moment) -> Iterator[DocumentError]:
    wanted = [_sorted(alert) for alert in check.expected]
    given = [_sorted(alert) for alert in moment.firing.get(check.alert, [])]
    for alert in wanted:
        if alert not in given:
            yield DocumentError(
                check.line, 1, f"at {check.at:g} s {check.alert} did not fire as {_format_alert(alert)}"
            )
    for alert in given:
        if alert not in wanted:
            yield DocumentError(
                check.line, 1, f"at {check.at:g} s {check.alert} fired as {_format_alert(alert)}"
            )


Sorted = tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]


def _sorted(alert: ExpectedAlert) -> Sorted:
    return tuple(sorted(alert.labels.items())), tuple(sorted(alert.annotations.items()))


def _format_alert(alert: Sorted) -> str:
    labels, annotations = (", ".join(f"{k}={v!r}" for k, v in part) for part in alert)
    return f"{{{labels}}} with {{{annotations}}}"


def _answered(check: ValueCheck, source: SeriesInMemory, fuzzy: bool) -> Iterator[DocumentError]:
    try:
        answer = evaluate(check.node, source, check.at)
    except AlertsError as error:
        yield DocumentError(check.line, 1, f"at {check.at:g} s {check.expr!r} failed: {error}")
        return
    given: dict[tuple[tuple[str, str], ...], float] = {}
    if isinstance(answer, Scalar):
        given[()] = answer.value
    elif isinstance(answer, Vector):
        given = {tuple(sorted(sample.labels.items())): sample.value for sample in answer}
    wanted = {tuple(sorted(labels.items())): value for labels, value in check.expected}
    for labels in sorted(wanted.keys() | given.keys()):
        if not _alike(wanted.get(labels), given.get(labels), fuzzy):
            difference = f"{dict(labels)} is {given.get(labels)}, not {wanted.get(labels)}"
            yield DocumentError(check.line, 1, f"at {check.at:g} s {check.expr!r}: {difference}")


def _alike(wanted: float | None, given: float | None, fuzzy: bool) -> bool:
    """Whether two values are the same; `fuzzy` allows what another order of additions changes."""
    if wanted is None or given is None:
        return wanted is given
    if math.isnan(wanted) or math.isnan(given):
        return math.isnan(wanted) and math.isnan(given)
    return wanted == given or (fuzzy and math.isclose(wanted, given, rel_tol=FUZZY))


class _Loader(FieldReader):
    def file(self, tree: Node) -> UnitTestFile:
        fields = self.mapping(tree, "a test file", _TOP)
        return UnitTestFile(
            rule_files=tuple(text.value for text in self.strings(fields, "rule_files")),
            interval=self.seconds(fields, "evaluation_interval", 0.001) or 60.0,
            group_order=tuple(text.value for text in self.strings(fields, "group_eval_order")),
            tests=tuple(self._test(node) for node in self.items(fields, "tests")),
            fuzzy=self.boolean(fields, "fuzzy_compare") or False,
        )

    def _test(self, node: Node) -> UnitTest:
        fields = self.mapping(node, "a test", _TEST)
        step = self.seconds(fields, "interval", 0.001) or 60.0
        name, url = self.string(fields, "name"), self.string(fields, "external_url")
        external = {key.value: text.value for key, text in self.pairs(fields, "external_labels")}
        series = (self._series(node, step) for node in self.items(fields, "input_series"))
        checks = (self._value_check(node) for node in self.items(fields, "promql_expr_test"))
        return UnitTest(
            name=name.value if name else "",
            line=node.mark.line,
            series=tuple(found for found in series if found),
            alerts=tuple(self._alert_check(check) for check in self.items(fields, "alert_rule_test")),
            values=tuple(check for check in checks if check),
            context=TemplateContext(external, url.value if url else ""),
        )

    def _series(self, node: Node, step: float) -> Series | None:
        fields = self.mapping(node, "a series", ("series", "values"))
        labels = self.converted(fields, "series", _labels)
        values = self.converted(fields, "values", _values)
        if labels is None or values is None:
            return None
        known = [number for number, value in enumerate(values) if value is not None]
        times = np.array([number * step for number in known], float)
        return Series(labels, times, np.array([values[number] for number in known], float))

    def _alert_check(self, node: Node) -> AlertCheck:
        fields = self.mapping(node, "a check", ("eval_time", "alertname", "exp_alerts"))
        name = self.string(fields, "alertname")
        alert = name.value if name else ""
        expected = tuple(self._expected(expected, alert) for expected in self.items(fields, "exp_alerts"))
        return AlertCheck(self.seconds(fields, "eval_time") or 0.0, alert, expected, node.mark.line)

    def _expected(self, node: Node, alert: str) -> ExpectedAlert:
        fields = self.mapping(node, "an expected alert", ("exp_labels", "exp_annotations"))
        labels = {key.value: text.value for key, text in self.pairs(fields, "exp_labels")}
        notes = {key.value: text.value for key, text in self.pairs(fields, "exp_annotations")}
        return ExpectedAlert({**labels, "alertname": alert}, notes)

    def _value_check(self, node: Node) -> ValueCheck | None:
        fields = self.mapping(node, "a check", ("expr", "eval_time", "exp_samples"))
        expr = self.string(fields, "expr")
        parsed = self._expression(expr) if expr else None
        samples = tuple(self._sample(sample) for sample in self.items(fields, "exp_samples"))
        if expr is None or parsed is None:
            return None
        at = self.seconds(fields, "eval_time") or 0.0
        return ValueCheck(at, expr.value, parsed, samples, node.mark.line)

    def _expression(self, text: YamlScalar) -> Any:
        try:
            return parse_promql(text.value)
        except AlertsError as error:
            self.add_error(text.mark, f"expr: {error}")
            return None

    def _sample(self, node: Node) -> tuple[Mapping[str, str], float]:
        fields: Fields = self.mapping(node, "a sample", ("labels", "value"))
        labels = self.converted(fields, "labels", _labels) or {}
        value = self.converted(fields, "value", _number)
        return labels, math.nan if value is None else value


def _labels(text: str) -> dict[str, str]:
    """Labels of `up{job="a"}`, including the metric name."""
    found = _SERIES.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:80]!r} is not a series")
    try:
        matchers = parse_matchers(found[2] or "")
    except MatcherError as error:
        raise ValueError(str(error)) from None
    if any(matcher.operator != "=" for matcher in matchers):
        raise ValueError("the labels of a series must use =")
    named = {METRIC_NAME: found[1]} if found[1] else {}
    return {**named, **{matcher.name: matcher.value for matcher in matchers}}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not a number") from None


def _values(text: str) -> list[float | None]:
    """`1+2x3 _ 5` → 1, 3, 5, 7, None, 5."""
    values: list[float | None] = []
    for word in text.split():
        values += _expanded(word, MAX_SAMPLES - len(values))
    return values


def _expanded(word: str, most: int) -> list[float | None]:
    if gap := _GAP.fullmatch(word):
        count = int(gap[1] or 1)
        return [None] * _within(count, most)
    if found := _STEP.fullmatch(word):
        step = _number(found[3]) * (-1 if found[2] == "-" else 1) if found[2] else 0.0
        first = _number(found[1])
        return [first + step * number for number in range(_within(int(found[4]) + 1, most))]
    _within(1, most)
    return [float(STALE) if word == "stale" else _number(word)]


def _within(count: int, most: int) -> int:
    if count > most:
        raise ValueError(f"a series must not exceed {MAX_SAMPLES} samples")
    return count
