"""Expressions as text: what is printed parses to the same tree; lines are split as Prometheus splits them."""

from __future__ import annotations

import random

import pytest

from alerts.promql.syntax.documents import document
from alerts.promql.syntax.parser import parse
from alerts.promql.syntax.printing import MAX_INDENTED_LINKS, MAX_LINE_LENGTH, formatted, number, text_of
from alerts.rules import loader, pack

PAIRS = [
    ("-a^b", "-a ^ b"),
    ("(-a)^b", "(-a) ^ b"),
    ("2^-1", "2 ^ -1"),
    ("(2^-b)^c", "(2 ^ -b) ^ c"),
    ("a-(b-c)", "a - (b - c)"),
    ("a^b^c", "a ^ b ^ c"),
    ("(a^b)^c", "(a ^ b) ^ c"),
    ("((a+b))*c", "(a + b) * c"),
    ("(a or b) and c", "(a or b) and c"),
    ("(a+b)[5m:1m]", "(a + b)[5m:1m]"),
    ("max_over_time((-a)[5m:] offset -1h)", "max_over_time((-a)[5m:] offset -1h)"),
    ("sum(a)by(b,c)", "sum by (b, c) (a)"),
    ("sum without()(a)", "sum without () (a)"),
    ("a/on()group_left(c)b", "a / on () group_left (c) b"),
    ("a==bool ignoring(x)b", "a == bool ignoring (x) b"),
    ("a @ 12.3456 offset 1h30m", "a @ 12.346 offset 1h30m"),
    ("rate(a[5m]@end())", "rate(a[5m] @ end())"),
    ('{"ü.x",__name__!="y"}', '{"ü.x",__name__!="y"}'),
    ('a{"b.c"="d\\"\\n"}', 'a{"b.c"="d\\"\\n"}'),
    ("increase(a[5m] anchored)", "increase(a[5m] anchored)"),
    ("a + fill(0) b", "a + fill (0) b"),
    ("a + on(x) fill_left(1) fill_right(2) b", "a + on (x) fill_left (1) fill_right (2) b"),
]


@pytest.mark.parametrize(("text", "expected"), PAIRS)
def test_an_expression_is_printed_without_redundant_parentheses(text: str, expected: str) -> None:
    node = parse(text)
    assert text_of(node) == expected
    assert document(parse(expected)) == document(parse(text_of(parse(expected))))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1.0, "1"), (0.5, "0.5"), (123456.0, "123456"), (1234567.0, "1.234567e+06"), (0.0, "0"), (1e21, "1e+21"), (1e-4, "0.0001"),
     (1.5e-5, "1.5e-05"), (float("inf"), "+Inf"), (float("-inf"), "-Inf"), (float("nan"), "NaN")],
)  # fmt: skip
def test_numbers_are_printed_as_go_prints_them(value: float, expected: str) -> None:
    assert number(value) == expected


def test_every_shipped_rule_is_the_same_expression_after_formatting() -> None:
    groups, _ = loader.load(pack.render(1.0))
    expressions = [rule.node for group in groups for rule in group.rules]
    assert len(expressions) > 15
    for node in expressions:
        assert document(parse(formatted(node))) == document(node)


OPERATORS = ["+", "-", "*", "/", "%", "^", "and", "or", "unless", "==", "> bool", "atan2"]


def grown(chance: random.Random, depth: int) -> str:
    """A random expression of vectors."""
    if depth == 0:
        return chance.choice(["a", 'b{c="d"}', "rate(e[5m])"])
    left, right = grown(chance, depth - 1), grown(chance, chance.randrange(depth))
    match chance.randrange(4):
        case 0:
            return f"-({left})"
        case 1:
            return f"sum by (a) ({left})"
        case _:
            return f"({left}) {chance.choice(OPERATORS)} ({right})"


def test_random_expressions_are_the_same_after_printing_and_formatting() -> None:
    chance = random.Random(7)
    for _ in range(300):
        node = parse(grown(chance, 5))
        expected = document(node)
        assert document(parse(text_of(node))) == expected
        text = formatted(node)
        assert document(parse(text)) == expected
        assert formatted(parse(text)) == text
        assert all(len(line.strip(" -")) <= MAX_LINE_LENGTH for line in text.splitlines())


def test_a_long_chain_stays_on_one_line() -> None:
    text = " + ".join(["a"] * (MAX_INDENTED_LINKS * 50))
    assert formatted(parse(text)) == text
