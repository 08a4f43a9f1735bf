"""promtool's unit-test files through our own engine: what passes, what is reported of what does not."""

from __future__ import annotations

import pytest

from alerts import unit_tests
from alerts.promql.series import is_stale
from alerts.rules.loader import load
from alerts.rules.model import RuleGroup

RULES = """
groups:
  - name: g
    rules:
      - record: twice
        expr: lag * 2
      - alert: Lag
        expr: twice > 10
        for: 1m
        labels: {severity: warning}
        annotations: {summary: '{{ $labels.q }} at {{ $value }} in {{ $externalLabels.dc }}'}
"""

TEST = """
rule_files: [rules.yaml]
evaluation_interval: 30s
tests:
  - name: one
    interval: 1m
    external_labels: {dc: eu}
    input_series:
      - series: 'lag{q="a"}'
        values: '1+2x3 _ 6 6'
      - series: 'lag{q="b"}'
        values: 1x6
    alert_rule_test:
      - eval_time: 3m
        alertname: Lag
      - eval_time: 4m
        alertname: Lag
        exp_alerts:
          - exp_labels: {q: a, severity: warning}
            exp_annotations: {summary: a at 14 in eu}
    promql_expr_test:
      - expr: sum(lag)
        eval_time: 2m
        exp_samples: [{labels: '{}', value: 6}]
      - expr: twice
        eval_time: 6m
        exp_samples:
          - {labels: 'twice{q="a"}', value: 12}
          - {labels: 'twice{q="b"}', value: 2}
"""


def groups() -> tuple[RuleGroup, ...]:
    found, mistakes = load(RULES)
    assert mistakes == ()
    return found


def outcome(text: str) -> list[str]:
    file, mistakes = unit_tests.load(text)
    assert mistakes == ()
    return [str(mistake) for test in file.tests for mistake in unit_tests.run(test, groups(), file)]


def test_a_test_that_holds_reports_nothing() -> None:
    assert outcome(TEST) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ("a at 14 in eu", "a at 15 in eu", 16, "Lag did not fire as {alertname='Lag', q='a'"),
        ("a at 14 in eu", "a at 15 in eu", 16, "Lag fired as {alertname='Lag', q='a'"),
        ("eval_time: 3m", "eval_time: 5m", 14, "at 300 s Lag fired as"),
        ("value: 6}", "value: 7}", 22, "{} is 6.0, not 7.0"),
        ("""'twice{q="b"}', value: 2}""", """'twice{q="c"}', value: 2}""", 25, "is 2.0, not None"),
        ("expr: sum(lag)", "expr: 'lag * on (q) group_left group_left'", 0, ""),
    ],
)
def test_what_does_not_hold_is_reported_at_the_line_of_its_check(
    old: str, new: str, line: int, expected: str
) -> None:
    text = TEST.replace(old, new)
    if not line:
        _, mistakes = unit_tests.load(text)
        assert mistakes
        return
    reported = outcome(text)
    assert any(item.startswith(f"line {line},") and expected in item for item in reported), reported


@pytest.mark.parametrize(
    ("values", "read"),
    [
        ("1 2 3", [1, 2, 3]),
        ("1+2x3", [1, 3, 5, 7]),
        ("1-2x2", [1, -1, -3]),
        ("-1.5x1", [-1.5, -1.5]),
        ("_ _x2 1", [None, None, None, 1]),
        ("1e3 0x2 -Inf", [1000, 0, 0, 0, float("-inf")]),
    ],
)
def test_the_short_notation_of_values_is_read(values: str, read: list[float | None]) -> None:
    assert unit_tests._values(values) == read


def test_stale_ends_a_series_at_once() -> None:
    file, mistakes = unit_tests.load(TEST.replace("1x6", "'1 stale 1'"))
    assert mistakes == ()
    assert is_stale(file.tests[0].series[1].values).tolist() == [False, True, False]


def test_what_a_rule_no_longer_records_ends_at_once_as_in_promtool() -> None:
    """The series `ALERTS` of an alert that is resolved, here after four minutes."""
    changed = TEST.replace("'1+2x3 _ 6 6'", "'1+2x3 8 1x6'")
    checks = "{eval_time: %s, expr: 'count(ALERTS) or vector(0)', exp_samples: [{labels: '{}', value: %d}]}"
    values = "\n".join(f"      - {checks % pair}" for pair in (("4m", 1), ("6m", 0)))
    assert outcome(changed[: changed.index("    alert_rule")] + f"    promql_expr_test:\n{values}\n") == []


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("1x1000000000", "100000 samples"),
        ("one", "'one' is not a number"),
    ],
)
def test_values_that_cannot_be_read_are_reported(values: str, expected: str) -> None:
    _, mistakes = unit_tests.load(TEST.replace("1x6", f"'{values}'"))
    assert len(mistakes) == 1
    assert expected in mistakes[0].message
    assert mistakes[0].line == 12


def test_a_rule_that_fails_at_any_time_fails_its_test() -> None:
    failing = RULES.replace("lag * 2", "lag + on () lag")
    found, mistakes = load(failing)
    assert mistakes == ()
    only_values = (
        TEST[: TEST.index("    alert_rule_test")]
        + """
    promql_expr_test:
      - {expr: vector(1), eval_time: 2m, exp_samples: [{labels: '{}', value: 1}]}
"""
    )
    file, mistakes = unit_tests.load(only_values)
    assert mistakes == ()
    (failure,) = unit_tests.run(file.tests[0], found, file)
    assert "at 0 s a rule failed, and 4 times after it: twice: 1:5: " in failure.message
    assert failure.line == file.tests[0].line


@pytest.mark.parametrize(
    ("fuzzy", "value", "holds"),
    [
        ("", "0.30000000000000004", True),
        ("", "0.3", False),
        ("fuzzy_compare: true", "0.3", True),
        ("fuzzy_compare: true", "0.30001", False),
    ],
)
def test_values_are_compared_exactly_or_to_their_last_bits(fuzzy: str, value: str, holds: bool) -> None:
    text = f"""
{fuzzy}
tests:
  - promql_expr_test:
      - {{expr: vector(0.1) + vector(0.2), eval_time: 0s, exp_samples: [{{labels: '{{}}', value: {value}}}]}}
"""
    assert (outcome(text) == []) is holds
