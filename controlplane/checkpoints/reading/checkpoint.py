"""The analyzer's view of an inventory: logs, next batch, sources, state and sink. Pure.

N is the newest entry of offsets/, K that of commits/. If K = N, a restart plans batch N+1; else it runs batch
N again. Batch b loads state version b and writes version b+1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from controlplane.checkpoints.inventory.model import Inventory
from controlplane.checkpoints.inventory.relocation import relocated
from controlplane.checkpoints.reading import file_logs, logs, state_tree
from controlplane.checkpoints.reading.file_logs import FileLog
from controlplane.checkpoints.reading.logs import CommitEntry, OffsetEntry, Torn
from controlplane.checkpoints.reading.state_loading import StateLoader
from controlplane.checkpoints.reading.state_tree import StateOperator
from controlplane.checkpoints.reading.versions import LATEST, SparkVersion, parse_version, writer_from_conf

SINK_LOG = "_spark_metadata"
#: An entry of the offset log is written within this time after the batch's own timestamp.
WRITE_SECONDS = 60.0


@dataclass(frozen=True)
class ReportedBatch:
    """The progress report of a batch: the end offset of each source in order, as JSON values.

    `at`: when the report was received, Unix seconds.
    """

    at: float
    end_offsets: tuple[Any, ...]
    watermark_ms: int | None = None


@dataclass(frozen=True)
class KnownHistory:
    """What is known of the query apart from its files; None: not known.

    `reports`: the reported batches that no later rewind undid, by number; `recent`: those reported so shortly
    before the listing that it may lack them. `disallowed_changes`: changes of the newest run that the
    checkpoint does not allow. `sources`: their descriptions in the newest report.
    """

    query_id: str | None = None
    stateful: bool | None = None
    location: str | None = None
    asynchronous: bool = False
    reports: Mapping[int, ReportedBatch] = field(default_factory=dict)
    recent: frozenset[int] = frozenset()
    disallowed_changes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing is known of its batches."""
        return self.stateful is None and not self.reports


@dataclass(frozen=True)
class BatchLog:
    """The names in offsets/ or commits/: batches that are files, and folders with a batch's name."""

    folder: str
    batches: tuple[int, ...]
    folders: tuple[int, ...]

    @property
    def newest(self) -> int | None:
        """The highest batch; None for an empty log."""
        return self.batches[-1] if self.batches else None

    @property
    def gaps(self) -> int:
        """The number of gaps between the batches."""
        return sum(b - a > 1 for a, b in zip(self.batches, self.batches[1:], strict=False))


def batch_log(inventory: Inventory, folder: str) -> BatchLog:
    """The batches of `folder` (offsets or commits), ascending."""
    numbers = [
        name for name in inventory.names(folder) if name.isascii() and name.isdigit() and len(name) < 19
    ]
    files = sorted(int(name) for name in numbers if inventory.is_file(f"{folder}/{name}"))
    folders = sorted(int(name) for name in numbers if inventory.is_folder(f"{folder}/{name}"))
    return BatchLog(folder, tuple(files), tuple(folders))


