"""Repair on real files: backup, lock, act, undo; stopped at every point and put back; the same in an object store."""

from __future__ import annotations

import json
import os
from pathlib import Path

import fsspec
import pytest

from controlplane.checkpoints.analyzer import analyze
from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.lock import locked_by
from controlplane.checkpoints.repair import execution, inspection, rewind_plan
from controlplane.checkpoints.repair import undo as undoing
from controlplane.checkpoints.repair.backup import DONE, UNDONE, BackupManifest, read_manifest
from controlplane.checkpoints.repair.errors import (
    CheckpointChanged,
    Impossible,
    InUse,
    NotABackup,
    RepairInterrupted,
)
from controlplane.checkpoints.repair.folders import Access, CheckpointFolder, Digest
from controlplane.checkpoints.repair.inspection import RepairPlaces
from controlplane.checkpoints.repair.steps import CHECKPOINT, OUTPUT, Remove, RepairPlan, Write
from tests.unit.controlplane.checkpoints.repair.repair_fixtures import SPARK, content, on_disk

NOW = 1_795_160_000.0


class Flaky(CheckpointFolder):
    """A folder whose disk fails at its n-th change."""

    left = 10_000

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "Input/output error")

    def write(self, path: str, content: bytes) -> None:
        self._count()
        super().write(path, content)

    def remove(self, path: str) -> None:
        self._count()
        super().remove(path)

    def copy_from(
        self,
        other: CheckpointFolder,
        source: str,
        path: str,
        modified: float | None = None,
        *,
        access: Access | None = None,
        durable: bool = True,
    ) -> Digest:
        self._count()
        return super().copy_from(other, source, path, modified, access=access, durable=durable)


class Table:
    """A checkpoint with its output, the plan of a rewind, and where the backup goes."""

    def __init__(self, folder: Path, name: str = "files", batch: int = 2):
        self.root = on_disk(name, folder)
        self.places = RepairPlaces(str(self.root / "checkpoint"), str(self.root / "out"))
        self.before = content(self.root)
        self.backup = CheckpointFolder(str(folder / "backup"))
        self.plan = rewind_plan.plan_rewind(inspection.inspect(self.places, NOW), batch, SPARK)
        self.checkpoint = Flaky(self.places.checkpoint)
        self.folders = {CHECKPOINT: self.checkpoint, OUTPUT: CheckpointFolder(str(self.root / "out"))}

    def perform(self) -> BackupManifest:
        return execution.execute_plan(self.plan, self.folders, self.backup, NOW)

    def undo(self, *, force: bool = False) -> undoing.UndoPlan:
        aside = CheckpointFolder(f"{self.backup}/aside")
        return undoing.execute_undo(read_manifest(self.backup), self.folders, self.backup, aside, force=force)

    def seen(self) -> Inventory:
        return inspection.inspect(self.places, NOW).checkpoint


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_execution_changes_exactly_what_the_plan_lists(table: Table) -> None:
    manifest = table.perform()
    gone = {f"{'out' if s.place == OUTPUT else 'checkpoint'}/{s.path}" for s in table.plan.steps}
    assert content(table.root) == {path: data for path, data in table.before.items() if path not in gone}
    assert manifest.state == DONE == read_manifest(table.backup).state
    assert analyze(table.seen()).next_batch == 2


def test_undo_gives_every_byte_and_every_time_back(table: Table) -> None:
    times = {path: (table.root / path).stat().st_mtime_ns for path in table.before}
    table.perform()
    table.undo()
    assert content(table.root) == table.before
    assert {path: (table.root / path).stat().st_mtime_ns for path in table.before} == pytest.approx(
        times, abs=1000
    )
    assert read_manifest(table.backup).state == UNDONE
    assert table.undo().is_empty


def test_stopped_at_any_point_the_query_cannot_start_and_undo_heals_it(tmp_path: Path) -> None:
    whole = Table(tmp_path / "whole")
    whole.perform()
    for changes in range(1, 10_000 - whole.checkpoint.left, 3):
        table = Table(tmp_path / str(changes))
        table.checkpoint.left = changes
        with pytest.raises(
            RepairInterrupted, match="Input/output error; restore the checkpoint with: controlplane undo"
        ):
            table.perform()
        table.checkpoint.left = 10_000
        assert locked_by(table.seen()) == str(table.backup)
        assert analyze(table.seen()).verdict == "broken"
        table.undo()
        assert content(table.root) == table.before


