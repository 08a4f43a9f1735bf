"""What a bucket's row is called; its figures are held against pandas on real Spark (`tests/spark/test_rollups.py`)."""

from __future__ import annotations

import pyarrow as pa
import pytest

from controlplane.pipeline.rollup.buckets import DAY_MICROS, _names

Sign = tuple[int, str | None, str | None]
ON, BEFORE = 3 * DAY_MICROS, 2 * DAY_MICROS


@pytest.mark.parametrize(
    ("signs", "called"),
    [
        ([(ON, "shop", "orders")], ("shop", "orders")),
        ([(ON, "shop", "orders"), (ON + 5, "shop", None)], ("shop", "orders")),
        ([(ON, "shop", "old"), (ON + 5, "shop", "new")], ("shop", "new")),
        ([(BEFORE, "shop", "orders"), (ON, "shop", None)], ("shop", "orders")),
        ([(ON, "shop", "orders"), (ON + DAY_MICROS, "shop", "later")], ("shop", "orders")),
        ([(ON, "shop", None)], ("shop", None)),
        ([], (None, None)),
    ],
    ids=["one", "an-end-names-none", "renamed", "named-the-day-before", "of-the-day", "no-name", "nothing"],
)
def test_a_query_goes_by_the_last_name_that_the_day_reports(
    signs: list[Sign], called: tuple[str | None, str | None]
) -> None:
    rows = [{"at": at, "until": at, "app": app, "name": name} for at, app, name in signs]
    schema = pa.schema(
        [("at", pa.int64()), ("until", pa.int64()), ("app", pa.string()), ("name", pa.string())]
    )
    assert _names(pa.Table.from_pylist(rows, schema=schema), 3) == called
