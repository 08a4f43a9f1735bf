"""Write one partition of an event batch on its executor: rows of the lake, rejected lines, and events to
forward.

Called by `controlplane.pipeline.ingest.ingest_job` for every partition; the driver receives only a short
result.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from controlplane.lake import wire_events
from controlplane.lake.deduplication import drop_stored_rows
from controlplane.lake.folders import LakeFolder
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import LakeManifest, Part
from controlplane.lake.rows import LakeRowBuilder
from controlplane.lake.staging import Staging
from controlplane.pipeline.ingest import forwarding
from controlplane.pipeline.ingest.forwarding import PendingEvent

RESULT_SCHEMA = pa.schema([("result", pa.string())])
RESULT_DDL = "result string"
#: Rows of all tables in memory at once.
MAX_BUFFERED_ROWS = 50_000
#: Bytes of lines to forward, and of rejected lines, in memory at once.
MAX_BUFFERED_BYTES = 32 * 1024 * 1024
REJECTED_FOLDER = "_rejected"
#: Bytes kept of a rejected line.
MAX_REJECTED_LINE_BYTES = 64 * 1024


@dataclass(frozen=True)
class PartitionResult:
    """Result of a partition, or of all partitions of a batch. `arrived`: Unix seconds, equal for the whole
    batch.
    """

    parts: tuple[Part, ...] = ()
    outboxes: tuple[str, ...] = ()
    events: int = 0
    malformed: int = 0
    #: Reports that the lake already had, from another job or from outside of the window.
    duplicates: int = 0
    arrived: float = 0.0

    def plus(self, other: PartitionResult) -> PartitionResult:
        """The sum of two results."""
        return PartitionResult(
            self.parts + other.parts,
            self.outboxes + other.outboxes,
            self.events + other.events,
            self.malformed + other.malformed,
            self.duplicates + other.duplicates,
            max(self.arrived, other.arrived),
        )

    def to_json(self) -> str:
        """The result as JSON."""
        return json.dumps(asdict(self), default=str)

    @staticmethod
    def of_json(text: str) -> PartitionResult:
        """Parse the JSON of `to_json`."""
        document = json.loads(text)
        parts = [
            {**item, "date": datetime.fromisoformat(item["date"]).date()} for item in document.pop("parts")
        ]
        outboxes = tuple(document.pop("outboxes"))
        return PartitionResult(tuple(Part(**part) for part in parts), outboxes, **document)


@dataclass
class _PartitionBuffer:
    """Buffers of a partition that is being written."""

    staging: Staging
    manifest: LakeManifest
    part: str
    forward: bool
    rows: LakeRowBuilder = field(default_factory=LakeRowBuilder)
    pending: list[PendingEvent] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)
    result: PartitionResult = field(default_factory=PartitionResult)
    pending_bytes: int = 0
    rejected_bytes: int = 0
    rejections: int = 0

    def take(self, agent: str | None, seq: int | None, line: bytes, origin: str, error: str | None) -> None:
        """Add one line, and flush what exceeds its limit."""
        if error is None and agent is not None and seq is not None:
            error = self._add(line)
            self.result = replace(self.result, events=self.result.events + 1)
            if self.forward:
                self.pending.append(PendingEvent(agent, seq, line))
                self.pending_bytes += len(line)
        if error is not None:
            self.rejected.append({"origin": origin, "error": error, "line": rejected_text(line)})
            self.rejected_bytes += min(len(line), MAX_REJECTED_LINE_BYTES)
        if len(self.rows) >= MAX_BUFFERED_ROWS:
            self.flush()
        if self.pending_bytes >= MAX_BUFFERED_BYTES:
            self._write_outbox()
        if self.rejected_bytes >= MAX_BUFFERED_BYTES:
            self._write_rejected()

    def _add(self, line: bytes) -> str | None:
        try:
            wire_events.add_event(self.rows, wire_events.decode_line(line))
        except (ValueError, OverflowError, RecursionError) as error:
            return str(error)[:500] or "nested too deeply"
        return None

    def flush(self) -> None:
        """Write the rows, without those that the lake already has."""
        staging, part = self.staging, f"{self.part}-{len(self.result.parts):04d}"
        tables, known = drop_stored_rows(
            Lake(staging.folder), self.rows.take(), (staging.job, staging.batch), self.manifest
        )
        parts = [row for name, rows in tables.items() for row in staging.write(name, rows, part)]
        self.result = self.result.plus(PartitionResult(tuple(parts), duplicates=known))

    def _write_outbox(self) -> None:
        """Write pending lines to an outbox; each is sorted, and reading merges them."""
        if not self.pending:
            return
        outbox = f"{self.staging.path}/outbox-{self.part}-{len(self.result.outboxes):04d}.arrow"
        forwarding.write_outbox(self.staging.folder, outbox, self.pending)
        self.result = self.result.plus(PartitionResult(outboxes=(outbox,)))
        self.pending, self.pending_bytes = [], 0

    def _write_rejected(self) -> None:
        if not self.rejected:
            return
        write_rejected(self.staging.folder, self._rejected_name(), self.rejected)
        self.result = self.result.plus(PartitionResult(malformed=len(self.rejected)))
        self.rejected, self.rejected_bytes, self.rejections = [], 0, self.rejections + 1

    def _rejected_name(self) -> str:
        more = f"-{self.rejections:04d}" if self.rejections else ""
        return f"{self.staging.job}-{self.staging.batch}-{self.part}{more}"

    def close(self) -> PartitionResult:
        """Write everything that is left and return the result."""
        self.flush()
        self._write_outbox()
        self._write_rejected()
        if (
            self.rejections
        ):  # an earlier attempt, which had the lines in another order, may have written one more file
            self.staging.folder.remove(f"{REJECTED_FOLDER}/{self._rejected_name()}.ndjson")
        return self.result


def rejected_text(line: bytes) -> str:
    """The kept part of a rejected line."""
    return line[:MAX_REJECTED_LINE_BYTES].decode("utf-8", "replace")


def write_rejected(folder: LakeFolder, name: str, lines: Iterable[Mapping[str, str]]) -> None:
    """Write rejected lines (`origin`, `error`, `line`) to one file, replacing one of the same name."""
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    folder.write(f"{REJECTED_FOLDER}/{name}.ndjson", text.encode("utf-8", "replace"))


Write = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def make_writer(staging: Staging, manifest: LakeManifest, forward: bool) -> Write:
    """A function for `mapInArrow`: rows of `landing_zone.PARSED` and `arrived` → one row of RESULT_SCHEMA."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        buffer = _PartitionBuffer(
            staging, manifest, f"{context.partitionId() if context else 0:05d}", forward
        )
        arrived = 0.0
        for batch in batches:
            if batch.num_rows:
                arrived = batch.column("arrived").cast(pa.int64())[0].as_py() / 1e6
            names = ("agent", "seq", "line", "origin", "error")
            for row in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
                buffer.take(*row)
        result = replace(buffer.close(), arrived=arrived)
        yield pa.RecordBatch.from_arrays([pa.array([result.to_json()], pa.string())], schema=RESULT_SCHEMA)

    return write
