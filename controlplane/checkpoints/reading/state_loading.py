"""Whether a state store can load a version: the files that Spark would open, in its order, and their faults.

HDFS-backed: the newest snapshot and all deltas after it. RocksDB: the newest zip with its SST files, and all
changelogs after it; in format version 2 by the ids of the commit log. Since Spark 4.2 a bad snapshot is
skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
    #: The snapshot that all changelogs of a lineage build on is missing.
    BASE = "base"


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
        bases = sorted(
            (file for file in plain if file.kind == snapshot and file.version <= version),
            key=lambda file: file.version,
            reverse=True,
        )
        changes = {file.version: file for file in plain if file.kind == change}
        # Without changelogs each version is a snapshot, and the one that is missing is the cause.
        missing = snapshot if provider == ROCKSDB and bases and not changes else change
        chain = _Chain(changes, lambda number: f"{number}.{missing if number == version else change}")
        skipped: list[Fault] = []
        for place, base in enumerate([*bases, None]):
            start = _begin(base)
            if place and version - start > MAX_REPLAYED_FILES:
                break
            fault = self.fault_of_snapshot(store, base) if base else None
            if fault is None:
                return _load_result(skipped, self._replayed(store, chain, start, version))
            skipped.append(fault)
            if not self.target.skips_bad_snapshots:
                break
        return LoadResult(tuple(skipped))

    def _replayed(self, store: Store, chain: _Chain, base: int, version: int) -> tuple[Fault, ...]:
        """The faults of the change files base+1 … version: at most three, newest first."""
        found: list[Fault] = []
        for number in range(version, base, -1):
            file = chain.files.get(number)
            if file is None:
                found.append(
                    Fault(f"{store.folder}/{chain.name(number)}", FaultKind.MISSING, "it is missing")
                )
            elif (fault := self.fault_of_change(file)) is not None:
                found.append(fault)
            if len(found) == 3:
                break
        return tuple(found)

    def load_by_id(self, store: Store, version: int, unique_id: str) -> LoadResult:
        """Check the load of a version by its id (format version 2).

        Spark tries the newest snapshot among the ids that the changelog of the version lists (its lineage), else an
        empty store. If that fails it reads older changelogs for a longer lineage and tries the snapshots in it, but
        not the empty store a second time. Source: `RocksDB.loadSnapshotWithCheckpointId` of 4.2 and 4.3; releases
        before fail at once.
        """
        files = {(file.version, file.id, file.kind): file for file in store.files}
        lineage = {version: unique_id}
        if (version, unique_id, "zip") not in files:
            change = files.get((version, unique_id, "changelog"))
            chain = _Chain.of(files, lineage)
            if faults := self._replayed(store, chain, version - 1, version):
                return LoadResult(faults)
            held = self.change_file(change) if change else None
            if held is None:
                return LoadResult()  # it was not collected
            lineage = {**dict(held.lineage), version: unique_id}
        bases = _bases(files, lineage)
        first = _begin(bases[0] if bases else None)
        skipped: list[Fault] = []
        base, fault = self._first_good(store, bases[:1] or [None], lineage, version, skipped)
        if fault is not None and self.target.skips_bad_snapshots:
            longer = self._full_lineage(files, version, unique_id)
            if longer == {}:
                return LoadResult((), tuple(skipped))
            lineage = longer or lineage
            older = [file for file in [*_bases(files, lineage), None] if _begin(file) != first]
            near = [file for file in older if version - _begin(file) <= MAX_REPLAYED_FILES]
            base, last = self._first_good(store, near, lineage, version, skipped)
            fault = fault if last or not near else None
        if fault is not None:
            return LoadResult(tuple(skipped) or (fault,))
        return _load_result(skipped, self._replayed(store, _Chain.of(files, lineage), base, version))

    def _first_good(
        self,
        store: Store,
        bases: Sequence[StateFile | None],
        lineage: Mapping[int, str],
        version: int,
        skipped: list[Fault],
    ) -> tuple[int, Fault | None]:
        """The version of the first of these snapshots (None: an empty store) that loads; adds bad ones to `skipped`."""
        oldest = min(lineage)
        fault = Fault(
            f"{store.folder}/{oldest}_{lineage[oldest]}.zip",
            FaultKind.BASE,
            f"it is missing, and version {version} has no other snapshot to begin with",
        )
        for base in bases:
            start = _begin(base)
            if sum(start < number < version for number in lineage) < version - start - 1:
                continue
            wrong = self.fault_of_snapshot(store, base) if base else None
            if wrong is None:
                return start, None
            skipped.append(wrong)
            fault = wrong
        return 0, fault

    def _full_lineage(self, files: _Files, version: int, unique_id: str) -> dict[int, str] | None:
        """Version → id of the last MAX_REPLAYED_FILES versions, from as many changelogs as it takes.

        None where a changelog is missing or bad, empty where one was not collected.
        """
        start = max(1, version - MAX_REPLAYED_FILES)
        lineage = {version: unique_id}
        while (oldest := min(lineage)) > start:
            change = files.get((oldest, lineage[oldest], "changelog"))
            held = self.change_file(change) if change else None
            if change and held is None and self.fault_of_change(change) is None:
                return {}
            older = {number: key for number, key in held.lineage if start <= number < version} if held else {}
            if not older or min(older) >= oldest:
                return None
            lineage |= older
        return lineage if lineage.keys() == set(range(start, version + 1)) else None

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
        wrong = self._checksum_fault(path)
        data = self.inventory.contents.get(path)
        if data is None and self.inventory.size(path) > 0:
            return wrong
        try:
            read(path, data or b"")
        except Corrupt as error:
            # Spark compares the checksum when it closes a file; unpacking a zip fails before.
            return (
                wrong if wrong and not path.endswith(".zip") else Fault(path, FaultKind.CORRUPT, str(error))
            )
        return wrong

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


#: (version, id, kind) → file.
_Files = Mapping[tuple[int, str, str], StateFile]


@dataclass(frozen=True)
class _Chain:
    """The change files that lead to a version: those that exist, by version, and the name that each must have."""

    files: Mapping[int, StateFile]
    name: Callable[[int], str]

    @classmethod
    def of(cls, files: _Files, lineage: Mapping[int, str]) -> _Chain:
        """The changelogs that a lineage names."""
        held = {number: files.get((number, key, "changelog")) for number, key in lineage.items()}
        existing = {number: file for number, file in held.items() if file is not None}
        return cls(existing, lambda number: f"{number}_{lineage[number]}.changelog")


def _begin(base: StateFile | None) -> int:
    """The version that a snapshot holds; 0 for an empty store."""
    return base.version if base else 0


def _bases(files: _Files, lineage: Mapping[int, str]) -> list[StateFile]:
    """The snapshots that a lineage names and that exist, newest first."""
    named = ((number, lineage[number], "zip") for number in sorted(lineage, reverse=True))
    return [files[key] for key in named if key in files]


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
