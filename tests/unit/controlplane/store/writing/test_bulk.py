"""Rows written in bulk are those that SQLAlchemy writes one by one."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from controlplane.store.tables import Json
from controlplane.store.writing.bulk import BulkStatement

TABLE = sa.Table(
    "t", sa.MetaData(), sa.Column("a", sa.Integer), sa.Column("b", Json), sa.Column("c", sa.Float)
)
ROWS = [{"a": 1, "b": {"x": [1, "é"]}, "c": 0.1}, {"a": 2, "b": None, "c": 2.0}]


@pytest.fixture
def connection():
    engine = sa.create_engine("sqlite://")
    with engine.begin() as opened:
        TABLE.create(opened)
        yield opened


def stored(connection):
    return [tuple(row) for row in connection.execute(sa.select(TABLE).order_by(TABLE.c.a))]


def test_inserted_and_updated_rows_are_converted(connection):
    BulkStatement(sa.insert(TABLE)).run(connection, ROWS)
    assert stored(connection) == [(1, {"x": [1, "é"]}, 0.1), (2, None, 2.0)]
    update = BulkStatement(sa.update(TABLE).where(TABLE.c.a == sa.bindparam("row_key")))
    update.run(connection, [{"row_key": 2, "b": [1]}, {"row_key": 9, "b": [2]}])
    update.run(connection, [{"row_key": 1, "c": 7.0}])
    assert stored(connection) == [(1, {"x": [1, "é"]}, 7.0), (2, [1], 2.0)]


def test_no_rows_are_no_statement():
    BulkStatement(sa.insert(TABLE)).run(None, [])


def test_a_row_without_a_value_is_an_error(connection):
    with pytest.raises(KeyError):
        BulkStatement(sa.insert(TABLE)).run(connection, [ROWS[0], {"a": 3}])
