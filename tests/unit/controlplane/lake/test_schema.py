"""The tables themselves: readable by name, by other readers than ours."""

from __future__ import annotations

import duckdb
import pytest

from controlplane.lake.schema import TABLES, arrow_schema


@pytest.mark.parametrize("table", TABLES)
def test_every_column_can_be_asked_for_by_its_bare_name(table: str) -> None:
    """DuckDB is strict about its words: `at` is one of them."""
    schema = arrow_schema(table)
    with duckdb.connect() as database:
        database.register("held", schema.empty_table())
        names = ", ".join(schema.names)
        assert database.execute(f"SELECT {names} FROM held ORDER BY {names}").fetchall() == []
