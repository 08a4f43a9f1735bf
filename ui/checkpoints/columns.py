"""Columns of the checkpoint tables. The keys are the columns that `ui.checkpoints.frames` builds."""

from __future__ import annotations

from ui.checkpoints import frames
from ui.kit import cells, statuses
from ui.kit.cells import Columns, Opener


def checkpoints(opener: Opener) -> Columns:
    """The Checkpoints page's table; `opener` opens a query."""
    return {
        "verdict": cells.badges("Verdict", statuses.VERDICTS.values(), 138),
        "query": cells.link("Query", 170, opener, "Select a name to see its checkpoint."),
        "app": cells.text("App", 84),
        "summary": cells.text("Assessment", 400),
        "mark": cells.counted_badges("Freshness", frames.FRESHNESS_MARKS, 118),
        "planned": cells.integer("Planned"),
        "committed": cells.integer("Committed", 92),
        "bytes": cells.size("Size"),
        "files": cells.count("Files", 70),
        "age": cells.span("Checked", 90),
        "path": cells.text("Checkpoint", 300),
    }


def stores() -> Columns:
    """State stores of a checkpoint."""
    return {
        "mark": cells.counted_badges("", frames.STORE_MARKS, 86),
        "operator": cells.integer("Operator", 78),
        "partition": cells.integer("Partition", 78),
        "store": cells.text("Store", 130),
        "newest": cells.integer("Newest", 78),
        "expected": cells.integer("Expected", 84),
        "snapshot": cells.integer("Snapshot", 84),
        "files": cells.count("Files", 70),
        "bytes": cells.size("Size"),
    }


def changes() -> Columns:
    """Changes of a query's plan between two runs."""
    return {
        "severity": cells.badges("Severity", statuses.FINDINGS.values(), 92),
        "message": cells.text("What changed", 460),
        "rule": cells.text("Rule", 170),
        "remedy": cells.text("What to do"),
    }
