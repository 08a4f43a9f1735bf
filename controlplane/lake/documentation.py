"""Generate docs/lake.md from the schema; a test compares the two.

python -m controlplane.lake.documentation > docs/lake.md
"""

from __future__ import annotations

from controlplane.lake.schema import TABLES, VERSION, LakeTable

HEAD = f"""# Lake tables

Generated from `controlplane/lake/schema.py` by `python -m controlplane.lake.documentation > docs/lake.md`. For
reading the tables see [history.md](history.md). Version {VERSION}. The version increases when a column changes its
meaning. New columns may be added at any time: read columns by name and treat missing ones as null
(DuckDB: `union_by_name = true`).

All times are UTC. Types have their Spark SQL names; `timestamp` is stored as microseconds with the zone UTC.
A file holds the rows of one UTC day, taken from the column under *Partitioned by day of*, sorted by the columns
under *Sort order*. The *key* is unique within a table.
"""


def render_page() -> str:
    """Return the whole page as Markdown."""
    return "\n".join([HEAD, *(_section(table) for table in TABLES.values())])


def _section(table: LakeTable) -> str:
    rows = [
        f"| `{column.name}` | {column.type.value} | {_cell(column.description)} |" for column in table.columns
    ]
    return "\n".join(
        [
            f"## `{table.name}`: {table.description}",
            "",
            f"Partitioned by day of: `{table.partition_column}`. Sort order: {_names(table.order)}. "
            f"Key: {_names(table.key)}.",
            "",
            "| Column | Type | Description |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(render_page(), end="")
