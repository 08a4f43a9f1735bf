"""Which checkpoints the server has inspected without being asked, and how often."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.checkpoints.inspections import (
    AGENT_SECONDS,
    INSPECTION_SECONDS,
    MAX_INSPECTIONS,
    OLD_SECONDS,
    PASS_SECONDS,
    Inspections,
    is_wanted,
)
from controlplane.model import CheckpointLogs, CheckpointSummary, RunFacts
from tests.unit.controlplane.situations import NOW, agent, batches, run, view

FACTS = RunFacts(checkpoint="/lake/c")
GONE = agent(ended_at=NOW - 50)
SILENT = agent(last_seen_at=NOW - 500)
NEWEST = batches([0] * 3)
OLD = CheckpointSummary(NOW - 3000, "ok", "", "/lake/c", collector="driver file", last_committed_batch=1)
NEW = replace(OLD, taken_at=NOW, last_committed_batch=2)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"agent": GONE, "checkpoint": OLD}, True),
        ({"agent": None, "checkpoint": OLD}, True),
        ({"agent": SILENT, "checkpoint": OLD}, True),
        ({"agent": GONE, "checkpoint": None}, True),
        ({"agent": GONE, "checkpoint": NEW}, False),
        ({"checkpoint": replace(OLD, taken_at=NOW - 60)}, False),
        ({"checkpoint": replace(OLD, taken_at=NOW - OLD_SECONDS + 1)}, False),
        ({"checkpoint": OLD}, True),
        ({"checkpoint": replace(OLD, logs=CheckpointLogs(NOW - 600, 1, 1))}, False),
        ({"checkpoint": None}, True),
        ({"checkpoint": None, "run": run(started_at=NOW - AGENT_SECONDS + 1)}, False),
        ({"checkpoint": OLD, "run": run(started_at=NOW - 10)}, False),
        ({"agent": GONE, "checkpoint": OLD, "retired_at": NOW - 1}, False),
        ({"agent": GONE, "facts": RunFacts()}, False),
        ({"agent": GONE, "facts": replace(FACTS, checkpoint_is_temporary=True)}, False),
    ],
    ids=[
        "outdated, its driver has ended",
        "outdated, no agent is known",
        "outdated, its driver is silent",
        "unknown, its driver has ended",
        "current",
        "outdated for a moment",
        "stale, and its agent may have many queries",
        "stale for long, as after a crash loop",
        "its agent reads the logs",
        "its agent never sent an inventory, as a Connect client",
        "its agent may still send one",
        "its agent may still send one of the new run",
        "retired",
        "its place is not known",
        "temporary",
    ],
)
def test_outdated_checkpoints_without_an_inventory_are_inspected(changes, wanted):
    assert is_wanted(view(**{"facts": FACTS, "progress": NEWEST, **changes}), NOW) is wanted


def test_few_are_inspected_at_a_time_and_each_of_them_seldom():
    views = [view(query_id=f"q{n}", agent=GONE, facts=FACTS, progress=NEWEST) for n in range(3)]
    inspections, seen = Inspections(), []
    for step in range(int(INSPECTION_SECONDS / PASS_SECONDS)):
        due = inspections.due(lambda: views, NOW + step * PASS_SECONDS)
        assert len(due) <= MAX_INSPECTIONS
        seen += [each.query_id for each in due]
        assert inspections.due(lambda: views, NOW + step * PASS_SECONDS + 1) == []
    assert sorted(seen) == ["q0", "q1", "q2"]
    assert inspections.due(lambda: views, NOW + INSPECTION_SECONDS + PASS_SECONDS)
