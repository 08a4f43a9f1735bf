"""Patterns: RE2's language, anchored, and no pattern can hold up the server."""

from __future__ import annotations

import re
import time
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.errors import PatternError
from alerts.matching.regex import MAX_PATTERN, compile_pattern


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
    ],
)
def test_a_pattern_is_read_as_re2_reads_it(pattern: str, text: str, matches: bool) -> None:
    assert compile_pattern(pattern)(text) is matches


@pytest.mark.parametrize(
    ("pattern", "column", "words"),
    [
        ("(", 2, ") is missing"),
        ("a)", 2, "unopened"),
        ("*a", 1, "nothing to repeat"),
        ("a**", 4, "needs a group"),
        ("[a", 2, "']' is missing"),
        ("[z-a]", 2, "bad character range"),
        ("[[:alpha:]]", 2, "stand in a set"),
        ("a{3,2}", 2, "n <= m"),
        ("a{1001}", 2, "n <= m"),
        ("(?=a)", 2, "only"),
        ("(?!a)", 2, "only"),
        (r"(a)\1", 4, "not taken"),
        (r"\p{L}", 1, "not taken"),
        ("a\\", 3, "missing"),
        ("(" * 60, 51, "nested deeper"),
        ("((a{1000}){1000}){1000}", 1, "too much"),
        ("a" * (MAX_PATTERN + 1), MAX_PATTERN, "1001"),
    ],
)
def test_a_pattern_that_cannot_be_taken_is_refused_with_its_column(
    pattern: str, column: int, words: str
) -> None:
    with pytest.raises(PatternError, match=re.escape(words)) as caught:
        compile_pattern(pattern)
    assert caught.value.column == column


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
def test_patterns_that_make_backtracking_explode_take_no_time(pattern: str) -> None:
    began = time.perf_counter()
    assert compile_pattern(pattern)("a" * 300) is False
    assert time.perf_counter() - began < 2.0


pieces = st.sampled_from(
    ["a", "b", "ab", ".", "|", "(", ")", "*", "+", "?", "[ab]", "[^a]", "{1,2}", "^", "$", r"\d", "-"]
)


@settings(deadline=None)
@given(st.lists(pieces, max_size=8).map("".join), st.text("ab1-\n", max_size=6))
def test_what_python_takes_too_it_answers_alike(pattern: str, text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            ours = compile_pattern(pattern)
        except PatternError:
            return
        try:
            theirs = re.compile(rf"(?:{pattern})", re.DOTALL)
        except re.error:
            return  # `^*` and the like
    assert ours(text) is (theirs.fullmatch(text) is not None)


@given(st.text(max_size=40), st.text(max_size=10))
def test_any_pattern_at_all_is_taken_or_refused(pattern: str, text: str) -> None:
    try:
        test = compile_pattern(pattern)
    except PatternError:
        return
    assert test(text) in (True, False)
