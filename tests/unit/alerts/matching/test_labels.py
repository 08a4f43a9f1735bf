"""Label sets, matchers, selectors, fingerprints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.errors import MatcherError
from alerts.matching.labels import Matcher, fingerprint, matches, parse_matchers

COMMANDS = {"app": "shop", "query": "orders", "team": "data"}


@pytest.mark.parametrize(
    ("operator", "value", "selected"),
    [
        ("=", "data", True),
        ("=", "dat", False),
        ("!=", "data", False),
        ("!=", "ops", True),
        ("=~", "data|ops", True),
        ("=~", "dat", False),
        ("=~", "dat.", True),
        ("!~", "d.*", False),
        ("!~", "o.*", True),
    ],
)
def test_a_matcher_compares_or_matches_the_whole_value(operator: str, value: str, selected: bool) -> None:
    assert Matcher("team", operator, value).matches(COMMANDS) is selected


def test_a_label_that_is_absent_equals_the_empty_text() -> None:
    assert Matcher("tier", "=", "").matches(COMMANDS)
    assert Matcher("tier", "!=", "gold").matches(COMMANDS)
    assert Matcher("tier", "=~", ".*").matches(COMMANDS)
    assert not Matcher("tier", "=~", ".+").matches(COMMANDS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("{}", ()),
        ("  { } ", ()),
        ('{a="b",c=~"d.*"}', (Matcher("a", "=", "b"), Matcher("c", "=~", "d.*"))),
        ("a=b", (Matcher("a", "=", "b"),)),
        ("a!=b, c!~d.* ", (Matcher("a", "!=", "b"), Matcher("c", "!~", "d.*"))),
        ('{ a = "b" , }', (Matcher("a", "=", "b"),)),
        ('a="x,y}"', (Matcher("a", "=", "x,y}"),)),
        (r'a="q\"u\\o\nte"', (Matcher("a", "=", 'q"u\\o\nte'),)),
        (r'a=~"\\d+"', (Matcher("a", "=~", r"\d+"),)),
        ("a=", (Matcher("a", "=", ""),)),
        ('a=""', (Matcher("a", "=", ""),)),
        ("query=orders by day", (Matcher("query", "=", "orders by day"),)),
        ("a=é", (Matcher("a", "=", "é"),)),
        ("a==b", (Matcher("a", "=", "=b"),)),
        (r"a=q\"u\\o\nte\d", (Matcher("a", "=", 'q"u\\o\nte\\d'),)),
        ('{"härtegrad"=~"h.*", "a b"=c}', (Matcher("härtegrad", "=~", "h.*"), Matcher("a b", "=", "c"))),
        ('1a="b"', (Matcher("1a", "=", "b"),)),
        (r'"a"="\u00e9"', (Matcher("a", "=", "é"),)),
        (r'"a"="\xc3\xa9\t"', (Matcher("a", "=", "é\t"),)),
        ('a="two\nlines"', (Matcher("a", "=", "two\nlines"),)),
    ],
)
def test_a_selector_is_read_with_or_without_braces_and_quotes(
    text: str, expected: tuple[Matcher, ...]
) -> None:
    assert parse_matchers(text) == expected


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("a", 2, "one of = != =~ !~"),
        ('{a="b"', 7, "'}' is missing"),
        ('{a="b" c="d"}', 7, "comma"),
        ('a="b', 3, "closing quote"),
        ("=b", 1, "label name"),
        ("a=b,,c=d", 5, "label name"),
        ('a=~"("', 4, "the pattern of a is invalid"),
        ('a=b"c', 4, "comma"),
    ],
)
def test_a_selector_that_cannot_be_read_is_refused_with_its_column(
    text: str, column: int, message: str
) -> None:
    with pytest.raises(MatcherError, match=message.replace("(", r"\(")) as caught:
        parse_matchers(text)
    assert caught.value.column == column


def test_a_selector_is_not_endless() -> None:
    with pytest.raises(MatcherError, match="4096"):
        parse_matchers("a=" + "b" * 5000)


def test_all_matchers_of_a_selector_must_pass() -> None:
    assert matches(parse_matchers('{app="shop",query=~"ord.*"}'), COMMANDS)
    assert not matches(parse_matchers('{app="shop",query=~"pay.*"}'), COMMANDS)
    assert matches((), COMMANDS)


values = st.text(max_size=20)


@given(st.sampled_from(["=", "!="]), values)
def test_the_text_of_a_matcher_parses_to_the_same_matcher(operator: str, value: str) -> None:
    matcher = Matcher("team", operator, value)
    assert parse_matchers(f"{{{matcher}}}") == (matcher,)


@given(st.text(max_size=60))
def test_any_text_at_all_is_a_selector_or_refused(text: str) -> None:
    try:
        parsed = parse_matchers(text)
    except MatcherError:
        return
    assert matches(parsed, COMMANDS) in (True, False)


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"alertname": "T1"}, "60353642e6d2da45"),
        (
            {"severity": "critical", "query": "orders é☃", "alertname": "QueryFailed", "app": "shop"},
            "d79a7a877496e91c",
        ),
        ({}, "cbf29ce484222325"),
    ],
)
def test_fingerprints_are_those_that_alertmanager_gives(labels: dict[str, str], name: str) -> None:
    """The first two were read from the API of Alertmanager 0.25."""
    assert fingerprint(labels) == name
