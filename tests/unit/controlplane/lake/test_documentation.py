"""The documents on the lake: the tables are those of the schema, the examples run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from controlplane.lake.documentation import render_page
from controlplane.lake.lake import Lake
from tests.paths import ROOT
from tests.unit.controlplane.lake.lakes import put, reports

DOCS = ROOT / "docs"
EXAMPLES = re.findall(r"```python\n(.*?)```", (DOCS / "history.md").read_text(encoding="utf-8"), re.S)


def test_the_page_of_the_tables_is_made_of_the_schema() -> None:
    assert (DOCS / "lake.md").read_text(encoding="utf-8") == render_page(), (
        "run: python -m controlplane.lake.documentation > docs/lake.md"
    )


@pytest.mark.parametrize(("number", "result"), [(0, "worst"), (1, "per_hour"), (2, "rows")])
def test_an_example_of_reading_the_lake_runs(tmp_path: Path, number: int, result: str) -> None:
    lake = Lake.open(str(tmp_path), create=True)
    rows = reports(range(3), input_rows=5)
    name = rows.schema.get_field_index("name")
    put(lake, "import", "a", rows.set_column(name, rows.schema.field(name), [["orders"] * 3]))
    names: dict[str, Any] = {"lake": str(tmp_path)}
    exec(EXAMPLES[number], names)
    assert len(EXAMPLES) == 3
    found = names[result]
    if result == "worst":
        assert found[["name", "batches"]].to_dict("records") == [{"name": "orders", "batches": 3}]
    elif result == "per_hour":
        assert found.to_list() == [15]
    else:
        assert found["input_rows"].to_pylist() == [5, 5, 5]
