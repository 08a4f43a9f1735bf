"""How the columns of the checkpoints' tables look. The keys are the columns that `ui.checkpoints.frames` makes."""

from __future__ import annotations

from typing import Any

import streamlit as st

from ui.checkpoints import frames
from ui.kit import cells, statuses
from ui.kit.cells import Columns, Opener


def checkpoints(opener: Opener) -> Columns:
    return {
        "verdict": cells.badges("Verdict", statuses.VERDICTS.values(), 106),
        "query": cells.link("Query", 170, opener, "Press a name to see its checkpoint."),
        "app": cells.text("App", 84),
        "summary": cells.text("What a start would come to", 400),
        "mark": cells.counted_badges("Freshness", frames.FRESHNESS_MARKS, 118),
        "planned": integer("Planned"),
        "committed": integer("Committed", 92),
        "bytes": size("Size"),
        "files": cells.count("Files", 70),
        "age": cells.span("Seen", 90),
        "path": cells.text("Checkpoint", 300),
    }


def stores() -> Columns:
    return {
        "mark": cells.counted_badges("", frames.STORE_MARKS, 86),
        "operator": integer("Operator", 78),
        "partition": integer("Partition", 78),
        "store": cells.text("Store", 130),
        "newest": integer("Newest", 78),
        "expected": integer("Expected", 84),
        "snapshot": integer("Snapshot", 84),
        "files": cells.count("Files", 70),
        "bytes": size("Size"),
    }


def changes() -> Columns:
    return {
        "severity": cells.badges("Severity", statuses.FINDINGS.values(), 92),
        "message": cells.text("What changed", 460),
        "rule": cells.text("Rule", 170),
        "remedy": cells.text("What to do"),
    }


def integer(label: str, width: int = 80) -> Any:
    return st.column_config.NumberColumn(label, format="%d", width=width)


def size(label: str, width: int = 84) -> Any:
    return st.column_config.NumberColumn(label, format="bytes", width=width)
