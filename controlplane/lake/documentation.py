"""The page docs/lake.md, made of the schema. Run as a module it writes the page; a test holds the two in step.

python -m controlplane.lake.documentation > docs/lake.md
"""

from __future__ import annotations

from controlplane.lake.schema import TABLES, VERSION, LakeTable

HEAD = f"""# The tables of the lake

Made of `controlplane/lake/schema.py` by `python -m controlplane.lake.documentation > docs/lake.md`; how to read
them is in [history.md](history.md). Version {VERSION}. A version goes up when a column changes its meaning; new
columns may come at any time, so older files may lack some: read by name, and take what is missing for null
(DuckDB: `union_by_name = true`).

All times are UTC. Types are named as in Spark's SQL; in the files `timestamp` is microseconds with the zone UTC.
A file holds the rows of one day, that of the column named under *by day*, and is sorted by the columns under
*order*. No two rows agree in the *key*.
"""


def render_page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(_section(table) for table in TABLES.values())])


def _section(table: LakeTable) -> str:
    rows = [
        f"| `{column.name}` | {column.type.value} | {_cell(column.description)} |" for column in table.columns
    ]
    return "\n".join(
        [
            f"## `{table.name}`: {table.description}",
            "",
            f"By day: `{table.partition_column}`. Order: {_names(table.order)}. Key: {_names(table.key)}.",
            "",
            "| column | type | what it says |",
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
