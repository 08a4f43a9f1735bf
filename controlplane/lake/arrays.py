"""Rows as tuples -> Arrow tables by the lake's schema, column by column. Called by `controlplane.lake.rows`."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from controlplane.lake.schema import ARROW_TYPES, TABLES, ColumnType, arrow_schema

#: Of one column of text.
MAX_TEXT_BYTES = 2**31 - 1
#: So many slices cost about as much as sorting.
MAX_SLICES = 1000


def table_from_rows(name: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Rows of a table, each with a value a column, in the order of the schema."""
    if not rows:
        return arrow_schema(name).empty_table()
    return table_from_columns(name, list(zip(*rows, strict=True)))


def table_from_columns(name: str, columns: Sequence[Sequence[Any] | pa.Array | pa.ChunkedArray]) -> pa.Table:
    """Columns of a table in the order of the schema, of one length above 0: values, or Arrow's arrays of the type."""
    made = [
        values if isinstance(values, (pa.Array, pa.ChunkedArray)) else column_array(column.type, values)
        for column, values in zip(TABLES[name].columns, columns, strict=True)
    ]
    return pa.table(made, schema=arrow_schema(name))


def merge_sorted(tables: Sequence[pa.Table], column: str) -> pa.Table:
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
            slices += zip(runs.values.to_pylist(), repeat(place), begins, ends, strict=False)
            begin += len(chunk)
    if not slices or len(slices) > MAX_SLICES:
        return pa.concat_tables(tables)
    return pa.concat_tables(
        tables[place].slice(begin, end - begin) for _, place, begin, end in sorted(slices)
    )


def column_array(kind: ColumnType, column: Sequence[Any]) -> pa.Array:
    """The values of one column, at least one; times as microseconds or as datetimes with their zone."""
    type, first = ARROW_TYPES[kind], column[0]
    if (
        first is column[-1]
        and (first is None or kind is ColumnType.STRING)
        and column.count(first) == len(column)
    ):
        return pa.nulls(len(column), type) if first is None else pa.repeat(_strings([first])[0], len(column))
    if kind in (ColumnType.BIGINT_MAP, ColumnType.STRING_MAP):
        return _map(kind, column)
    return _strings(column) if kind is ColumnType.STRING else pa.array(column, type)


def _strings(column: Sequence[str | None]) -> pa.Array:
    try:
        return pa.array(column, pa.string())
    except UnicodeEncodeError:  # half a surrogate pair: JSON can say it, UTF-8 cannot
        clean = [None if one is None else one.encode("utf-8", "replace").decode() for one in column]
        return pa.array(clean, pa.string())


class _KeyLayouts(dict[tuple[str, ...], tuple[bytes, bytes]]):
    """Keys of a map, in their order -> all of them as one text in UTF-8, and the bytes of each.

    Maps mostly have the same keys, in the same order, as one before.
    """

    def __missing__(self, keys: tuple[str, ...]) -> tuple[bytes, bytes]:
        # With half a surrogate pair as in `_strings`.
        names = [key.encode("utf-8", "replace") for key in keys]
        made = self[keys] = b"".join(names), array("i", map(len, names)).tobytes()
        return made


def map_array(kind: ColumnType, keys: Sequence[tuple[str, ...] | None], values: Iterable[Any]) -> pa.MapArray:
    """The column of maps with these keys each, None where there is no map; `values` of all, one after the other."""
    layouts = _KeyLayouts()
    met = [layouts[one or ()] for one in keys]
    lengths = np.frombuffer(b"".join([length for _, length in met]), np.intc)
    size, texts = len(lengths), b"".join([text for text, _ in met])
    names = pa.StringArray.from_buffers(size, pa.py_buffer(_ends(lengths)), pa.py_buffer(texts))
    items = (
        _strings(list(values))
        if kind is ColumnType.STRING_MAP
        else pa.array(np.fromiter(values, np.int64, size))
    )
    ends = _ends(np.fromiter((len(one) if one else 0 for one in keys), np.int32, len(keys)))
    absent = np.fromiter((one is None for one in (*keys, ())), np.bool_, len(ends))
    return pa.MapArray.from_arrays(pa.array(ends, mask=absent), names, items)


def _map(kind: ColumnType, column: Sequence[Mapping[str, Any] | None]) -> pa.MapArray:
    keys = [None if one is None else tuple(one) for one in column]
    return map_array(kind, keys, chain.from_iterable(one.values() for one in column if one is not None))


def _ends(sizes: Any) -> Any:
    """Where each begins, and where the last ends. ValueError where that is beyond what Arrow can say."""
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    if ends[-1] > MAX_TEXT_BYTES:
        raise ValueError(f"{ends[-1]} bytes of text are too much for one column")
    return ends.astype(np.int32)
