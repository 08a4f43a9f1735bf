"""Patterns: RE2's syntax, anchored, in linear time; replacements by Go's rules."""

from __future__ import annotations

import re
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.errors import PatternError
from alerts.matching.regex import compile_pattern, compile_replacement, replace_all, search


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("", "", True),
        ("", "a", False),
        ("prod", "prod", True),
        ("prod", "production", False),
        ("prod.*", "production", True),
        (".*prod", "my-prod", True),
        ("prod|stage", "stage", True),
        ("prod|stage", "prodstage", False),
        ("a.c", "a\nc", True),
        ("a+", "", False),
        ("a{2,3}", "aaa", True),
        ("a{2,3}", "aaaa", False),
        ("a{2}", "aa", True),
        ("a{2,}", "aaaaa", True),
        ("a{,2}", "a{,2}", True),
        ("(ab){2}", "abab", True),
        ("(?:ab|cd)*x", "abcdabx", True),
        ("(?P<name>a)b", "ab", True),
        ("(?<name>a)b", "ab", True),
        ("(?i)PROD", "prod", True),
        ("(?i)[a-c]+", "ABC", True),
        ("(?s)a.b", "a\nb", True),
        ("[a-c]+[^a-c]", "abcd", True),
        ("[]]", "]", True),
        ("[^]]", "a", True),
        (r"[\d\-]+", "1-2", True),
        ("[[]", "[", True),
        ("[a&&b]", "&", True),
        (r"\d+\.\d+", "4.3", True),
        (r"\d", "٣", False),
        (r"\w\W\s\S", "a- x", True),
        (r"\.", "a", False),
        ("^a$", "a", True),
        ("(^a|b$)+", "ab", True),
        ("a$b", "ab", False),
        ("a*?b", "aab", True),
        ("(a|ab)(c|bcd)", "abcd", True),
        ("((a*)*)*b", "aab", True),
        ("é+", "éé", True),
        ("(?i:PROD)-eu", "prod-eu", True),
        ("(?i:PROD)-eu", "prod-EU", False),
        ("prod|(?i)stage", "STAGE", True),
        ("(?-s:a.c)", "a\nc", False),
        (r"\bprod\b.*", "prod-eu", True),
        (r"\bprod\b.*", "production", False),
        ("[[:alpha:]]+[[:digit:]]", "orders7", True),
        ("[[:^alpha:]]", "a", False),
        (r"\p{Greek}+\p{Lu}\P{L}", "αβA1", True),
        (r"\pL", "1", False),
        (r"\x41\x{e9}", "Aé", True),
        (r"\Qa.b\E", "a.b", True),
        (r"\Qa.b\E", "axb", False),
        (r"\Aa\z", "a", True),
        ("a{1000}", "a" * 1000, True),
        (".", "\ud800", True),
    ],
)
def test_a_pattern_matches_the_whole_text(pattern: str, text: str, matches: bool) -> None:
    assert compile_pattern(pattern)(text) is matches


@pytest.mark.parametrize(
    ("pattern", "column", "message"),
    [
        ("(", 1, "missing ): ("),
        ("a)", 1, "unexpected ): a)"),
        ("*a", 1, "no argument for repetition operator: *"),
        ("a**", 2, "bad repetition operator: **"),
        ("[a", 1, "missing ]: [a"),
        ("x[z-a]", 3, "invalid character class range: z-a"),
        ("[[:nothing:]]", 2, "invalid character class range: [:nothing:]"),
        ("a{3,2}", 2, "invalid repetition size: {3,2}"),
        ("a{1001}", 2, "invalid repetition size: {1001}"),
        ("(?=a)", 1, "invalid perl operator: (?="),
        ("é(?!a)", 2, "invalid perl operator: (?!"),
        (r"(a)\1", 4, r"invalid escape sequence: \1"),
        (r"\p{Nothing}", 1, r"invalid character class range: \p{Nothing}"),
        ("a\\", 1, "trailing \\"),
        ("((a{1000}){1000}){1000}", 4, "invalid repetition size: {1000}"),
        (r"\pL{1000}", 1, "pattern too large"),
        ("a\ud800", 2, "invalid UTF-8"),
    ],
)
def test_a_pattern_that_re2_rejects_is_an_error_with_a_column(
    pattern: str, column: int, message: str
) -> None:
    with pytest.raises(PatternError, match=re.escape(message)) as caught:
        compile_pattern(pattern)
    assert caught.value.column == column


