"""Signs of somebody who writes: two looks that differ, temporary files of this minute; and how long to wait between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.checkpoints.inventory.model import FileEntry, Inventory
from controlplane.checkpoints.repair import rewind_plan, writer_detection
from tests.unit.controlplane.checkpoints.goldens import change
from tests.unit.controlplane.checkpoints.repair.repair_fixtures import SPARK, seen

NOW = 1_795_160_000.0
QUIET = Inventory(
    "/ck",
    {"offsets": FileEntry(folder=True, modified=1.0), "offsets/4": FileEntry(10, 5.0)},
    collected_at=NOW,
)


def also(**entries: FileEntry) -> Inventory:
    return replace(QUIET, entries={**QUIET.entries, **entries})


def test_equal_listings_show_no_writer() -> None:
    assert writer_detection.writer_signs(QUIET, QUIET) == []


@pytest.mark.parametrize(
    ("later", "text"),
    [
        (
            also(**{"offsets/5": FileEntry(10, 6.0)}),
            "1 file changed between two listings: offsets/5 appeared",
        ),
        (also(**{"offsets/4": FileEntry(10, 6.0)}), "offsets/4 changed"),
        (replace(QUIET, entries={}), "offsets/4 vanished"),
        (also(**{"offsets/.5.x.tmp": FileEntry(0, NOW - 5)}), "offsets/.5.x.tmp appeared"),
    ],
)
def test_what_changed_is_named(later: Inventory, text: str) -> None:
    assert text in writer_detection.writer_signs(QUIET, later)[0]


def test_a_temporary_file_of_this_minute_is_a_write_under_way_and_an_old_one_is_not() -> None:
    fresh, old = (also(**{"offsets/.5.x.tmp": FileEntry(0, NOW - age)}) for age in (5, 5000))
    assert "less than a minute old" in writer_detection.writer_signs(fresh, fresh)[0]
    assert writer_detection.writer_signs(old, old) == []


def test_the_pause_is_twice_the_time_between_batches_within_bounds() -> None:
    def paused(seconds: float) -> float:
        def later(data: bytes) -> bytes:
            before = seen("agg").checkpoint.contents["offsets/3"]
            at = int(before.split(b'"batchTimestampMs":')[1].split(b",")[0]) + int(seconds * 1000)
            head, _, rest = data.partition(b'"batchTimestampMs":')
            return head + b'"batchTimestampMs":%d,' % at + rest.partition(b",")[2]

        return writer_detection.pause_seconds(
            rewind_plan.view_of(seen("agg", [change("offsets/4", later)]), SPARK)
        )

    assert [paused(seconds) for seconds in (1, 12, 600, -5)] == [10.0, 24.0, 60.0, 10.0]
