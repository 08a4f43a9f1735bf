"""What the driver learns of a split while its task runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.lake.lake import Lake
from controlplane.pipeline.eventlogs import import_job, split_progress
from controlplane.pipeline.eventlogs.discovery import EventLog, LogFile
from controlplane.pipeline.eventlogs.split_progress import WRITE_SECONDS, SplitProgress, read_progress
from controlplane.pipeline.eventlogs.split_reader import read_split
from tests import eventlogs


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(str(tmp_path / "lake"), create=True)


def test_progress_is_written_at_intervals_and_ended_splits_are_left_out(lake: Lake) -> None:
    staging, now, events = lake.stage("import", "app"), [0.0], [0]
    first = SplitProgress(staging, "0-0", lambda: events[0], lambda: now[0])
    other = SplitProgress(staging, "1-0", clock=lambda: now[0])
    first(100)
    assert read_progress(lake.folder, [staging.path], ()) == (0, 0), "too early"
    now[0], events[0] = WRITE_SECONDS, 7
    first(50)
    other(1000)
    first(1)
    assert read_progress(lake.folder, [staging.path], ()) == (1150, 7)
    assert read_progress(lake.folder, [staging.path], {f"{staging.path}/1-0"}) == (150, 7)
    assert read_progress(lake.folder, [staging.path, "_staging/gone"], ()) == (1150, 7)


def test_a_progress_that_cannot_be_written_or_read_costs_nothing(lake: Lake) -> None:
    staging, now = lake.stage("import", "app"), [0.0]
    progress = SplitProgress(staging, "0-0", clock=lambda: now[0])
    folder = Path(lake.folder.absolute(staging.path))
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("a file where a folder should be")
    now[0] = WRITE_SECONDS
    progress(5)
    assert read_progress(lake.folder, [staging.path], ()) == (0, 0)


@pytest.mark.parametrize("codec", ["", "zstd"])
def test_one_log_shows_how_much_of_its_file_is_read(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    monkeypatch.setattr(split_progress, "WRITE_SECONDS", 0.0)
    content = eventlogs.RECORDED.read_bytes()
    if codec:
        import zstandard

        content = zstandard.compress(content)
    path = tmp_path / "local-1"
    path.write_bytes(content)
    log = EventLog("local-1", None, str(path), (LogFile(str(path), len(content), 1.0),), (codec,), False)
    (split,) = import_job._splits(lake, log, None)
    result = read_split(split, None)
    shown = read_progress(lake.folder, [split.staging.path], ())
    assert shown == (len(content), result.events.total())
    assert read_progress(lake.folder, [split.staging.path], {result.path}) == (0, 0)
