"""The parser: what text means what tree, what is refused and where, and that no text can break it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.matching.labels import Matcher
from alerts.promql.errors import ParseError
from alerts.promql.syntax.cursor import MAX_DEPTH
from alerts.promql.syntax.nodes import Anchor, Matching, Node, Number, Selector, Shift, Subquery, selectors
from alerts.promql.syntax.parser import parse
from alerts.promql.syntax.tokens import MAX_LENGTH
from tests.unit.alerts.promql.questions import Questions
from tests.unit.alerts.promql.trees import shape

# -- operators ---------------------------------------------------------------------------------------

GROUPED = {
    "a + b * c": "(a + (b * c))",
    "a * b + c": "((a * b) + c)",
    "a - b - c": "((a - b) - c)",
    "a ^ b ^ c": "(a ^ (b ^ c))",
    "-a ^ b": "-((a ^ b))",
    "a ^ -b": "(a ^ -(b))",
    "-a * b": "((-(a)) * b)",
    "a % b atan2 c": "((a % b) atan2 c)",
    "a + b > c": "((a + b) > c)",
    "a > b == c": "((a > b) == c)",
    "a or b and c": "(a or (b and c))",
    "a and b unless c": "((a and b) unless c)",
    "a or b or c": "((a or b) or c)",
    "(a or b) and c": "((a or b) and c)",
    "+a": "a",
    "--1": "1",
    "-2 ^ 2": "-((2 ^ 2))",
    "A OR b": "(A or b)",
    "a> bool b": "(a >bool b)",
    "a + on (x) b": "(a + on(x) b)",
    "a + ignoring (x, y,) b": "(a + ignoring(x,y) b)",
    "a / on (x) group_left (y) b": "(a / on(x) group_left(y) b)",
    "a / ignoring () group_right b": "(a / ignoring() group_right() b)",
    "a offset 5m + b": "(a offset 300.0 + b)",
    "sum(a) by (x) + b": "(sum by(x) (a) + b)",
    "sum without (x) (a)": "sum without(x) (a)",
    "TOPK(1, a)": "topk by() (1, a)",
    "count_values by (x) ('y', a)": "count_values by(x) ('y', a)",
    "and and or or unless": "((and and or) or unless)",
    "sum + by": "(sum + by)",
    "offset offset 5m": "offset offset 300.0",
    "# a comment\na # another\n+ b": "(a + b)",
}


@pytest.mark.parametrize("text", GROUPED)
def test_operators_group_by_their_strength(text: str) -> None:
    assert shape(parse(text)) == GROUPED[text]


def test_the_many_may_stand_on_either_side() -> None:
    tree = parse("a * on (x) group_right (y) b")
    assert tree.matching == Matching(("x",), on=True, group="right", include=("y",))  # type: ignore[union-attr]


# -- literals ----------------------------------------------------------------------------------------

NUMBERS = {
    "1": 1.0,
    "-1": -1.0,
    "1.5e3": 1500.0,
    ".5": 0.5,
    "5.": 5.0,
    "0x1F": 31.0,
    "017": 15.0,
    "08": 8.0,
    "1_000": 1000.0,
    "Inf": float("inf"),
    "-iNF": float("-inf"),
    "1h30m": 5400.0,
    "1y2w3d4h5m6s7ms": 365 * 86400 + 17 * 86400 + 4 * 3600 + 306.007,
}


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_have_the_forms_of_prometheus(text: str) -> None:
    tree = parse(text)
    assert isinstance(tree, Number) and tree.value == NUMBERS[text]


STRINGS = {
    r'"a\nb"': "a\nb",
    r"'it\'s'": "it's",
    r'"it' + "'" + r's"': "it's",
    r"`a\nb`": r"a\nb",
    r'"\x41\101\u00e9\U0001F600"': "AAé😀",
    r'"\xc3\xa9"': "é",
    '"é{}#"': "é{}#",
}


@pytest.mark.parametrize("text", STRINGS)
def test_strings_have_the_escapes_of_go(text: str) -> None:
    assert parse(text).value == STRINGS[text]  # type: ignore[union-attr]


# -- selectors ---------------------------------------------------------------------------------------


def matchers(text: str) -> list[str]:
    tree = parse(text)
    assert isinstance(tree, Selector)
    return [f"{m.name}{m.operator}{m.value}" for m in tree.matchers]


def test_the_name_is_a_matcher_among_others() -> None:
    assert matchers('a:b{c="d",e!="",f=~"g.*",h!~"i",}') == ["__name__=a:b", "c=d", "e!=", "f=~g.*", "h!~i"]


def test_names_may_be_quoted() -> None:
    assert matchers('{"a.b", "c d"=~"x"}') == ["__name__=a.b", "c d=~x"]
    assert matchers('{"c d"="x", "a.b"}') == ["c d=x", "__name__=a.b"]


def test_keywords_may_name_labels() -> None:
    assert matchers('a{on="x",sum="y",inf="z"}') == ["__name__=a", "on=x", "sum=y", "inf=z"]
    assert shape(parse("sum by (on, bool, offset) (a)")) == "sum by(on,bool,offset) (a)"


def test_ranges_and_shifts_may_follow() -> None:
    a = (Matcher("__name__", "=", "a"),)
    tree = parse("a[5m] @ 10.5 offset -1m")
    assert isinstance(tree, Selector)
    assert (tree.matchers, tree.range, tree.shift) == (a, 300.0, Shift(-60.0, 10.5))


def test_a_subquery_may_stand_on_any_vector() -> None:
    tree = parse("rate(a[1m])[1h:] @ end()")
    assert isinstance(tree, Subquery)
    assert (tree.range, tree.step, tree.shift) == (3600.0, None, Shift(at=Anchor.END))


def test_all_selectors_of_an_expression_are_found() -> None:
    found = selectors(parse("sum(a) / on (x) rate(b[5m:1m]) > scalar(c)"))
    assert [item.matchers[0].value for item in found] == ["a", "b", "c"]


# -- what is refused ---------------------------------------------------------------------------------

REFUSED = {
    "": (1, 1, "no expression"),
    "  # only this": (1, 14, "no expression"),
    "a b": (1, 3, "unexpected"),
    "a +": (1, 4, "expected an operand"),
    "a +\n  * b": (2, 3, "expected an operand"),
    "(a": (1, 3, "expected"),
    "a)": (1, 2, "unexpected"),
    "a{": (1, 3, "label name"),
    "a{b}": (1, 4, "one of = != =~ !~"),
    "a{b=c}": (1, 5, "a string"),
    'a{b="c" d="e"}': (1, 9, '","'),
    'a{b="c",,}': (1, 9, "label name"),
    'a{b="c}': (1, 5, "closing"),
    'a{b=~"("}': (1, 6, "pattern"),
    'a{__name__="b"}': (1, 1, "twice"),
    "{}": (1, 1, "non-empty matcher"),
    '{a=~".*"}': (1, 1, "non-empty matcher"),
    "a $ b": (1, 3, "unexpected character"),
    "5mm": (1, 1, "bad number"),
    "a[5m": (1, 5, '":" or "]"'),
    "a[]": (1, 3, "duration"),
    "a[0s]": (1, 3, "greater than 0"),
    "a[1s1m]": (1, 3, "not a valid duration"),
    "a[999999y]": (1, 3, "out of range"),
    f"a[{'1' * 5000}d]": (1, 3, "duration out of range"),
    f"vector(0x{'f' * 400})": (1, 8, "number out of range"),
    f"vector(0{'7' * 400})": (1, 8, "number out of range"),
    "(a)[5m]": (1, 4, "ranges only allowed"),
    "a[5m][5m]": (1, 6, "ranges only allowed"),
    "a offset 1m [5m]": (1, 13, "before range"),
    "(a) offset 5m": (1, 5, "must follow"),
    "sum(a) @ 5": (1, 8, "must follow"),
    "a offset 1m offset 1m": (1, 13, "multiple times"),
    "a @ 1 @ 1": (1, 7, "multiple times"),
    "a @ inf": (1, 5, "out of bounds"),
    "a @ b": (1, 5, "timestamp"),
    "f(a)": (1, 1, "unknown function"),
    "histogram_count(a)": (1, 1, "native histograms"),
    "abs()": (1, 1, "expected 1 argument"),
    "abs(a,)": (1, 7, "operand"),
    "abs(1)": (1, 5, "expected type instant vector"),
    "rate(a)": (1, 6, "expected type range vector"),
    "sum(a[5m])": (1, 5, "expected type instant vector"),
    "sum()": (1, 1, "wrong number of arguments"),
    "topk(a)": (1, 1, "wrong number of arguments"),
    "topk(a, a)": (1, 6, "expected type scalar"),
    "sum by a (b)": (1, 8, '"("'),
    "sum by (a b) (c)": (1, 11, '","'),
    "round(a, 1, 2)": (1, 1, "at most 2"),
    "label_join(a, 'b')": (1, 1, "at least 3"),
    "1 > 2": (1, 3, "BOOL"),
    "a + bool b": (1, 3, "bool modifier"),
    "a and 1": (1, 3, "set operator"),
    "a + on (x) 1": (1, 3, "vector matching"),
    "a and on (x) group_left b": (1, 14, "no grouping"),
    "a + group_left b": (1, 5, "operand"),
    "a + on (x) group_left (x) b": (1, 12, "at once"),
    "'a' + 1": (1, 1, "string"),
    "-a[5m]": (1, 2, "range vector"),
    "1[5m:]": (1, 1, "subquery"),
    r'"\q"': (1, 1, "unknown escape"),
    r'"\xff"': (1, 1, "UTF-8"),
    "on": (1, 1, "operand"),
    "holt_winters(a[5m], 0.1, 0.1)": (1, 1, "double_exponential_smoothing"),
    "a </ 5": (1, 3, "native histograms"),
    "a[1m-2m]": (1, 3, "greater than 0"),
    "a[1m/0]": (1, 5, "division by zero"),
    "a[1m%(2-2)]": (1, 5, "modulo by zero"),
    "a[2^9999]": (1, 4, "out of range"),
    "a[max(1m)]": (1, 9, '","'),
    "a[step()]": (1, 3, "greater than 0"),
    "a offset 1m anchored": (1, 13, "range selectors"),
    "a[5m:1m] smoothed": (1, 10, "range selectors"),
    "a[5m] smoothed anchored": (1, 16, "only once"),
    "deriv(a[5m] smoothed)": (1, 7, "only be used with: delta, increase, rate - not with deriv"),
    "a + fill(b) c": (1, 10, "a number"),
    "a + fill(0) fill_left(0) c": (1, 13, "multiple times"),
    "a or fill(0) c": (1, 6, 'not allowed for "or"'),
    "a + fill(0) 1": (1, 3, "vector matching"),
    "info(a, b + c)": (1, 11, "must be a selector"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_an_error_has_a_position_and_a_message(text: str) -> None:
    line, column, expected = REFUSED[text]
    with pytest.raises(ParseError) as caught:
        parse(text)
    error = caught.value
    assert (error.line, error.column) == (line, column), str(error)
    assert expected in error.message
    assert str(error).startswith(f"{line}:{column}: ")


# -- no text can break it ----------------------------------------------------------------------------

NESTS = {
    "parentheses": lambda n: "(" * n + "a" + ")" * n,
    "signs": lambda n: "-" * n + "a",
    "powers": lambda n: "a^" * n + "a",
    "calls": lambda n: "abs(" * n + "a" + ")" * n,
    "aggregations": lambda n: "sum(" * n + "a" + ")" * n,
    "subqueries": lambda n: "a" + "[5m:1m]" * n,
    "open braces": lambda n: "{" * n,
    "open brackets": lambda n: "a[" * n,
}


@pytest.mark.parametrize("nest", NESTS)
def test_what_is_too_deep_is_refused_and_quickly(nest: str) -> None:
    began = time.perf_counter()
    for depth in (MAX_DEPTH + 1, 1000, 8000):
        with pytest.raises(ParseError):
            parse(NESTS[nest](depth))
    assert time.perf_counter() - began < 2.0


@pytest.mark.parametrize("nest", ["parentheses", "signs", "powers", "calls", "aggregations"])
def test_half_the_depth_is_fine(nest: str) -> None:
    parse(NESTS[nest](MAX_DEPTH // 2 - 1))


def test_a_refusal_reads_no_further() -> None:
    with pytest.raises(ParseError, match="deeper than") as caught:
        parse("(" * (MAX_DEPTH + 1) + "$")  # the character that is none is not reached
    assert caught.value.column == MAX_DEPTH + 1


def test_a_chain_is_not_deep() -> None:
    tree = parse(" + ".join(["a"] * 20_000))
    assert sum(1 for _ in selectors(tree)) == 20_000


def test_keywords_of_modifiers_are_names_too() -> None:
    for text in (
        "fill + fill(0) fill",
        "other + fill_left",
        "anchored",
        "sum(smoothed)",
        "step",
        "range + start",
    ):
        parse(text)


def test_what_is_too_long_is_refused() -> None:
    with pytest.raises(ParseError, match="characters"):
        parse("a" * (MAX_LENGTH + 1))


PIECES = st.sampled_from(
    "a sum by ( ) { } [ ] , : = =~ != \"b\" 'c' 5m 1 -1 + - * / ^ or and offset @ start() on group_left bool"
    " rate( > == inf 0x # \n ` \\ é".split(" ")
)


def refusal(text: str) -> ParseError | None:
    try:
        parse(text)
    except ParseError as error:
        return error
    return None


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=40).map(" ".join) | st.text(max_size=60))
def test_any_text_gives_a_tree_or_an_error_with_its_place(text: str) -> None:
    error = refusal(text)
    if error is not None:
        lines = text.split("\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 4), st.data())
def test_a_good_expression_with_a_hole_in_it_gives_a_tree_or_an_error(
    seed: int, depth: int, data: st.DataObject
) -> None:
    text = Questions(seed).vector(depth)
    parse(text)
    at = data.draw(st.integers(0, len(text) - 1))
    error = refusal(text[:at] + text[at + data.draw(st.integers(1, 5)) :])
    assert error is None or (error.line == 1 and 1 <= error.column <= len(text) + 1)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 4))
def test_what_a_tree_is_written_as_parses_to_the_same_tree(seed: int, depth: int) -> None:
    tree: Node = parse(Questions(seed).vector(depth))
    assert shape(parse(shape(tree))) == shape(tree)
