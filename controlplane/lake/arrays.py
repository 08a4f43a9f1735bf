"""Convert rows given as tuples into Arrow tables of the lake's schema, column by column. Called by
`controlplane.lake.rows`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from controlplane.lake.schema import ARROW_TYPES, TABLES, ColumnType, arrow_schema

#: Bytes of one column of text: Arrow's string offsets are 32-bit.
MAX_TEXT_BYTES = 2**31 - 1
#: Slices above which merging costs about as much as sorting.
MAX_SLICES = 1000


def table_from_rows(name: str, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Build a table from rows that have one value per column, in schema order."""
    if not rows:
        return arrow_schema(name).empty_table()
    return table_from_columns(name, list(zip(*rows, strict=True)))


def table_from_columns(name: str, columns: Sequence[Sequence[Any] | pa.Array | pa.ChunkedArray]) -> pa.Table:
    """Build a table from columns in schema order, all of one length above 0: Python values, or Arrow arrays
    of the column's type.
    """
    tables_or_arrays = [
        values if isinstance(values, (pa.Array, pa.ChunkedArray)) else column_array(column.type, values)
        for column, values in zip(TABLES[name].columns, columns, strict=True)
    ]
    return pa.table(tables_or_arrays, schema=arrow_schema(name))


def merge_sorted(tables: Sequence[pa.Table], column: str) -> pa.Table:
    """Merge tables that are each sorted by a text column; on equal keys rows of earlier tables come first.

    Rows are not copied. With more than `MAX_SLICES` slices the tables are concatenated unmerged instead.
    """
    slices: list[tuple[str, int, int, int]] = []
    for index, table in enumerate(tables):
        begin = 0
        for chunk in table[column].chunks:
            runs = pc.run_end_encode(chunk)
            ends = [begin + end for end in runs.run_ends.to_pylist()]
            begins = [begin, *ends]
            slices += zip(runs.values.to_pylist(), repeat(index), begins, ends, strict=False)
            begin += len(chunk)
    if not slices or len(slices) > MAX_SLICES:
        return pa.concat_tables(tables)
    return pa.concat_tables(
        tables[index].slice(begin, end - begin) for _, index, begin, end in sorted(slices)
    )


def column_array(column_type: ColumnType, column: Sequence[Any]) -> pa.Array:
    """Build the array of one column of at least one value; times are microseconds or aware datetimes."""
    type, first = ARROW_TYPES[column_type], column[0]
    if (
        first is column[-1]
        and (first is None or column_type is ColumnType.STRING)
        and column.count(first) == len(column)
    ):
        return pa.nulls(len(column), type) if first is None else pa.repeat(_strings([first])[0], len(column))
    if column_type in (ColumnType.BIGINT_MAP, ColumnType.STRING_MAP):
        return _map(column_type, column)
    return _strings(column) if column_type is ColumnType.STRING else pa.array(column, type)


def _strings(column: Sequence[str | None]) -> pa.Array:
    try:
        return pa.array(column, pa.string())
    except UnicodeEncodeError:  # an unpaired surrogate: valid in JSON, not in UTF-8
        clean = [None if item is None else item.encode("utf-8", "replace").decode() for item in column]
        return pa.array(clean, pa.string())


class _KeyLayouts(dict[tuple[str, ...], tuple[bytes, bytes]]):
    """Keys of a map in their order → their concatenated UTF-8 text, and the byte length of each.

    Most maps have the same keys in the same order as an earlier map, so the encoding is cached.
    """

    def __missing__(self, keys: tuple[str, ...]) -> tuple[bytes, bytes]:
        # Unpaired surrogates are replaced as in `_strings`.
        names = [key.encode("utf-8", "replace") for key in keys]
        tables_or_arrays = self[keys] = b"".join(names), array("i", map(len, names)).tobytes()
        return tables_or_arrays


def map_array(
    column_type: ColumnType, keys: Sequence[tuple[str, ...] | None], values: Iterable[Any]
) -> pa.MapArray:
    """Build a map column from the keys of each map (None: no map) and all `values`, map after map."""
    layouts = _KeyLayouts()
    layouts_met = [layouts[item or ()] for item in keys]
    lengths = np.frombuffer(b"".join([length for _, length in layouts_met]), np.intc)
    size, texts = len(lengths), b"".join([text for text, _ in layouts_met])
    names = pa.StringArray.from_buffers(size, pa.py_buffer(_ends(lengths)), pa.py_buffer(texts))
    items = (
        _strings(list(values))
        if column_type is ColumnType.STRING_MAP
        else pa.array(np.fromiter(values, np.int64, size))
    )
    ends = _ends(np.fromiter((len(item) if item else 0 for item in keys), np.int32, len(keys)))
    absent = np.fromiter((item is None for item in (*keys, ())), np.bool_, len(ends))
    return pa.MapArray.from_arrays(pa.array(ends, mask=absent), names, items)


def _map(column_type: ColumnType, column: Sequence[Mapping[str, Any] | None]) -> pa.MapArray:
    keys = [None if item is None else tuple(item) for item in column]
    return map_array(
        column_type, keys, chain.from_iterable(item.values() for item in column if item is not None)
    )


def _ends(sizes: Any) -> Any:
    """Offsets of values of these sizes, with the end of the last. ValueError beyond Arrow's 32-bit limit."""
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    if ends[-1] > MAX_TEXT_BYTES:
        raise ValueError(f"{ends[-1]} bytes of text exceed the limit of one column")
    return ends.astype(np.int32)