def test_an_undo_that_stops_is_finished_by_the_same_undo(table: Table) -> None:
    table.perform()
    way = undoing.plan_undo(read_manifest(table.backup), table.folders)
    assert len(way.restore) > 5
    (Path(str(table.backup)) / way.restore[5].backup_path).rename(table.root / "elsewhere")
    with pytest.raises(NotABackup, match="does not match the manifest; nothing was changed"):
        table.undo()
    (table.root / "elsewhere").rename(Path(str(table.backup)) / way.restore[5].backup_path)
    for changes in (1, 4, 5):
        table.checkpoint.left = changes
        with pytest.raises(RepairInterrupted):
            table.undo()
    table.checkpoint.left = 10_000
    table.undo()
    assert content(table.root) == table.before


def test_after_the_query_has_run_again_undo_names_the_files_and_changes_nothing(table: Table) -> None:
    table.perform()
    (table.root / "checkpoint/offsets/2").write_text("v1\n{}\n{}")
    (table.root / "checkpoint/offsets/77").write_text("v1\n{}\n{}")
    held = content(table.root)
    with pytest.raises(CheckpointChanged) as caught:
        table.undo()
    assert "offsets/2 is changed since" in str(caught.value) and "offsets/77 is new" in str(caught.value)
    assert content(table.root) == held


def test_with_force_it_moves_what_it_replaces_to_the_backup(table: Table, tmp_path: Path) -> None:
    table.perform()
    for name in ("2", "77"):
        (table.root / f"checkpoint/offsets/{name}").write_text(f"newer {name}")
    table.undo(force=True)
    assert content(table.root) == table.before
    aside = tmp_path / "backup/aside/checkpoint/offsets"
    assert {path.name: path.read_text() for path in aside.iterdir()} == {"2": "newer 2", "77": "newer 77"}


def test_forced_it_keeps_files_whatever_their_names_are(table: Table, tmp_path: Path) -> None:
    table.perform()
    (table.root / "checkpoint/offsets/9 of mine").write_text("kept")
    table.undo(force=True)
    assert content(table.root) == table.before
    assert (tmp_path / "backup/aside/checkpoint/offsets/9 of mine").read_text() == "kept"


def test_forced_it_takes_the_state_of_the_abandoned_line_along(table: Table, tmp_path: Path) -> None:
    """A snapshot that stays is loaded under the changes of the line that comes back."""
    table.perform()
    state = table.root / "checkpoint/state/0/0"
    state.mkdir(parents=True)
    (state / "9.snapshot").write_text("of another line")
    with pytest.raises(CheckpointChanged, match=r"state/0/0/9\.snapshot is new"):
        table.undo()
    table.undo(force=True)
    assert content(table.root) == table.before and not (table.root / "checkpoint/state").exists()
    assert (tmp_path / "backup/aside/checkpoint/state/0/0/9.snapshot").exists()


@pytest.mark.parametrize("force", [False, True])
def test_what_spark_has_purged_since_is_not_undone_by_half(table: Table, force: bool) -> None:
    table.perform()
    for folder in ("offsets", "commits"):
        (table.root / f"checkpoint/{folder}/2").write_text("newer")
        (table.root / f"checkpoint/{folder}/0").unlink()
    held = content(table.root)
    with pytest.raises(
        Impossible, match=r"commits/0 and 1 more were deleted since the repair.*controlplane rewind"
    ):
        table.undo(force=force)
    assert content(table.root) == held


def test_modes_and_owners_are_those_of_before_whatever_our_umask_is(table: Table) -> None:
    def access() -> dict[str, tuple[int, int, int]]:
        found = {path: (table.root / path).stat() for path in content(table.root)}
        return {path: (held.st_mode, held.st_uid, held.st_gid) for path, held in found.items()}

    (table.root / "checkpoint/offsets/2").chmod(0o640)
    (table.root / "checkpoint/metadata").chmod(0o664)
    if os.geteuid() == 0:
        os.chown(table.root / "checkpoint/metadata", 4711, 4712)
        os.chown(table.root / "checkpoint/offsets/3", 4711, 4712)
    before, umask = access(), os.umask(0o077)
    try:
        table.perform()
        assert access() == {path: before[path] for path in content(table.root)}
        table.undo()
    finally:
        os.umask(umask)
    assert access() == before


