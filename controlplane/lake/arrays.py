"""Rows as tuples -> Arrow tables by the lake's schema, column by column. Called by `controlplane.lake.rows`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from controlplane.lake.schema import TABLES, Type, arrow


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


def _array(kind: Type, type: pa.DataType, column: Sequence[Any]) -> pa.Array:
    if kind in (Type.WHOLES, Type.TEXTS):
        return _map(kind, column)
    return _strings(column) if kind is Type.TEXT else pa.array(column, type)


def _strings(column: Sequence[str | None]) -> pa.Array:
    try:
        return pa.array(column, pa.string())
    except UnicodeEncodeError:  # half a surrogate pair: JSON can say it, UTF-8 cannot
        clean = [None if one is None else one.encode("utf-8", "replace").decode() for one in column]
        return pa.array(clean, pa.string())


def _map(kind: Type, column: Sequence[Mapping[str, Any] | None]) -> pa.MapArray:
    keys: list[str] = []
    items: list[Any] = []
    ends: list[int | None] = []
    for one in column:
        ends.append(None if one is None else len(keys))
        if one is not None:
            keys += one
            items += one.values()
    ends.append(len(keys))
    values = _strings(items) if kind is Type.TEXTS else pa.array(items, pa.int64())
    return pa.MapArray.from_arrays(pa.array(ends, pa.int32()), _strings(keys), values)
