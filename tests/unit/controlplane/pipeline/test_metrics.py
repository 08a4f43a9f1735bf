"""Numbers by name are what any reader of JSON says they are, whatever was read before."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.pipeline import metrics
from controlplane.pipeline.metrics import Laid, Number, Numbers, Reader, column_of

numbers = st.integers(-(2**63) + 1, 2**63 - 1)
maps = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), numbers, max_size=4)


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def read(told: list[dict[str, int]], reader: Reader | None = None) -> list[Numbers]:
    reader = reader or Reader()
    return [reader.read("operator", raw(one)) for one in told]


def as_told(found: list[Numbers]) -> list[dict[str, int] | None]:
    return [None if one is None else dict(one) for one in column_of(found).to_pylist()]


@settings(deadline=None)
@given(st.lists(maps, min_size=1, max_size=6))
def test_maps_are_as_they_were(told: list[dict[str, int]]) -> None:
    assert as_told(read(told * 2)) == [one or None for one in told * 2]


def test_names_that_come_again_are_read_as_they_were_met() -> None:
    first, second, third = read([{"a": 1, "b": 2}, {"a": 3, "b": 4}, {"b": 6, "a": 5}])
    assert isinstance(first, Laid) and type(first) is type(second) is type(third)
    assert column_of([third]).to_pylist() == [[("a", 5), ("b", 6)]]


@pytest.mark.parametrize(
    "told", [{"a": "1"}, {"a": 1.5}, {"a": None}, {"a": 2**63}, {"a": {}}, {"a": True}, [1], 1, "a"]
)
def test_what_is_no_map_of_whole_numbers_is_an_error(told: object) -> None:
    for reader in (met := Reader(), Reader()):
        met.read("operator", raw({"a": 1}))
        with pytest.raises(ValueError):
            reader.read("operator", raw(told))


def test_none_are_none() -> None:
    assert read([{}, {"a": 1}, {}])[::2] == [None, None]
    assert Reader().read(None, raw(None)) is None


def test_what_has_other_names_each_time_is_read_without_a_structure_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "MOST_KINDS", 2)
    told = [{f"name {place}": place} for place in range(5)]
    found = read(told)
    assert [isinstance(one, Laid) for one in found] == [True, True, False, False, False]
    assert as_told(found) == told


def test_more_names_than_a_structure_has_and_names_that_none_can_have() -> None:
    told = [{f"n{place}": place for place in range(metrics.MOST_NAMES + 1)}, {'a"b': 1}, {"a\\b": 1}]
    assert as_told(read(told)) == told
    assert msgspec.json.decode(raw(2**63 - 1), type=Number) == 2**63 - 1