def test_a_new_file_is_for_those_who_read_its_folder(tmp_path: Path) -> None:
    root = tmp_path / "ck"
    root.mkdir()
    root.chmod(0o755)
    umask = os.umask(0o077)
    try:
        CheckpointFolder(str(root)).write("sources/0/3", b"x")
    finally:
        os.umask(umask)
    assert (root / "sources/0/3").stat().st_mode & 0o777 == 0o644
    assert (root / "sources/0").stat().st_mode & 0o777 == 0o755


def test_a_lock_that_fails_after_it_was_set_is_no_nothing_was_changed(table: Table) -> None:
    class Late(Flaky):
        def write(self, path: str, content: bytes) -> None:
            super().write(path, content)
            raise OSError(5, "Input/output error")

    table.folders[CHECKPOINT] = Late(table.places.checkpoint)
    with pytest.raises(RepairInterrupted, match="controlplane undo"):
        table.perform()
    table.folders[CHECKPOINT] = table.checkpoint
    table.undo()
    assert content(table.root) == table.before


def test_file_that_changes_during_the_repair_stops_it(table: Table) -> None:
    last = "offsets/2"
    assert last in [step.path for step in table.plan.steps]

    class Busy(Flaky):
        def remove(self, path: str) -> None:
            super().remove(path)
            (table.root / "checkpoint" / last).write_text("somebody else's")

    table.folders[CHECKPOINT] = Busy(table.places.checkpoint)
    with pytest.raises(RepairInterrupted, match=f"{last} changed during the repair"):
        table.perform()


def test_the_backup_lies_outside_and_is_a_folder_of_its_own(table: Table) -> None:
    with pytest.raises(Impossible, match="would lie inside"):
        execution.execute_plan(
            table.plan, table.folders, CheckpointFolder(f"{table.places.checkpoint}/backup"), NOW
        )
    with pytest.raises(Impossible, match="is not empty"):
        execution.execute_plan(table.plan, table.folders, CheckpointFolder(str(table.root / "in")), NOW)
    assert content(table.root) == table.before


def test_a_read_only_checkpoint_is_not_changed(table: Table) -> None:
    table.checkpoint.left = 0
    with pytest.raises(OSError, match="Input/output error"):
        table.perform()
    assert content(table.root) == table.before


def test_a_lost_id_is_written_and_its_stale_checksum_is_not_left(tmp_path: Path) -> None:
    table = Table(tmp_path)
    plan = RepairPlan(
        "repair", "", (Remove(CHECKPOINT, ".metadata.crc"), Write(CHECKPOINT, "metadata", b'{"id":"x"}'))
    )
    execution.execute_plan(plan, table.folders, table.backup, NOW)
    now = content(table.root / "checkpoint")
    assert now["metadata"] == b'{"id":"x"}' and ".metadata.crc" not in now
    table.undo()
    assert content(table.root) == table.before


def test_time_of_the_root_folder_is_restored(table: Table) -> None:
    root = table.root / "checkpoint"
    os.utime(root, (NOW, NOW))
    table.perform()
    assert root.stat().st_mtime == NOW
    table.undo()
    assert root.stat().st_mtime == NOW


def test_an_object_store_is_operated_on_by_puts_and_deletes(tmp_path: Path) -> None:
    store = fsspec.filesystem("memory")
    root = on_disk("dedup", tmp_path)
    store.put(f"{root}/checkpoint/", "/repair/ck/", recursive=True)
    before = {path: store.cat_file(path) for path in store.find("/repair/ck")}
    places = RepairPlaces("memory://repair/ck")
    plan = rewind_plan.plan_rewind(inspection.inspect(places, NOW), 2, SPARK)
    folders, backup = (
        {CHECKPOINT: CheckpointFolder("memory://repair/ck")},
        CheckpointFolder("memory://repair/ck.backup"),
    )
    execution.execute_plan(plan, folders, backup, NOW)
    assert analyze(inspection.inspect(places, NOW).checkpoint).next_batch == 2
    undoing.execute_undo(read_manifest(backup), folders, backup, CheckpointFolder("memory://repair/aside"))
    assert {path: store.cat_file(path) for path in store.find("/repair/ck")} == before


