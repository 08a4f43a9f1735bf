"""A commit is believed only when every file of it can be read to its end."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from controlplane.errors import LakeError
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import Commit
from controlplane.lake.rows import LakeRowBuilder, Producer
from controlplane.lake.verification import verify_commit
from tests.drivers import BEGIN, report


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(str(tmp_path / "lake"), create=True)


def written(lake: Lake, job: str = "offload", batch: str = "b", replaces: tuple[str, ...] = ()) -> Commit:
    rows = LakeRowBuilder()
    for number in range(50):
        rows.progress(
            Producer("shop", "4.3.0", "agent"), report("q", "r", number, BEGIN + number), BEGIN + number
        )
    staging = lake.stage(job, batch)
    parts = [part for name, table in rows.take().items() for part in staging.write(name, table, "0")]
    seen = lake.manifest() if replaces else None
    return lake.commit(staging, parts, {}, replaces, seen)


def test_a_whole_commit_is_whole(lake: Lake) -> None:
    commit = written(lake)
    assert verify_commit(lake, commit, lake.manifest()) == commit.rows == 150


@pytest.mark.parametrize("damage", ["cut", "empty", "other bytes", "gone"])
def test_a_damaged_file_is_named(lake: Lake, damage: str) -> None:
    commit = written(lake)
    part = commit.parts[1]
    file = Path(lake.folder.absolute(part.path))
    whole = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        middle = len(whole) // 3
        changed = {
            "cut": whole[:-1],
            "empty": b"",
            "other bytes": whole[:middle] + bytes(64) + whole[middle + 64 :],
        }
        file.write_bytes(changed[damage])
    with pytest.raises(LakeError, match=part.path.replace(".", r"\.")):
        verify_commit(lake, commit, lake.manifest())


def test_a_file_of_other_rows_is_not_that_of_the_commit(lake: Lake) -> None:
    commit, other = written(lake), written(lake, batch="other")
    paths = [next(p.path for p in item.parts if p.table == "progress") for item in (commit, other)]
    small = LakeRowBuilder()
    small.progress(Producer("shop", None, "agent"), report("q", "r", 1), BEGIN)
    staging = lake.stage("offload", "small")
    [part] = staging.write("progress", small.take()["progress"], "0")
    Path(lake.folder.absolute(paths[0])).write_bytes(
        Path(lake.folder.absolute(staging.path, part.path)).read_bytes()
    )
    with pytest.raises(LakeError, match="1 rows in"):
        verify_commit(lake, commit, lake.manifest())


def test_where_small_files_were_made_one_that_one_is_read(lake: Lake) -> None:
    commit = written(lake)
    compacted = written(lake, "compact", "day", tuple(part.path for part in commit.parts))
    assert verify_commit(lake, commit, lake.manifest()) == 150
    Path(lake.folder.absolute(compacted.parts[0].path)).write_bytes(b"")
    with pytest.raises(LakeError, match="compact-day"):
        verify_commit(lake, commit, lake.manifest())
    assert datetime.fromtimestamp(BEGIN, UTC).date() == compacted.parts[0].date
