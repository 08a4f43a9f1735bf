"""Which part of the lake a batch has to be compared with, and when it must not go on."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest

from controlplane.lake.lake import Lake
from controlplane.lake.manifest import Commit, LakeManifest
from controlplane.pipeline.ingest.ingest_job import (
    INTERRUPTED_MESSAGE,
    BatchFailed,
    CheckpointRewound,
    MicroBatches,
    _error_line,
    foreign_commits,
)

NOW = 1_000_000.0


def lake(*commits: tuple[str, str, float | None]) -> LakeManifest:
    made = (
        Commit(job, batch, NOW, facts={} if arrived is None else {"arrived_at": arrived})
        for job, batch, arrived in commits
    )
    return LakeManifest({item.key: item for item in made})


def kept(manifest: LakeManifest, number: int = 9) -> list[tuple[str, str]]:
    return sorted(foreign_commits(manifest, "s", number, since=NOW - 100).commits)


def test_own_batches_within_the_window_need_not_be_asked() -> None:
    assert kept(lake(("ingest", "s-000000000001", NOW - 10), ("ingest", "s-000000000009", NOW))) == []


def test_own_batches_beyond_the_window_are() -> None:
    assert kept(lake(("ingest", "s-000000000001", NOW - 101))) == [("ingest", "s-000000000001")]


def test_a_batch_that_does_not_say_when_it_arrived_is_asked() -> None:
    assert len(kept(lake(("ingest", "s-000000000001", None)))) == 1


def test_what_other_streams_and_jobs_wrote_is_always_asked() -> None:
    others = [("import", "x", None), ("ingest", "t-000000000099", NOW), ("compact", "s-1", NOW)]
    assert kept(lake(*others)) == sorted((job, batch) for job, batch, _ in others)


def test_a_lake_that_has_later_batches_of_the_stream_refuses_an_earlier_one() -> None:
    with pytest.raises(CheckpointRewound, match="new checkpoint"):
        foreign_commits(lake(("ingest", "s-000000000010", NOW)), "s", 9, NOW)


def test_the_informative_line_of_javas_output_is_shown() -> None:
    reported = "An error occurred while calling o43.start.\n: java.io.IOException: no room\n\tat x"
    assert _error_line(reported) == "java.io.IOException: no room"
    assert _error_line(" \n") == "no reason was given"


PAGES = "An error occurred while calling o43.collect.\n: java.io.IOException: no room\n" + "\tat x\n" * 10_000


class Failing:
    """A batch that cannot be looked at."""

    @property
    def sparkSession(self) -> Any:
        raise RuntimeError(PAGES)


@pytest.mark.parametrize(
    ("stopped", "reported"),
    [(False, "java.io.IOException: no room"), (True, INTERRUPTED_MESSAGE)],
    ids=["failed", "stopped"],
)
def test_spark_is_reported_in_a_line_why_a_batch_failed_and_all_of_it_is_kept(
    tmp_path: Path, stopped: bool, reported: str
) -> None:
    batches = MicroBatches(Lake.open(str(tmp_path), create=True), 60.0, None, print)
    batches.stopped = stopped
    batch: Any = Failing()
    with pytest.raises(BatchFailed) as caught:
        batches(batch, 1)
    assert str(caught.value) == reported
    passed_on = "".join(traceback.format_exception(caught.value))
    assert len(passed_on) < 2000 and "in sparkSession" in passed_on
    assert str(batches.last_error) == PAGES