def test_an_error_that_only_the_store_knows_leaves_the_way_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = fsspec.filesystem("memory")
    root = on_disk("dedup", tmp_path)
    store.put(f"{root}/checkpoint/", "/flaky/ck/", recursive=True)
    before = {path: store.cat_file(path) for path in store.find("/flaky/ck")}
    places = RepairPlaces("memory://flaky/ck")
    plan = rewind_plan.plan_rewind(inspection.inspect(places, NOW), 2, SPARK)
    folders, backup = (
        {CHECKPOINT: CheckpointFolder("memory://flaky/ck")},
        CheckpointFolder("memory://flaky/ck.backup"),
    )

    real = type(store)._open

    def removed(*_: object) -> None:
        raise RuntimeError("503 try again")

    def opened(self: object, path: str, mode: str = "rb", **options: object) -> object:
        if "w" in mode and path.endswith("/ck/commits/3"):
            raise RuntimeError("503 try again")
        return real(self, path, mode, **options)

    monkeypatch.setattr(type(store), "rm_file", removed)
    with pytest.raises(
        RepairInterrupted, match="RuntimeError: 503 try again; restore the checkpoint with: controlplane undo"
    ):
        execution.execute_plan(plan, folders, backup, NOW)
    assert locked_by(inspection.inspect(places, NOW).checkpoint) == str(backup)
    monkeypatch.undo()
    undoing.execute_undo(read_manifest(backup), folders, backup, CheckpointFolder("memory://flaky/aside"))
    backup = CheckpointFolder("memory://flaky/ck.second")
    execution.execute_plan(plan, folders, backup, NOW)
    monkeypatch.setattr(type(store), "_open", opened)
    with pytest.raises(
        RepairInterrupted, match="RuntimeError: 503 try again; restore the checkpoint with: controlplane undo"
    ):
        undoing.execute_undo(read_manifest(backup), folders, backup, CheckpointFolder("memory://flaky/aside"))
    monkeypatch.undo()
    undoing.execute_undo(read_manifest(backup), folders, backup, CheckpointFolder("memory://flaky/aside"))
    assert {path: store.cat_file(path) for path in store.find("/flaky/ck")} == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "it has no manifest.json"),
        ("{", "is not JSON"),
        ("{}", "has another format"),
        ('{"format": "spark-checkpoint-backup", "version": 9}', "but this program reads version 1"),
        ('{"format": "spark-checkpoint-backup", "version": 1}', "missing or has the wrong type"),
    ],
)
def test_folder_without_a_valid_manifest_is_not_a_backup(
    tmp_path: Path, text: str | None, expected: str
) -> None:
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(NotABackup, match=expected):
        read_manifest(CheckpointFolder(str(tmp_path)))


def test_a_manifest_cannot_lead_out_of_the_checkpoint(table: Table) -> None:
    table.perform()
    file = Path(str(table.backup)) / "manifest.json"
    held = json.loads(file.read_text())
    held["files"][0]["path"] = "../../elsewhere"
    file.write_text(json.dumps(held))
    with pytest.raises(NotABackup, match="leads out of the checkpoint"):
        read_manifest(table.backup)


def test_a_copy_that_differs_from_what_was_read_is_no_backup(table: Table) -> None:
    class Forgetful(CheckpointFolder):
        def copy_from(self, *arguments, **options):  # type: ignore[no-untyped-def]
            copied, path = super().copy_from(*arguments, **options), arguments[2]
            self.write(path, b"")
            return copied

    with pytest.raises(InUse, match="nothing was changed"):
        execution.execute_plan(table.plan, table.folders, Forgetful(str(table.root / "b")), NOW)
    held = content(table.root)
    assert {path: held[path] for path in table.before} == table.before
