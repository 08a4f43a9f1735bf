"""YAML documents as trees: every text with its place, and what is refused with its own."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.yaml.parser import MAX_BYTES, parse
from alerts.yaml.tree import Mark, Node, YamlScalar, YamlSequence


def plain(node: Node | None) -> Any:
    """The tree as texts, lists and dicts."""
    if node is None or isinstance(node, YamlScalar):
        return node and node.value
    if isinstance(node, YamlSequence):
        return [plain(item) for item in node.items]
    return {key.value: plain(value) for key, value in node.entries}


def read(text: str) -> Any:
    tree, mistakes = parse(text)
    assert mistakes == ()
    return plain(tree)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", None),
        ("# nothing\n\n", None),
        ("a: b\nc: d\n", {"a": "b", "c": "d"}),
        ("a:\n- b\n- c\n", {"a": ["b", "c"]}),
        ("a:\n  - b\nc: d\n", {"a": ["b"], "c": "d"}),
        ("- a: 1\n  b: 2\n- c\n", [{"a": "1", "b": "2"}, "c"]),
        ("- - a\n  - b\n- - c\n", [["a", "b"], ["c"]]),
        ("-\n  a: b\n-\n  - c\n", [{"a": "b"}, ["c"]]),
        ("a:\n    b:\n      c: d\n    e: f\ng: h\n", {"a": {"b": {"c": "d"}, "e": "f"}, "g": "h"}),
        ("a:\nb:\n", {"a": "", "b": ""}),
        ("a: foo\n  bar\n\n  baz\nb: c # d\n", {"a": "foo bar\nbaz", "b": "c"}),
        ("a: #c\n  d\n", {"a": "d"}),
        ("x: a#b\ny: http://foo:80/z\n", {"x": "a#b", "y": "http://foo:80/z"}),
        ("a : b\n", {"a": "b"}),
        ("'q k': v\n\"z\": w\n", {"q k": "v", "z": "w"}),
        ("---\na: b\n...\n", {"a": "b"}),
        ("\ufeffa: b\r\nc: d\r\n", {"a": "b", "c": "d"}),
        ("a: -1\n", {"a": "-1"}),
    ],
)
def test_blocks_and_plain_texts(text: str, meant: Any) -> None:
    assert read(text) == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a: 'it''s'\n", "it's"),
        (r'a: "x\ty\u00e9\"\\"' + "\n", 'x\tyé"\\'),
        ('a: "foo\n  bar\n\n  baz"\n', "foo bar\nbaz"),
        ("a: 'x\n\n  y'\n", "x\ny"),
        ('a: "x \\\n  y"\n', "x y"),
        ("a: |\n  x\n   y\n\n  z\n", "x\n y\n\nz\n"),
        ("a: |-\n  x\n\n", "x"),
        ("a: |+\n  x\n\nb: c\n", "x\n\n"),
        ("a: |2\n   x\n  y\n", " x\ny\n"),
        ("a: |\n  {{ x }}: y # not a comment\n", "{{ x }}: y # not a comment\n"),
        ("a: >\n  x\n  y\n\n\n  z\n   more\n\n  w\n", "x y\n\nz\n more\n\nw\n"),
        ("a: >-\n  x\n  y\n\n", "x y"),
        ("a: |\n\n\n  x\n", "\n\nx\n"),
        ("a: |\nb: c\n", ""),
    ],
)
def test_quoted_and_block_texts(text: str, meant: str) -> None:
    assert read(text)["a"] == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a: {x: 1, y: [a, b, {c: d}]}\n", {"a": {"x": "1", "y": ["a", "b", {"c": "d"}]}}),
        ("a: [\n  b, # one\n  'c, d',\n]\n", {"a": ["b", "c, d"]}),
        ('a: {"x":1, y, z: }\n', {"a": {"x": "1", "y": "", "z": ""}}),
        ("[a, b]\n", ["a", "b"]),
        ("a: []\nb: {}\n", {"a": [], "b": {}}),
        ('a: [severity="x", b!~c:d]\n', {"a": ['severity="x"', "b!~c:d"]}),
    ],
)
def test_flow_collections(text: str, meant: Any) -> None:
    assert read(text) == meant


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ("a: *x\n", 1, 4, "there is no anchor 'x' before this alias"),
        ("a: &x [*x]\n", 1, 8, "there is no anchor 'x' before this alias"),
        ("a: !!python/object b\n", 1, 4, "tags are not supported"),
        ("a: b\n<<: c\n", 2, 1, "a merge key needs a mapping"),
        ("a: b\na: c\n", 2, 1, "'a' is set twice"),
        ("a: {b: c, b: d}\n", 1, 11, "'b' is set twice"),
        ("a: b\n---\nc: d\n", 2, 1, "only one document"),
        ("? [a]\n: b\n", 1, 3, "a key must be a string"),
        ("[" * 41, 1, 41, "nested deeper than 40"),
        ("- " * 41 + "a", 1, 81, "nested deeper than 40"),
    ],
)
def test_what_is_wrong_is_reported_with_its_place(text: str, line: int, column: int, expected: str) -> None:
    _, mistakes = parse(text)
    assert (mistakes[0].line, mistakes[0].column) == (line, column)
    assert expected in mistakes[0].message


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\ta: b\n", 1),
        ("a: b: c\n", 1),
        ("a: b\n c: d\n", 2),
        ("a: - b\n", 1),
        ("a: b\n- c\n", 2),
        ("a:\n  - b\n - c\n", 3),
        ("x: y\na: [b\n", 2),
        ("x: y\na: 'b\n", 2),
        ('a: "\\q"\n', 1),
        ('a: "b" c\n', 1),
        ("a: @b\n", 1),
        ("a: |x\n  b\n", 1),
        ("a: b\x00\n", 1),
    ],
)
def test_what_is_no_yaml_is_reported_with_its_line(text: str, line: int) -> None:
    tree, mistakes = parse(text)
    assert tree is None and mistakes[-1].line == line and len(mistakes[-1].message) > 10


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a: &x {b: c}\nd: *x\n", {"a": {"b": "c"}, "d": {"b": "c"}}),
        ("- &x a\n- &x b\n- *x\n", ["a", "b", "b"]),
        (
            "a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\n",
            {"a": {"b": "1", "c": "2"}, "d": {"c": "3", "b": "1"}},
        ),
        (
            "- &x {a: 1}\n- &y {a: 2, b: 2}\n- <<: [*x, *y]\n",
            [{"a": "1"}, {"a": "2", "b": "2"}, {"a": "1", "b": "2"}],
        ),
        ("<<: {a: b}\n", {"a": "b"}),
        ("'<<': {a: b}\n", {"<<": {"a": "b"}}),
    ],
)
def test_anchors_aliases_and_merge_keys(text: str, meant: Any) -> None:
    assert read(text) == meant


def test_an_alias_keeps_the_place_of_its_anchor() -> None:
    tree, _ = parse("a: &x b\nc: *x\n")
    assert tree is not None
    assert [value.mark for _, value in tree.entries] == [Mark(1, 4), Mark(1, 4)]  # type: ignore[union-attr]


def test_aliases_cannot_stand_for_gigabytes() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    tree, mistakes = parse("\n".join(lines))
    assert tree is None
    assert "stands for more than" in mistakes[0].message
    assert mistakes[0].line == 7


def test_aliases_cannot_nest_deeper_than_text_can() -> None:
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 60))]
    tree, mistakes = parse("\n".join(lines))
    assert tree is None
    assert "nested deeper than 40" in mistakes[0].message


def test_a_document_of_some_mebibytes_is_read() -> None:
    text = "a:\n" + "".join(f"  - name: rule {n}\n    expr: up == {n}\n" for n in range(50_000))
    assert len(text) > 1 << 20
    assert len(read(text)["a"]) == 50_000


def test_what_utf_8_cannot_hold_is_reported() -> None:
    assert "UTF-8" in parse("a: \ud800")[1][0].message


def test_several_mistakes_are_reported_at_once() -> None:
    _, mistakes = parse("a: !x b\n<<: c\na: d\n")
    assert [mistake.line for mistake in mistakes] == [1, 2, 3]


def test_a_text_knows_where_its_lines_stand() -> None:
    tree, _ = parse('a:\n  b: |\n    one\n    two\n  c: "quoted"\n  d: >\n    folded\n')
    assert tree is not None
    inner = {key.value: value for key, value in tree.entries[0][1].entries}  # type: ignore[union-attr]
    assert inner["b"].place(2, 3) == Mark(4, 7)
    assert inner["c"].place(1, 1) == Mark(5, 7)
    assert inner["d"].place(1, 3) == inner["d"].mark == Mark(6, 6)


@pytest.mark.parametrize("word", ["", "~", "null"])
def test_null_differs_from_the_text_null(word: str) -> None:
    tree, _ = parse(f"- {word}\n- '{word}'\n")
    assert [item.is_null for item in tree.items] == [True, False]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "text",
    [
        "a: [" + "b, " * 30_000 + "]",
        "a: 'x" + " " * 90_000,
        "- a\n" * 25_000,
        "k: |\n  x\n" * 9_000,
        "a: b" + " " * 9_000 + ":",
        "x\n" * 40_000,
        "a: " + "{" * 90_000,
        '"' * 90_000,
    ],
    ids=["flow", "open quote", "list", "block texts", "spaces", "lines", "braces", "quotes"],
)
def test_a_large_document_takes_linear_time(text: str) -> None:
    began = time.process_time()
    parse(text)
    assert time.process_time() - began < 2


def test_a_document_is_not_endless() -> None:
    _, mistakes = parse("a" * (MAX_BYTES + 1))
    assert "bytes" in mistakes[0].message


PIECES = [
    "a",
    "b: ",
    "- ",
    "\n",
    "\n  ",
    " ",
    "|",
    ">",
    "#",
    "'",
    '"',
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "&",
    "*",
    "\t",
]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.text(max_size=40))
def test_any_text_is_a_document_or_reported_what_is_wrong(text: str) -> None:
    tree, mistakes = parse(text)
    lines = text.count("\n") + 1
    assert all(1 <= mistake.line <= lines + 1 and mistake.column >= 1 for mistake in mistakes)
    assert tree is None or plain(tree) is not None
