"""Run one statement for many rows, at a fraction of what `Connection.execute` costs a row.

SQLAlchemy compiles the statement once and converts the values; the driver gets the rows directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy.engine import Connection, Dialect
from sqlalchemy.sql.dml import UpdateBase

Convert = Callable[[Any], Any] | None


class BulkStatement:
    """A statement without a result. All rows of a call have the same keys; calls may differ."""

    def __init__(self, statement: UpdateBase):
        self._statement = statement
        self._compiled: dict[tuple[str, frozenset[str]], _Compiled] = {}

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Run it for each row: parameter name → value."""
        if not rows:
            return
        key = connection.dialect.driver, frozenset(rows[0])
        compiled = self._compiled.get(key)
        if compiled is None:
            compiled = self._compiled[key] = _Compiled(self._statement, connection.dialect, list(rows[0]))
        connection.exec_driver_sql(compiled.text, compiled.parameters(rows))


class _Compiled:
    def __init__(self, statement: UpdateBase, dialect: Dialect, keys: list[str]):
        compiled = statement.compile(dialect=dialect, column_keys=keys)
        types = {name: bind.type.dialect_impl(dialect) for name, bind in compiled.binds.items()}
        converters = {name: type.bind_processor(dialect) for name, type in types.items()}
        self.text = str(compiled)
        self._positional = bool(compiled.positional)
        names = (compiled.positiontup or []) if self._positional else list(converters)
        self._columns: list[tuple[str, Convert]] = [(name, converters[name]) for name in names]

    def parameters(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        columns = [(name, _values(rows, name, convert)) for name, convert in self._columns]
        in_order = zip(*(values for _, values in columns), strict=True)
        if self._positional:
            return list(in_order)
        names = [name for name, _ in columns]
        return [dict(zip(names, row, strict=True)) for row in in_order]


def _values(rows: Sequence[Mapping[str, Any]], name: str, convert: Convert) -> list[Any]:
    return [row[name] for row in rows] if convert is None else [convert(row[name]) for row in rows]
