"""Numbers by name are what any reader of JSON states they are, whatever was read before."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.pipeline.eventlogs import metric_columns
from controlplane.pipeline.eventlogs.metric_columns import (
    MetricReader,
    MetricStruct,
    Number,
    Numbers,
    metrics_array,
)

numbers = st.integers(-(2**63) + 1, 2**63 - 1)
maps = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), numbers, max_size=4)


SOURCE = ("query", "operator")


def raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(json.dumps(value).encode())


def read(reported: list[dict[str, int]], reader: MetricReader | None = None) -> list[Numbers]:
    reader = reader or MetricReader()
    return [reader.read(SOURCE, raw(item)) for item in reported]


def as_reported(found: list[Numbers]) -> list[dict[str, int] | None]:
    return [None if item is None else dict(item) for item in metrics_array(found).to_pylist()]


@settings(deadline=None)
@given(st.lists(maps, min_size=1, max_size=6))
def test_maps_are_as_they_were(reported: list[dict[str, int]]) -> None:
    assert as_reported(read(reported * 2)) == [item or None for item in reported * 2]


def test_names_that_come_again_are_read_as_they_were_met() -> None:
    found = read([{"a": 1, "b": 2}, {"a": 3, "b": 4}, {"a": 5, "b": 6}, {"b": 8, "a": 7}])
    assert [isinstance(item, MetricStruct) for item in found] == [False, False, True, True]
    assert type(found[2]) is type(found[3])
    assert metrics_array(found[3:]).to_pylist() == [[("a", 7), ("b", 8)]]


@pytest.mark.parametrize(
    "reported", [{"a": "1"}, {"a": 1.5}, {"a": None}, {"a": 2**63}, {"a": {}}, {"a": True}, [1], 1, "a"]
)
def test_what_is_no_map_of_whole_numbers_is_an_error(reported: object) -> None:
    for reader in (met := MetricReader(), MetricReader()):
        met.read(SOURCE, raw({"a": 1}))
        with pytest.raises(ValueError):
            reader.read(SOURCE, raw(reported))


def test_none_are_none() -> None:
    assert read([{}, {"a": 1}, {}])[::2] == [None, None]
    assert MetricReader().read(SOURCE, raw(None)) is None


def test_what_has_other_names_each_time_is_no_longer_guessed() -> None:
    reader = MetricReader()
    reported = [{f"name {place % 40}": place} for place in range(200)]
    found = read(reported, reader)
    assert not any(isinstance(item, MetricStruct) for item in found)
    assert as_reported(found) == reported
    typical = [{"a": 1}] * 4
    of_another = [reader.read(("other", "operator"), raw(item)) for item in typical]
    assert [isinstance(item, MetricStruct) for item in of_another] == [False, False, True, True]
    assert not any(isinstance(item, MetricStruct) for item in read(typical, reader))


def test_names_that_change_now_and_then_are_guessed_anew() -> None:
    reported = ([{"a": 1}] * 5 + [{"b": 2}] * 5) * 8
    found = read(reported)
    assert sum(isinstance(item, MetricStruct) for item in found) >= len(reported) * 3 // 5
    assert as_reported(found) == reported


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_columns, "MAX_STRUCTS", 3)
    monkeypatch.setattr(metric_columns, "MAX_OPERATORS", 5)
    reader = MetricReader()
    for place in range(20):
        for _ in range(3):
            assert reader.read((f"query {place}", "o"), raw({f"n{place}": place})) is not None
    assert len(reader._structs) <= 3 and len(reader._cached) <= 5
    assert reader.read(("q", "o" * 1000), raw({"a": 1})) == {"a": 1}
    assert len(reader._cached) <= 5


def test_more_names_than_a_structure_has_and_names_that_none_can_have() -> None:
    reported = [
        {f"n{place}": place for place in range(metric_columns.MAX_NAMES + 1)},
        {'a"b': 1},
        {"a\\b": 1},
    ]
    assert as_reported(read(reported * 3)) == reported * 3
    assert msgspec.json.decode(raw(2**63 - 1), type=Number) == 2**63 - 1
