"""Shapes from JSON: what is missing is unknown, what is wrong is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.shapes.model import ShapeError, shape_from
from tests.unit.controlplane.shapes.shapes import PARTITIONS, aggregate, join, reported

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


def test_a_shape_of_a_running_query_is_read() -> None:
    found = shape_from(reported(aggregate(), join(), spark="4.3.0-SNAPSHOT"))
    assert found.spark == (4, 3, 0)
    assert [each.kind for each in found.operators or ()] == ["aggregate", "join"]
    assert (found.operators or ())[1].state == (("string", "timestamp"), ("string", "long", "timestamp"))
    assert found.in_force(PARTITIONS) == "200"


def test_all_but_the_version_may_be_missing() -> None:
    found = shape_from({"v": 1})
    assert (found.sources, found.operators, found.sink, found.spark, dict(found.conf)) == (
        None,
        None,
        None,
        None,
        {},
    )


@pytest.mark.parametrize("wrapped", [{"shape": reported()}, {"facts": {"shape": reported()}, "id": "q"}])
def test_what_an_agent_sent_may_be_given_as_it_is(wrapped: dict) -> None:
    assert shape_from(wrapped) == shape_from(reported())


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ([], "JSON object"),
        ({}, "v must be 1"),
        ({"v": 2}, "newer agent"),
        ({"v": 1, "sources": {}}, "sources must be a list"),
        ({"v": 1, "sources": [{"type": 3}]}, r"sources\[0\].type must be a string"),
        ({"v": 1, "operators": [{}]}, r"operators\[0\].kind must be a string"),
        ({"v": 1, "operators": [{"kind": "x", "values": [["a"]]}]}, "pair of strings"),
        ({"v": 1, "conf": {"a": 1}}, "conf.a must be a string"),
        ({"v": 1, "trigger": "now"}, "trigger must be an object"),
    ],
)
def test_a_mistake_names_its_place(document: object, place: str) -> None:
    with pytest.raises(ShapeError, match=place):
        shape_from(document)


@given(st.sampled_from(sorted(reported())), ANYTHING)
def test_any_value_in_any_field_is_read_or_refused_by_name(field: str, value: object) -> None:
    try:
        shape_from({**reported(), field: value})
        printed = field
    except ShapeError as error:
        printed = str(error)
    assert field in printed
