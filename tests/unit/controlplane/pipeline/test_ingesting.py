"""Which part of the lake a batch has to be compared with, and when it must not go on."""

from __future__ import annotations

import pytest

from controlplane.lake.manifest import Commit, Manifest
from controlplane.pipeline.ingesting import Rewound, _line, concerned

NOW = 1_000_000.0


def lake(*commits: tuple[str, str, float | None]) -> Manifest:
    made = (
        Commit(job, batch, NOW, facts={} if arrived is None else {"arrived_at": arrived})
        for job, batch, arrived in commits
    )
    return Manifest({one.key: one for one in made})


def kept(manifest: Manifest, number: int = 9) -> list[tuple[str, str]]:
    return sorted(concerned(manifest, "s", number, since=NOW - 100).commits)


def test_own_batches_within_the_window_need_not_be_asked() -> None:
    assert kept(lake(("ingest", "s-000000000001", NOW - 10), ("ingest", "s-000000000009", NOW))) == []


def test_own_batches_beyond_the_window_are() -> None:
    assert kept(lake(("ingest", "s-000000000001", NOW - 101))) == [("ingest", "s-000000000001")]


def test_a_batch_that_does_not_say_when_it_arrived_is_asked() -> None:
    assert len(kept(lake(("ingest", "s-000000000001", None)))) == 1


def test_what_other_streams_and_jobs_wrote_is_always_asked() -> None:
    others = [("import", "x", None), ("ingest", "t-000000000099", NOW), ("tidy", "s-1", NOW)]
    assert kept(lake(*others)) == sorted((job, batch) for job, batch, _ in others)


def test_a_lake_that_has_later_batches_of_the_stream_refuses_an_earlier_one() -> None:
    with pytest.raises(Rewound, match="new checkpoint"):
        concerned(lake(("ingest", "s-000000000010", NOW)), "s", 9, NOW)


def test_of_what_java_says_the_line_that_tells_something_is_told() -> None:
    told = "An error occurred while calling o43.start.\n: java.io.IOException: no room\n\tat x"
    assert _line(told) == "java.io.IOException: no room"
    assert _line(" \n") == "no reason was given"