def test_a_pattern_of_many_thousand_characters_is_accepted() -> None:
    names = [f"query-{number}" for number in range(2000)]
    matches = compile_pattern("|".join(names))
    assert matches("query-1999") and not matches("query-2000")


def test_threads_share_a_compiled_pattern() -> None:
    matches = compile_pattern("(a|b)*c[0-9]+")
    texts = [f"{'ab' * (number % 7)}c{number}" for number in range(500)]
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(matches, texts))


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+b",
        "(a|aa)*b",
        "(a|a)" * 40 + "b",
        "a?" * 100 + "a" * 100 + "b",
        ".*a.*a.*a.*a.*b",
        "((((a*)*)*)*)*b",
        "(.*)*x",
    ],
)
def test_a_pattern_that_makes_backtracking_explode_takes_linear_time(pattern: str) -> None:
    began = time.process_time()
    assert compile_pattern(pattern)("a" * 3000) is False
    assert time.process_time() - began < 2.0


pieces = st.sampled_from(
    ["a", "b", "ab", ".", "|", "(", ")", "*", "+", "?", "[ab]", "[^a]", "{1,2}", "^", "$", r"\d", "-"]
)


@settings(deadline=None)
@given(st.lists(pieces, max_size=8).map("".join), st.text("ab1-\n", max_size=6))
def test_re2_agrees_with_python_on_patterns_that_both_accept(pattern: str, text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            matches = compile_pattern(pattern)
        except PatternError:
            return
        try:
            python = re.compile(rf"(?:{pattern})", re.DOTALL)
        except re.error:
            return  # for example `^*`
    assert matches(text) is (python.fullmatch(text) is not None)


@given(st.text(max_size=40), st.text(max_size=10))
def test_any_pattern_is_compiled_or_a_pattern_error(pattern: str, text: str) -> None:
    try:
        test = compile_pattern(pattern)
    except PatternError:
        return
    assert test(text) in (True, False)


@pytest.mark.parametrize(
    ("pattern", "template", "text", "replaced"),
    [
        ("(.*):(.*)", "$1", "db:9000", "db"),
        ("(.*):(.*)", "${2}x$1", "db:9000", "9000xdb"),
        ("(.*):(.*)", "$1x", "db:9000", ""),
        ("(.*):(.*)", "$3$$ $0", "db:9000", "$ db:9000"),
        ("(.*):(.*)", "$01-$-${1", "db:9000", "-$-${1"),
        ("(?P<host>.*):(.*)", "$host/${host}", "db:9000", "db/db"),
        ("(?<host>.*):(.*)", "$host", "db:9000", "db"),
        ("(a)|b", "[$1]", "b", "[]"),
        ("é(.)", "$1", "éü", "ü"),
        ("a", "x", "aa", None),
        ("(.*)", "$1", "a\nb", "a\nb"),
        ("", "x", "", "x"),
    ],
)
def test_a_replacement_expands_groups_as_go_does(
    pattern: str, template: str, text: str, replaced: str | None
) -> None:
    assert compile_replacement(pattern, template)(text) == replaced


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [("b", "abc", True), ("^b", "abc", False), ("a.c", "a\nc", False), ("(?s)a.c", "xa\ncx", True)],
)
def test_a_search_is_neither_anchored_nor_crosses_lines(pattern: str, text: str, found: bool) -> None:
    assert search(pattern, text) is found


@pytest.mark.parametrize(
    ("pattern", "template", "text", "replaced"),
    [
        ("a*", "x", "baaac", "xbxcx"),
        ("", "-", "éü", "-é-ü-"),
        (r"(\w+)@\w+", "<$1>", "al@x, bo@y", "<al>, <bo>"),
        ("^a", "x", "aa", "xa"),
        (r"\bb", "x", "ab b", "ab x"),
        ("z", "x", "abc", "abc"),
    ],
)
def test_replacing_every_match_follows_go(pattern: str, template: str, text: str, replaced: str) -> None:
    assert replace_all(pattern, template, text, max_length=100) == replaced


def test_replacing_stops_at_the_limit() -> None:
    with pytest.raises(ValueError, match="longer than 100"):
        replace_all("a", "$0$0$0", "a" * 50, max_length=100)
    with pytest.raises(ValueError, match="longer than 100"):
        replace_all("z", "", "a" * 101, max_length=100)
