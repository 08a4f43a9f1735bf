"""The checks of the logs that the tables of damage do not reach: what continuous processing leaves."""

from __future__ import annotations

from controlplane.checkpoints.analyzer import analyze
from tests.unit.controlplane.checkpoints.goldens import Step, change, golden


def without_metadata(batch: int) -> Step:
    """The second line blank, as `ContinuousExecution` writes it (seen on 4.3)."""
    return change(f"offsets/{batch}", lambda data: b"v1\n\n" + data.rpartition(b"\n")[2])


def checks_of(*steps: Step) -> set[str]:
    inventory = golden("files").checkpoint
    for step in steps:
        inventory = step(inventory)
    return {finding.check for finding in analyze(inventory).findings}


def test_a_blank_line_in_each_entry_is_continuous_processing_and_no_damage() -> None:
    found = checks_of(without_metadata(3), without_metadata(4))
    assert "log.continuous" in found and "log.offset-unreadable" not in found


def test_a_blank_line_in_one_entry_is_damage() -> None:
    found = checks_of(without_metadata(4))
    assert "log.offset-unreadable" in found and "log.continuous" not in found
