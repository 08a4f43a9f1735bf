"""Rows as tuples -> Arrow tables by the lake's schema, column by column. Called by `controlplane.lake.rows`."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from controlplane.lake.schema import TABLES, Type, arrow

#: So many slices cost about as much as sorting.
MOST_SLICES = 1000


def table_of(name: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Rows of a table, each with a value a column, in the order of the schema."""
    schema = arrow(name)
    if not rows:
        return schema.empty_table()
    columns = zip(*rows, strict=True)
    kinds = (column.type for column in TABLES[name].columns)
    return pa.table(
        [
            _array(kind, field.type, column)
            for kind, field, column in zip(kinds, schema, columns, strict=True)
        ],
        schema=schema,
    )


def merged(tables: Sequence[pa.Table], column: str) -> pa.Table:
    """Tables that are each sorted by a column of text -> one that is, the earlier first where they agree.

    Rows are not copied; where the slices would be many, the tables come one after the other instead.
    """
    slices: list[tuple[str, int, int, int]] = []
    for place, table in enumerate(tables):
        begin = 0
        for chunk in table[column].chunks:
            runs = pc.run_end_encode(chunk)
            ends = [begin + end for end in runs.run_ends.to_pylist()]
            begins = [begin, *ends]
            slices += zip(runs.values.to_pylist(), itertools.repeat(place), begins, ends, strict=False)
            begin += len(chunk)
    if not slices or len(slices) > MOST_SLICES:
        return pa.concat_tables(tables)
    return pa.concat_tables(
        tables[place].slice(begin, end - begin) for _, place, begin, end in sorted(slices)
    )


def _array(kind: Type, type: pa.DataType, column: Sequence[Any]) -> pa.Array:
    first = column[0]
    if first is column[-1] and (first is None or kind is Type.TEXT) and column.count(first) == len(column):
        return pa.nulls(len(column), type) if first is None else pa.repeat(_strings([first])[0], len(column))
    if kind in (Type.WHOLES, Type.TEXTS):
        return _map(kind, column)
    return _strings(column) if kind is Type.TEXT else pa.array(column, type)


def _strings(column: Sequence[str | None]) -> pa.Array:
    try:
        return pa.array(column, pa.string())
    except UnicodeEncodeError:  # half a surrogate pair: JSON can say it, UTF-8 cannot
        clean = [None if one is None else one.encode("utf-8", "replace").decode() for one in column]
        return pa.array(clean, pa.string())


class _Keys:
    """The keys of many maps, one after the other. Maps mostly have the same keys, in the same order, as one before."""

    def __init__(self) -> None:
        self.size = 0
        #: By layout: the keys as one text, in UTF-8, and the bytes of each.
        self._met: dict[tuple[str, ...], tuple[bytes, bytes]] = {}
        self._texts: list[bytes] = []
        self._lengths: list[bytes] = []

    def add(self, keys: Mapping[str, Any]) -> None:
        layout = tuple(keys)
        met = self._met.get(layout)
        if met is None:
            # With half a surrogate pair as in `_strings`.
            names = [key.encode("utf-8", "replace") for key in layout]
            met = self._met[layout] = b"".join(names), array("i", map(len, names)).tobytes()
        self._texts.append(met[0])
        self._lengths.append(met[1])
        self.size += len(layout)

    def array(self) -> pa.Array:
        """As Arrow lays text out: where each begins and ends, and all of it in one piece."""
        ends = np.zeros(self.size + 1, np.int32)
        np.cumsum(np.frombuffer(b"".join(self._lengths), np.intc), out=ends[1:])
        return pa.StringArray.from_buffers(self.size, pa.py_buffer(ends), pa.py_buffer(b"".join(self._texts)))


def _map(kind: Type, column: Sequence[Mapping[str, Any] | None]) -> pa.MapArray:
    keys = _Keys()
    items: list[Any] = []
    ends: list[int | None] = []
    for one in column:
        if one is None:
            ends.append(None)
        else:
            ends.append(keys.size)
            keys.add(one)
            items += one.values()
    ends.append(keys.size)
    values = _strings(items) if kind is Type.TEXTS else pa.array(items, pa.int64())
    return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), keys.array(), values)
