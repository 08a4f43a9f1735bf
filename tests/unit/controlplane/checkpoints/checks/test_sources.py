"""The rate source, whose log holds when it first started. What Spark 4.3 did with each damage is in the names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.checkpoints.findings import ReportStatus
from controlplane.checkpoints.inventory.model import FileEntry, Inventory
from controlplane.checkpoints.reading.checkpoint import KnownHistory
from tests.unit.controlplane.checkpoints.checks.test_history import (
    AT,
    checkpoint,
    checks,
    judged,
    offsets,
    the,
)

RATE = KnownHistory(
    stateful=False, sources=("RateStreamV2[rowsPerSecond=1, rampUpTimeSeconds=0, numPartitions=2]",)
)
OTHER = KnownHistory(stateful=False, sources=("MyCounter",))
STARTED = f"v1\n{(AT - 100) * 1000:.0f}"


def rate(log: str | None = STARTED, last: int = 8) -> Inventory:
    """Batches 0 to 2, whose offsets are seconds since the first start; `log`: the source's file."""
    ends = dict(enumerate((2, 5, last)))
    held = checkpoint({batch: offsets(end) for batch, end in ends.items()}, dict.fromkeys(ends, 0), crc=False)
    if log is None:
        return held
    files = {**held.entries, "sources/0/0": FileEntry(len(log), AT)}
    return replace(held, entries=files, contents={**held.contents, "sources/0/0": log.encode()})


@pytest.mark.parametrize(
    ("held", "check"),
    [
        (rate(None), "src.start-lost"),
        (rate("x"), "src.start-unreadable"),
        (rate("v1\nnever"), "src.start-unreadable"),
        (rate(f"v1\n{(AT + 5000) * 1000:.0f}"), "src.start-changed"),
        (rate(last=1), "src.offset-regressed"),
    ],
)
def test_a_new_run_fails_where_the_first_start_is_lost_or_wrong(held: Inventory, check: str) -> None:
    report = judged(held, RATE)
    assert report.verdict is ReportStatus.BROKEN and report.condition == ""
    assert the(report, check).effect == "fails"


def test_an_intact_log_is_no_finding() -> None:
    for history in (RATE, OTHER, None):
        assert judged(rate(), history).verdict is ReportStatus.OK


def test_without_reports_the_verdict_has_a_condition() -> None:
    assert judged(rate(None), None).condition == " if it reads Spark's rate or socket source"
    assert judged(rate(last=1), None).condition == " if it reads Spark's rate source"


def test_another_source_with_numbers_needs_no_such_log() -> None:
    assert judged(rate(None), OTHER).verdict is ReportStatus.OK
    assert "src.offset-regressed" in checks(judged(rate(last=1), OTHER))
    assert judged(rate(last=1), OTHER).verdict is ReportStatus.RISKY
