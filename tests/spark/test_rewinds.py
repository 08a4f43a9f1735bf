"""Rewinds of real queries' checkpoints: Spark resumes at the chosen batch with the same rows.

Every run has the same input, one file a batch; so repeated batches must hold the same rows.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controlplane.cli.main import run as controlplane
from tests.spark import goldens
from tests.spark.goldens import CHANGELOG, IDS, ROCKSDB, Golden, Inputs, Ran, run

pytestmark = pytest.mark.spark

FILES = Golden("files", goldens.display_root, sink="files")
COUNT = Golden("count", goldens.counted, "complete")
REWOUND = (
    Golden("plain", goldens.display_root),
    COUNT,
    Golden("count in RocksDB", goldens.counted, "update", conf=ROCKSDB),
    Golden("count with changelogs", goldens.counted, "complete", conf=CHANGELOG),
    Golden("count with state ids", goldens.counted, "complete", conf=IDS),
    Golden("distinct", goldens.distinct),
    Golden("join", goldens.joined),
    Golden("outer join", goldens.outer),
    Golden("session windows", goldens.sessions),
    Golden("transformWithState", goldens.transformed, "update", conf=ROCKSDB),
    Golden("two sources", goldens.united),
)


@dataclass
class Ward:
    """One query with its input, its checkpoint and what it gave."""

    inputs: Inputs
    golden: Golden
    root: Path

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def output(self) -> Path:
        return self.root / "out"

    def feed(self, count: int) -> None:
        """Files of one second each: Spark takes the oldest first."""
        for _ in range(count):
            self.inputs.feed()
            for name in ("a", "b"):
                file = self.inputs.directory / name / f"{self.inputs.files - 1:03d}.json"
                os.utime(file, (1_790_000_000 + self.inputs.files,) * 2)

    def run(self) -> Ran:
        ran = run(self.inputs, self.golden, self.checkpoint, self.output)
        assert ran.error is None, ran.error
        return ran

    def fails(self) -> str:
        return run(self.inputs, self.golden, self.checkpoint, self.output).error or ""

    def rows(self) -> list[tuple[Any, ...]]:
        """What readers of the file sink see."""
        return sorted(map(tuple, self.inputs.spark.read.parquet(str(self.output)).collect()))

    def content(self) -> dict[str, bytes]:
        return {str(p.relative_to(self.root)): p.read_bytes() for p in self.root.rglob("*") if p.is_file()}

    def operate(self, command: str, *arguments: str) -> int:
        sink = ["--output", str(self.output)] if self.golden.sink == "files" else []
        return controlplane([command, str(self.checkpoint), *arguments, *sink, "--yes", "--assume-stopped"])

    def undo(self) -> int:
        (backup,) = self.root.glob("checkpoint.backup-*")
        return controlplane(["undo", str(backup), "--assume-stopped"])

    def lose(self, pattern: str) -> None:
        found = sorted(self.checkpoint.glob(pattern))
        assert found
        for path in found:
            path.unlink()
            (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


@pytest.fixture
def wards(spark: Any, tmp_path: Path) -> Any:
    def ward(golden: Golden, files: int = 5) -> Ward:
        root = tmp_path / golden.name.replace(" ", "-")
        made = Ward(Inputs(spark, root / "in"), golden, root)
        made.feed(files)
        return made

    return ward


def test_a_file_sink_is_rewound_undone_and_rewound_again(wards: Any) -> None:
    """The quick one: everything that a rewind is, on one query."""
    ward = wards(FILES, 4)
    ward.run()
    rows, before = ward.rows(), ward.content()
    assert ward.operate("rewind", "--resume-at", "2") == 0
    assert sorted(path.name for path in (ward.checkpoint / "offsets").glob("[0-9]")) == ["0", "1"]
    assert ward.undo() == 0
    now = ward.content()
    assert {path: now[path] for path in before} == before
    shutil.rmtree(next(ward.root.glob("checkpoint.backup-*")))
    assert ward.operate("rewind", "--resume-at", "2", "--move-data") == 0
    ward.run()
    assert ward.rows() == rows
    planned = (ward.checkpoint / "offsets/3").read_text().splitlines()[-1]
    assert json.loads(planned) == {"logOffset": 3}
    assert len(list(ward.output.glob("*.parquet"))) == 4


@pytest.mark.long
@pytest.mark.parametrize(
    "golden", [pytest.param(golden, id=golden.name, marks=golden.marks) for golden in REWOUND]
)
def test_a_rewound_query_resumes_at_that_batch_with_the_rows_it_had(wards: Any, golden: Golden) -> None:
    ward = wards(golden)
    first = ward.run()
    control = Ward(ward.inputs, golden, ward.root / "control")
    shutil.copytree(ward.checkpoint, control.checkpoint)
    assert ward.operate("rewind", "--resume-at", "2") == 0
    again = ward.run()
    assert min(again.batches) == 2
    assert again.batches == {batch: rows for batch, rows in first.batches.items() if batch >= 2}
    ward.feed(1)
    assert ward.run().batches == control.run().batches


@pytest.mark.long
def test_after_an_undo_the_query_goes_on_as_if_nothing_had_been(wards: Any) -> None:
    ward = wards(COUNT)
    ward.run()
    control = Ward(ward.inputs, COUNT, ward.root / "control")
    shutil.copytree(ward.checkpoint, control.checkpoint)
    assert ward.operate("rewind", "--resume-at", "1") == 0
    assert ward.undo() == 0
    ward.feed(1)
    assert ward.run().batches == control.run().batches


@pytest.mark.long
def test_a_rewind_to_batch_0_starts_over_under_the_same_id(wards: Any) -> None:
    ward = wards(COUNT, 3)
    first, known = ward.run(), (ward.checkpoint / "metadata").read_bytes()
    assert ward.operate("rewind", "--resume-at", "0") == 0
    assert ward.run().batches == first.batches
    assert (ward.checkpoint / "metadata").read_bytes() == known


@pytest.mark.long
def test_a_rewind_over_a_compaction_gives_the_same_rows(wards: Any) -> None:
    ward = wards(FILES, 12)
    ward.run()
    rows = ward.rows()
    assert ward.operate("rewind", "--resume-at", "9") == 0
    assert not (ward.checkpoint / "sources/0/9.compact").exists()
    ward.run()
    assert ward.rows() == rows


@pytest.mark.long
def test_a_source_log_without_plain_entries_is_written_from_the_compaction(wards: Any) -> None:
    ward = wards(Golden("compacted", goldens.display_root), 12)
    first = ward.run()
    ward.lose("sources/0/[0-8]")
    assert ward.operate("rewind", "--resume-at", "5") == 0
    assert ward.run().batches == {batch: rows for batch, rows in first.batches.items() if batch >= 5}


@pytest.mark.long
def test_spark_does_not_start_after_an_interrupted_repair_until_it_is_undone(wards: Any) -> None:
    ward = wards(COUNT, 3)
    ward.run()
    whole = (ward.checkpoint / "metadata").read_bytes()
    (ward.checkpoint / "metadata").write_text(
        "rewind, repair or undo in progress; to restore the checkpoint: controlplane undo /backup"
    )
    before = ward.content()
    assert "rewind" in ward.fails() or "Unrecognized token" in ward.fails()
    assert {path for path, data in ward.content().items() if before.get(path) != data} == set()
    assert ward.operate("rewind", "--resume-at", "1") == 2
    (ward.checkpoint / "metadata").write_bytes(whole)
    ward.run()


# Repairs: a damage that keeps Spark from starting, the repair, the start


@dataclass(frozen=True)
class Damage:
    name: str
    golden: Golden
    lose: Sequence[str]
    repair: Sequence[str]

    def __str__(self) -> str:
        return self.name


WINDOWS = Golden("windows to files", goldens.windowed, sink="files")
DAMAGES = (
    Damage("newest delta", COUNT, ["state/0/0/5.delta"], ["--confirm", "R-STATE-1"]),
    Damage(
        "newest snapshot of RocksDB",
        Golden("RocksDB", goldens.counted, "complete", conf=ROCKSDB),
        ["state/0/0/5.zip"],
        ["--confirm", "R-STATE-1"],
    ),
    Damage(
        "newest changelog by ids",
        Golden("ids", goldens.counted, "complete", conf=IDS),
        ["state/0/0/5_*.changelog"],
        ["--confirm", "R-STATE-1"],
    ),
)


@pytest.mark.long
@pytest.mark.parametrize("damage", DAMAGES, ids=str)
@pytest.mark.parametrize("attempted", [False, True], ids=["at once", "after a failed start"])
def test_lost_state_of_the_newest_version_is_written_again(
    wards: Any, damage: Damage, attempted: bool
) -> None:
    ward = wards(damage.golden)
    first = ward.run()
    control = Ward(ward.inputs, damage.golden, ward.root / "control")
    shutil.copytree(ward.checkpoint, control.checkpoint)
    for pattern in damage.lose:
        ward.lose(pattern)
    if attempted:
        ward.feed(1)
        _forget_loaded_state(ward)
        assert "5" in ward.fails()
    assert ward.operate("repair", "--dry-run") == 0
    assert ward.operate("repair") == 1
    assert ward.operate("repair", *damage.repair) == 0
    _forget_loaded_state(ward)
    again = ward.run()
    assert again.batches[4] == first.batches[4]
    if not attempted:
        ward.feed(1)
        again = ward.run()
    assert again.last == control.run().last


def _forget_loaded_state(ward: Ward) -> None:
    """As in a new driver: what was loaded is read from disk again."""
    ward.inputs.spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()


@pytest.mark.long
def test_lost_state_before_a_file_sink_takes_the_sinks_entry_with_it(wards: Any) -> None:
    ward = wards(WINDOWS)
    ward.run()
    rows, newest = ward.rows(), max(int(p.name) for p in (ward.checkpoint / "commits").glob("[0-9]"))
    ward.lose(f"state/0/0/{newest + 1}.delta")
    _forget_loaded_state(ward)
    assert ward.operate("repair", "--confirm", "R-STATE-1") == 0
    ward.run()
    assert ward.rows() == rows
    ward.feed(2)
    ward.run()
    assert len(ward.rows()) == len(rows) + 10


@pytest.mark.long
def test_a_lost_id_is_written_again(wards: Any) -> None:
    ward = wards(FILES, 3)
    ward.run()
    rows, known = ward.rows(), json.loads((ward.checkpoint / "metadata").read_bytes())["id"]
    ward.lose("metadata")
    assert "MISSING_METADATA" in ward.fails()
    assert ward.operate("repair") == 1
    assert ward.operate("repair", "--query-id", known) == 0
    ward.feed(1)
    ward.run()
    assert len(ward.rows()) == len(rows) + 10
    assert json.loads((ward.checkpoint / "metadata").read_bytes())["id"] == known


@pytest.mark.long
def test_a_torn_entry_that_was_never_committed_is_planned_anew(wards: Any) -> None:
    ward = wards(COUNT, 4)
    first = ward.run()
    ward.lose("commits/3")
    (ward.checkpoint / "offsets/3").write_text("v1\n{")
    (ward.checkpoint / "offsets/.3.crc").unlink()
    assert ward.fails()
    assert ward.operate("repair") == 1
    assert ward.operate("repair", "--confirm", "R-OFF-1") == 0
    assert ward.run().batches == {3: first.batches[3]}


@pytest.mark.long
def test_a_torn_commit_is_written_again(wards: Any) -> None:
    ward = wards(Golden("plain", goldens.display_root), 3)
    ward.run()
    (ward.checkpoint / "commits/2").write_text('v1\n{"nextBatch')
    (ward.checkpoint / "commits/.2.crc").unlink()
    assert ward.fails()
    assert ward.operate("repair") == 0
    assert ward.run().batches == {}
