"""Rows become columns, and sorted tables one sorted table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.lake import arrays
from controlplane.lake.arrays import merge_sorted, table_from_rows
from controlplane.lake.schema import TABLES

NAMES = TABLES["state_operators"].names
numbers = st.dictionaries(st.text(max_size=3), st.integers(-(2**63), 2**63 - 1), max_size=4)


def operators(maps: list[Any]) -> pa.Table:
    known = {"custom_metrics": None}
    rows = [tuple((known | {"custom_metrics": item}).get(name) for name in NAMES) for item in maps]
    return table_from_rows("state_operators", rows)


@settings(deadline=None)
@given(st.lists(st.none() | numbers, min_size=1, max_size=8))
def test_maps_of_any_keys_in_any_order_are_as_they_were(maps: list[Any]) -> None:
    found = operators(maps)["custom_metrics"].to_pylist()
    assert found == [None if item is None else list(item.items()) for item in maps]


def test_maps_with_the_same_keys_in_another_order_keep_it() -> None:
    maps = [{"a": 1, "b": 2}, {"b": 3, "a": 4}, {"b": 5}, {}, {"a": 6, "b": 7}]
    assert operators(maps)["custom_metrics"].to_pylist() == [list(item.items()) for item in maps]


def test_more_text_than_a_column_can_say_is_an_error_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MAX_TEXT_BYTES", 5)
    assert operators([{"abc": 1}, {"de": 2}]).num_rows == 2
    with pytest.raises(ValueError, match="6 bytes of text exceed"):
        operators([{"abc": 1}, {"def": 2}])


@pytest.mark.parametrize("most", [arrays.MAX_SLICES, 2], ids=["slices", "too many slices"])
@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from("abc"), max_size=6), min_size=1, max_size=5))
def test_sorted_tables_become_one_of_all_rows(most: int, chunks: list[list[str]]) -> None:
    tables = [
        pa.table(
            {"q": pa.array(sorted(chunk), pa.string()), "from": [f"{place}.{n}" for n in range(len(chunk))]},
            schema=pa.schema([("q", pa.string()), ("from", pa.string())]),
        )
        for place, chunk in enumerate(chunks)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "MAX_SLICES", most)
        found = merge_sorted(tables, "q").to_pylist()
    rows = [row for table in tables for row in table.to_pylist()]
    if most == arrays.MAX_SLICES:
        assert found == sorted(rows, key=lambda row: row["q"]), "sorted, the earlier first where they agree"
    assert sorted(map(str, found)) == sorted(map(str, rows))
