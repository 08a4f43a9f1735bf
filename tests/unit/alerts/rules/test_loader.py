"""Rule files: what a good one means, and every mistake of a bad one. The cases are files in tests/data/rules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from alerts.rules.loader import load
from alerts.rules.model import RuleKind
from tests.paths import DATA

DATA = DATA / "rules"


def expected(text: str) -> list[tuple[int, int, str]]:
    """The lines `#! line:column words` of a bad file."""
    return [
        (int(line), int(column), phrase)
        for line, column, phrase in re.findall(r"^#! (\d+):(\d+) (.*)$", text, re.M)
    ]


@pytest.mark.parametrize("path", sorted(DATA.glob("*.bad.yaml")), ids=lambda path: path.name)
def test_every_mistake_of_a_bad_file_is_reported_with_its_line_and_column(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    _, mistakes = load(text)
    wanted = expected(text)
    assert wanted
    reported = "\n".join(map(str, mistakes))
    assert sorted((m.line, m.column) for m in mistakes) == sorted(
        (line, column) for line, column, _ in wanted
    ), reported
    for line, column, phrase in wanted:
        assert any((m.line, m.column) == (line, column) and phrase in m.message for m in mistakes), reported


def test_a_good_file_is_taken_whole() -> None:
    groups, mistakes = load((DATA / "everything.good.yaml").read_text(encoding="utf-8"), "everything")
    assert mistakes == ()
    assert [(group.key, len(group.rules)) for group in groups] == [
        ("everything;one", 2),
        ("everything;two", 0),
        ("everything;three", 2),
    ]
    first = groups[0]
    assert (first.interval, first.limit, first.query_offset, first.labels) == (
        90.0,
        10,
        5.0,
        {"team": "data"},
    )
    record, slow = first.rules
    assert (record.kind, record.name, record.labels) == (RuleKind.RECORD, "app:rows:rate5m", {"level": "app"})
    assert (slow.kind, slow.name, slow.for_, slow.keep_firing_for) == (RuleKind.ALERT, "Slow", 300.0, 600.0)
    assert slow.labels == {"severity": "warning", "number": "1", "empty": ""}
    assert slow.annotations["description"] == "two lines"
    assert slow.line == 14
    assert groups[2].rules[1].annotations == {"text": 'it\'s "so"', "url": "http://x/y#z"}


def test_a_group_that_names_no_interval_takes_the_servers() -> None:
    groups, _ = load("groups: [{name: a, rules: []}]")
    assert groups[0].interval is None


def test_an_empty_file_holds_no_groups_and_no_mistake() -> None:
    assert load("") == ((), ())
    assert load("groups:") == ((), ())


def test_rules_beside_an_invalid_one_are_still_returned() -> None:
    text = "groups: [{name: a, rules: [{alert: Good, expr: up}, {alert: Bad, expr: 'up +'}]}]"
    groups, mistakes = load(text)
    assert [rule.name for rule in groups[0].rules] == ["Good"]
    assert len(mistakes) == 1


def test_queries_of_templates_are_parsed_with_the_rule() -> None:
    text = """
groups:
  - name: g
    rules:
      - alert: A
        expr: up
        annotations: {summary: '{{ query "down" | len }}'}
      - alert: B
        expr: up
        labels: {x: '{{ query "down(" }}'}
"""
    groups, mistakes = load(text)
    assert [len(rule.expressions) for rule in groups[0].rules] == [2]
    assert [(mistake.line, mistake.message) for mistake in mistakes] == [
        (10, "template: query 'down(': 1:1: unknown function with name \"down\"")
    ]


def test_names_may_be_any_text_as_in_prometheus_3() -> None:
    text = "groups: [{name: g, rules: [{record: a.b c, expr: up, labels: {d-e: f}}]}]"
    groups, mistakes = load(text)
    assert mistakes == ()
    assert (groups[0].rules[0].name, groups[0].rules[0].labels) == ("a.b c", {"d-e": "f"})


@pytest.mark.parametrize("rule", ["{}", "{record: b, expr: c}, {}"])
def test_a_rule_without_any_field_is_a_mistake(rule: str) -> None:
    _, mistakes = load(f"groups: [{{name: a, rules: [{rule}]}}]")
    assert ["one of record or alert must be set" in m.message for m in mistakes] == [True]
