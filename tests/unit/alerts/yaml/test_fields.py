"""Fields of a table: taken as what they should be, or reported what is wrong."""

from __future__ import annotations

import pytest

from alerts.yaml.fields import FieldReader, Fields
from alerts.yaml.parser import parse

KNOWN = ("name", "wait", "count", "on", "words", "labels")


def fields(text: str) -> tuple[FieldReader, Fields]:
    tree, _ = parse(text)
    reader = FieldReader()
    assert tree is not None
    return reader, reader.mapping(tree, "a thing", KNOWN)


def reported(reader: FieldReader) -> list[str]:
    return [str(mistake) for mistake in reader.errors]


def test_fields_are_read_with_their_types() -> None:
    reader, given = fields("{name: x, wait: 1m, count: 3, on: yes, words: [a, b], labels: {k: v, n: }}")
    assert reader.string(given, "name") is not None
    assert reader.seconds(given, "wait") == 60.0
    assert reader.whole_number(given, "count") == 3
    assert reader.boolean(given, "on") is True
    assert [text.value for text in reader.strings(given, "words")] == ["a", "b"]
    assert [(key.value, text.value) for key, text in reader.pairs(given, "labels")] == [("k", "v"), ("n", "")]
    assert reported(reader) == []


def test_what_is_absent_or_null_is_none() -> None:
    reader, given = fields("{name: , count: ~}")
    assert reader.string(given, "name") is None
    assert reader.whole_number(given, "count") is None
    assert reader.seconds(given, "wait") is None
    assert list(reader.pairs(given, "labels")) == []
    assert reported(reader) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{wait: 5 minutes}", "line 1, column 8: wait: '5 minutes' is not a valid duration"),
        ("{wait: 0s}", "line 1, column 8: wait: must be greater than 0"),
        ("{count: 1.5}", "line 1, column 9: count: '1.5' is not an integer from 0 to 999999999"),
        ("{on: maybe}", "line 1, column 6: on: 'maybe' is neither true nor false"),
        ("{name: [a]}", "line 1, column 8: name: expected a string, not a list"),
        ("{words: a}", "line 1, column 9: words: expected a list, not a string"),
        ("{labels: a}", "line 1, column 10: labels: expected a mapping, not a string"),
        ("{labels: {a: [b]}}", "line 1, column 14: a: expected a string, not a list"),
        ("{nam: x}", "line 1, column 2: a thing has no field 'nam'; did you mean 'name'?"),
        (
            "{zzz: x}",
            "line 1, column 2: a thing has no field 'zzz'; known fields: name, wait, count, on, words, labels",
        ),
        ("[a]", "line 1, column 1: a thing: expected a mapping, not a list"),
    ],
)
def test_what_is_wrong_is_reported(text: str, expected: str) -> None:
    reader, given = fields(text)
    reader.string(given, "name")
    reader.seconds(given, "wait", least=0.001)
    reader.whole_number(given, "count")
    reader.boolean(given, "on")
    list(reader.strings(given, "words"))
    list(reader.pairs(given, "labels"))
    assert any(mistake.startswith(expected) for mistake in reported(reader)), reported(reader)
