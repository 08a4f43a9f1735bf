"""Whether a state store can load a version: the files that Spark would open, in its order, and their faults.

HDFS-backed: the newest snapshot and all deltas after it. RocksDB: the newest zip with its SST files, and all
changelogs after it; in format version 2 by the ids of the commit log. Since Spark 4.1 a bad snapshot is
skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from controlplane.checkpoints.decoding import change_files, checksums, sst, zips
from controlplane.checkpoints.decoding.change_files import ChangeFile
from controlplane.checkpoints.decoding.errors import Corrupt
from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.reading.state_tree import StateFile, Store
from controlplane.checkpoints.reading.versions import SparkVersion

#: Spark replays at most this many change files when it skips a bad snapshot.
MAX_REPLAYED_FILES = 50
#: Change files of one checkpoint are decompressed up to this many bytes; the rest counts as good.
MAX_DECOMPRESSED_BYTES = 64 << 20
HDFS = "HDFSBackedStateStoreProvider"
ROCKSDB = "RocksDBStateStoreProvider"


class FaultKind(StrEnum):
    """What is wrong with a file."""

    MISSING = "missing"
    CORRUPT = "corrupt"
    CHECKSUM = "checksum"


@dataclass(frozen=True)
class Fault:
    """A file of a store that Spark cannot load. `reason`: a clause with "it" for the file."""

    path: str
    kind: FaultKind
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True)
class LoadResult:
    """The outcome of a load: `faults` make it fail; `skipped` are bad snapshots that the target skips."""

    faults: tuple[Fault, ...] = ()
    skipped: tuple[Fault, ...] = ()

    @property
    def loads(self) -> bool:
        """Whether Spark can load the version."""
        return not self.faults


@dataclass
class StateLoader:
    """Checks loads of one checkpoint's stores without Spark. Remembers the files that it has read."""

    inventory: Inventory
    target: SparkVersion
    codec: str = "lz4"
    _known: dict[str, Fault | None] = field(default_factory=dict)
    _changes: dict[str, ChangeFile] = field(default_factory=dict)
    _snapshots: dict[str, zips.Snapshot] = field(default_factory=dict)
    _unpacked: int = 0

    def load(self, store: Store, version: int, provider: str) -> LoadResult:
        """Check the load of a version by plain names (`5.delta`, `5.zip`)."""
        snapshot, change = ("snapshot", "delta") if provider == HDFS else ("zip", "changelog")
        plain = [file for file in store.files if not file.id]
        snapshots = {f.version: f for f in plain if f.kind == snapshot and f.version <= version}
        changes = {f.version: f for f in plain if f.kind == change}
        bases = [snapshots[v] for v in sorted(snapshots, reverse=True)]
        skipped: list[Fault] = []
        for base in bases:
            fault = self.fault_of_snapshot(store, base)
            if fault is None:
                return _load_result(skipped, self._replayed(store, changes, base.version, version, change))
            skipped.append(fault)
            if not self.target.skips_bad_snapshots:
                return LoadResult(tuple(skipped))
        if skipped and version > MAX_REPLAYED_FILES:
            return LoadResult(tuple(skipped))
        return _load_result(skipped, self._replayed(store, changes, 0, version, change))

    def _replayed(
        self, store: Store, changes: Mapping[int, StateFile], base: int, version: int, kind: str
    ) -> tuple[Fault, ...]:
        """The faults of the change files base+1 … version: at most three, newest first."""
        found: list[Fault] = []
        for number in range(version, base, -1):
            file = changes.get(number)
            if file is None:
                found.append(Fault(f"{store.folder}/{number}.{kind}", FaultKind.MISSING, "it is missing"))
            elif (fault := self.fault_of_change(file)) is not None:
                found.append(fault)
            if len(found) == 3:
                break
        return tuple(found)

    def load_by_id(self, store: Store, version: int, unique_id: str) -> LoadResult:
        """Check the load of a version by its id (format version 2), back along the lineage to a good snapshot."""
        files = {(file.version, file.id, file.kind): file for file in store.files}
        lineage: dict[int, str] = {version: unique_id}
        skipped: list[Fault] = []
        at = version
        while at > 0:
            key = lineage.get(at)
            if key is None:
                fault = Fault(f"{store.folder}/{at}_….changelog", FaultKind.MISSING, "no lineage names it")
                return LoadResult((*skipped, fault))
            snapshot = files.get((at, key, "zip"))
            if snapshot is not None:
                fault_here = self.fault_of_snapshot(store, snapshot)
                if fault_here is None:
                    break
                skipped.append(fault_here)
                if not self.target.skips_bad_snapshots:
                    return LoadResult(tuple(skipped))
            change = files.get((at, key, "changelog"))
            missing = Fault(f"{store.folder}/{at}_{key}.changelog", FaultKind.MISSING, "it is missing")
            wrong = missing if change is None else self.fault_of_change(change)
            if wrong is not None or change is None:
                return LoadResult((*skipped, wrong or missing))
            held = self._lineage(change)
            if held is None:
                break
            lineage = {**held, **lineage}
            at -= 1
        return LoadResult((), tuple(skipped))

    def _lineage(self, file: StateFile) -> dict[int, str] | None:
        """Version → id of the files before a changelog; None where it was not collected."""
        held = self.change_file(file)
        return None if held is None else dict(held.lineage)

    def change_file(self, file: StateFile) -> ChangeFile | None:
        """The content of a change file; None where it cannot be read or was not collected."""
        self.fault_of_change(file)
        return self._changes.get(file.path)

    def fault_of_change(self, file: StateFile) -> Fault | None:
        """The fault of a delta or changelog; None where it is whole or was not collected."""
        return self._once(file.path, self._read_change)

    def _read_change(self, path: str, data: bytes) -> None:
        if self._unpacked > MAX_DECOMPRESSED_BYTES and data:
            return
        held = self._changes[path] = change_files.read(data, self.codec)
        self._unpacked += held.size

    def fault_of_snapshot(self, store: Store, file: StateFile) -> Fault | None:
        """The fault of a snapshot or of a file that it names; None where all are whole or were not collected."""
        if file.kind == "snapshot":
            return self.fault_of_change(file)
        fault = self._once(file.path, self._read_zip)
        return fault or next(self._faults_of_members(store, file), None)

    def _read_zip(self, path: str, data: bytes) -> None:
        self._snapshots[path] = zips.read(data)

    def _faults_of_members(self, store: Store, file: StateFile) -> Iterator[Fault]:
        """Faults of the SST and log files that a snapshot names: missing, or of another size."""
        held = self._snapshots.get(file.path)
        for name, size in held.files if held else ():
            folder = "SSTs" if name.endswith(".sst") else "logs"
            path = f"{store.folder}/{folder}/{name}"
            if not self.inventory.is_file(path):
                if self.inventory.complete:
                    yield Fault(path, FaultKind.MISSING, f"it is missing, and {file.path} needs it")
            elif self.inventory.size(path) != size:
                reason = f"it has {self.inventory.size(path)} bytes, but {file.path} records {size}"
                yield Fault(path, FaultKind.CORRUPT, reason)

    def _once(self, path: str, read: Callable[[str, bytes], None]) -> Fault | None:
        if path not in self._known:
            self._known[path] = self._read_fault(path, read)
        return self._known[path]

    def _read_fault(self, path: str, read: Callable[[str, bytes], None]) -> Fault | None:
        if (wrong := self._checksum_fault(path)) is not None:
            return wrong
        data = self.inventory.contents.get(path)
        if data is None and self.inventory.size(path) > 0:
            return None
        try:
            read(path, data or b"")
        except Corrupt as error:
            return Fault(path, FaultKind.CORRUPT, str(error))
        return None

    def _checksum_fault(self, path: str) -> Fault | None:
        """A mismatch with Spark's checksum file beside a state file; a missing checksum file is no fault."""
        beside = f"{path}.crc"
        if not self.target.verifies_checksums or not self.inventory.is_file(beside):
            return None
        sums, data = self.inventory.contents.get(beside), self.inventory.contents.get(path)
        if sums is None and self.inventory.size(beside) > 0:
            return None
        try:
            recorded = checksums.spark_checksum(sums or b"")
        except Corrupt as error:
            return Fault(beside, FaultKind.CHECKSUM, str(error))
        if recorded.size != self.inventory.size(path):
            return Fault(
                path,
                FaultKind.CHECKSUM,
                f"it has {self.inventory.size(path)} bytes, its checksum file records {recorded.size}",
            )
        if data is not None and recorded.algorithm == "CRC32C" and checksums.crc32c(data) != recorded.value:
            return Fault(path, FaultKind.CHECKSUM, "its bytes do not match its checksum file")
        return None


def _load_result(skipped: list[Fault], faults: tuple[Fault, ...]) -> LoadResult:
    """The result; where change files have faults too, the skipped snapshots are faults, as Spark reports them."""
    return LoadResult((*skipped, *faults)) if faults else LoadResult((), tuple(skipped))


def damaged_blocks(inventory: Inventory, store: Store, version: int) -> Iterator[Fault]:
    """SST files with a damaged block among those that the newest snapshot up to `version` names."""
    snapshots = [file for file in store.of("zip") if file.version <= version]
    newest = max(snapshots, key=lambda file: file.version, default=None)
    data = inventory.contents.get(newest.path) if newest else None
    try:
        members = zips.read(data).files if data else ()
    except Corrupt:
        members = ()
    for name, _ in members:
        path = f"{store.folder}/SSTs/{name}"
        content = inventory.contents.get(path)
        if content and len(content) == inventory.size(path) and (reason := sst.find_damage(content)):
            yield Fault(path, FaultKind.CORRUPT, reason)