@dataclass(frozen=True)
class CheckpointView:
    """Everything a check may use. `output`: listing of the file sink's output; `inputs`: of input folders."""

    inventory: Inventory
    target: SparkVersion
    history: KnownHistory = field(default_factory=KnownHistory)
    output: Inventory | None = None
    inputs: tuple[Inventory, ...] = ()

    @cached_property
    def offsets(self) -> BatchLog:
        """The offset log."""
        return batch_log(self.inventory, "offsets")

    @cached_property
    def commits(self) -> BatchLog:
        """The commit log."""
        return batch_log(self.inventory, "commits")

    @property
    def planned(self) -> int | None:
        """N, the newest batch in the offset log."""
        return self.offsets.newest

    @property
    def committed(self) -> int | None:
        """K, the newest batch in the commit log."""
        return self.commits.newest

    @property
    def in_flight(self) -> bool:
        """Whether the newest planned batch runs again."""
        return self.planned is not None and (self.committed is None or self.committed < self.planned)

    @property
    def next_batch(self) -> int:
        """The batch that a restart runs first."""
        if self.planned is None:
            return 0
        return self.planned if self.in_flight else self.planned + 1

    def offset_entry(self, batch: int | None) -> OffsetEntry | Torn | None:
        """An entry of the offset log; None where it is missing or its content was not collected."""
        text = self._text(self.offsets, batch)
        return None if text is None else logs.read_offsets(text, self.target.newest_offset_log)

    def commit_entry(self, batch: int | None) -> CommitEntry | Torn | None:
        """An entry of the commit log; None where it is missing or its content was not collected."""
        text = self._text(self.commits, batch)
        return None if text is None else logs.read_commit(text, self.target.newest_commit_log)

    def _text(self, log: BatchLog, batch: int | None) -> str | None:
        if batch is None or batch not in log.batches:
            return None
        path = f"{log.folder}/{batch}"
        return "" if self.inventory.size(path) == 0 else self.inventory.text(path)

    @cached_property
    def last(self) -> OffsetEntry | None:
        """The newest entry of the offset log; None where it cannot be read."""
        entry = self.offset_entry(self.planned)
        return entry if isinstance(entry, OffsetEntry) else None

    @cached_property
    def previous(self) -> OffsetEntry | None:
        """The entry before the newest of the offset log; None where it cannot be read."""
        entry = self.offset_entry(None if self.planned is None else self.planned - 1)
        return entry if isinstance(entry, OffsetEntry) else None

    @cached_property
    def last_commit(self) -> CommitEntry | None:
        """The newest entry of the commit log; None where it cannot be read."""
        entry = self.commit_entry(self.committed)
        return entry if isinstance(entry, CommitEntry) else None

    @cached_property
    def operators(self) -> tuple[StateOperator, ...]:
        """The stateful operators below state/."""
        return state_tree.operators(self.inventory)

    @property
    def first_executed_batch(self) -> int:
        """The first batch that runs its plan and loads state; a file sink skips the batches that it already has."""
        newest = self.sink.newest if self.sink else None
        return self.next_batch if newest is None else max(self.next_batch, newest + 1)

    @property
    def stateful(self) -> bool:
        """Whether state/ holds any operator."""
        return bool(self.operators)

    @cached_property
    def loader(self) -> StateLoader:
        """Checks whether state stores can be loaded, with the pinned compression codec."""
        return StateLoader(
            self.inventory, self.target, (self.last and self.last.setting(logs.CODEC)) or "lz4"
        )

    def is_intact(self, folder: str) -> bool:
        """Whether its time shows that nothing was removed from a folder since the last batch; "" is the root.

        False where that is not known: object stores have no such times, and a copy has new ones.
        """
        entries, last = self.inventory.entries, self.last
        changed = (
            self.inventory.root_modified if not folder else getattr(entries.get(folder), "modified", None)
        )
        planned = getattr(entries.get(f"offsets/{self.planned}"), "modified", None)
        if changed is None or planned is None or last is None:
            return False
        is_copy = abs(planned - last.timestamp_ms / 1000) > WRITE_SECONDS
        return not is_copy and changed < planned

    @cached_property
    def sources(self) -> Mapping[str, FileLog]:
        """Source (position or name) → its log, for the file sources among them."""
        found = {
            name: file_logs.file_log(self.inventory, f"sources/{name}")
            for name in self.inventory.names("sources")
            if self.inventory.is_folder(f"sources/{name}")
        }
        return {name: log for name, log in found.items() if self._reads_files(name, log)}

    @cached_property
    def repeated_lines(self) -> Mapping[str, str]:
        """Line of the newest offset entry → the source that it seems to hold, where a stream seems to be used twice.

        Spark writes a line for each use, as in `stream.union(stream)`, and one folder a stream. Empty where the folders
        do not fit that. Two streams whose offsets were always equal look the same once the folder of one is lost.
        """
        if self.last is None or self.last.version >= 2:
            return {}
        if any(len(report.end_offsets) == len(self.last.offsets) for report in self.history.reports.values()):
            return {}  # a report names each stream once
        folders = {
            name for name in self.inventory.names("sources") if self.inventory.is_folder(f"sources/{name}")
        }
        entries = [e for b in self.offsets.batches if isinstance(e := self.offset_entry(b), OffsetEntry)]
        values = {line: tuple(entry.offsets.get(line) for entry in entries) for line in self.last.offsets}
        distinct = list(dict.fromkeys(values.values()))
        fits = folders == {str(place) for place in range(len(distinct))} and len(distinct) < len(values)
        return {line: str(distinct.index(held)) for line, held in values.items()} if fits else {}

    @cached_property
    def line_sources(self) -> Mapping[str, str]:
        """Line of the newest offset entry → the name of its source; repeated lines only where that is certain."""
        lines = {line: line for line in (self.last.offsets if self.last else {})}
        streams = len(set(self.repeated_lines.values()))
        reported = any(len(report.end_offsets) == streams for report in self.history.reports.values())
        return self.repeated_lines if streams and (reported or self.is_intact("sources")) else lines

    def _reads_files(self, name: str, log: FileLog) -> bool:
        line = next((line for line, source in self.line_sources.items() if source == name), name)
        offset = self.last.offsets.get(line) if self.last else None
        return logs.log_offset(offset) is not None or file_logs.is_file_source(log)

    @cached_property
    def sink(self) -> FileLog | None:
        """The file sink's own log below the output, where an output was given."""
        return file_logs.file_log(self.output, SINK_LOG) if self.output is not None else None

    def relocated_path(self, path: str) -> str:
        """The present place of a path in the logs, after relocation."""
        return relocated(path, self.inventory.relocations)


def writer_version(inventory: Inventory) -> SparkVersion | None:
    """The Spark that wrote the newest readable batch, inferred from the settings it pins; None: not known."""
    if inventory.spark_version:
        try:
            return parse_version(inventory.spark_version)
        except ValueError:
            pass
    for batch in reversed(batch_log(inventory, "offsets").batches):
        text = inventory.text(f"offsets/{batch}")
        entry = logs.read_offsets(text, LATEST.newest_offset_log) if text else None
        if isinstance(entry, OffsetEntry) and (version := writer_from_conf(dict(entry.conf))):
            return version
    return None
