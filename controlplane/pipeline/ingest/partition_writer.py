"""One executor's share of a batch of events: rows of the lake, lines that are none, and what is to be forwarded.

Called by `controlplane.pipeline.ingest.ingest_job` for every partition; everything is written on the executor, and the driver
gets back a few words on it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from controlplane.lake import wire_events as events
from controlplane.lake.deduplication import drop_stored_rows
from controlplane.lake.folders import LakeFolder
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import LakeManifest, Part
from controlplane.lake.rows import LakeRowBuilder
from controlplane.lake.staging import Staging
from controlplane.pipeline.ingest import forwarding
from controlplane.pipeline.ingest.forwarding import PendingEvent

RESULT_SCHEMA = pa.schema([("told", pa.string())])
RESULT_DDL = "told string"
#: Rows of all tables that are in memory at once.
MAX_BUFFERED_ROWS = 50_000
#: Bytes of lines to be forwarded, and of lines put aside, that are in memory at once.
MAX_BUFFERED_BYTES = 32 * 1024 * 1024
REJECTED_FOLDER = "_rejected"
#: Of a line that is none, so much is kept.
MAX_REJECTED_LINE_BYTES = 64 * 1024


@dataclass(frozen=True)
class PartitionResult:
    """What became of a share, or of all shares of a batch together. `arrived`: Unix seconds, the batch's own."""

    parts: tuple[Part, ...] = ()
    outboxes: tuple[str, ...] = ()
    events: int = 0
    malformed: int = 0
    #: Reports that the lake had already, by another way or long ago.
    duplicates: int = 0
    arrived: float = 0.0

    def plus(self, other: PartitionResult) -> PartitionResult:
        return PartitionResult(
            self.parts + other.parts,
            self.outboxes + other.outboxes,
            self.events + other.events,
            self.malformed + other.malformed,
            self.duplicates + other.duplicates,
            max(self.arrived, other.arrived),
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=str)

    @staticmethod
    def of_json(text: str) -> PartitionResult:
        told = json.loads(text)
        parts = [{**one, "date": datetime.fromisoformat(one["date"]).date()} for one in told.pop("parts")]
        outboxes = tuple(told.pop("outboxes"))
        return PartitionResult(tuple(Part(**one) for one in parts), outboxes, **told)


@dataclass
class _PartitionBuffer:
    """A share being written."""

    staging: Staging
    manifest: LakeManifest
    part: str
    forward: bool
    rows: LakeRowBuilder = field(default_factory=LakeRowBuilder)
    waiting: list[PendingEvent] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)
    told: PartitionResult = field(default_factory=PartitionResult)
    waiting_bytes: int = 0
    rejected_bytes: int = 0
    rejections: int = 0

    def take(self, agent: str | None, seq: int | None, line: bytes, origin: str, error: str | None) -> None:
        if error is None and agent is not None and seq is not None:
            error = self._add(line)
            self.told = replace(self.told, events=self.told.events + 1)
            if self.forward:
                self.waiting.append(PendingEvent(agent, seq, line))
                self.waiting_bytes += len(line)
        if error is not None:
            self.rejected.append({"origin": origin, "error": error, "line": rejected_text(line)})
            self.rejected_bytes += min(len(line), MAX_REJECTED_LINE_BYTES)
        if len(self.rows) >= MAX_BUFFERED_ROWS:
            self.flush()
        if self.waiting_bytes >= MAX_BUFFERED_BYTES:
            self._send()
        if self.rejected_bytes >= MAX_BUFFERED_BYTES:
            self._put_aside()

    def _add(self, line: bytes) -> str | None:
        try:
            events.add_event(self.rows, events.decode_line(line))
        except (ValueError, OverflowError, RecursionError) as error:
            return str(error)[:500] or "nested too deep"
        return None

    def flush(self) -> None:
        """Rows to files. What the lake has already is left out."""
        staging, part = self.staging, f"{self.part}-{len(self.told.parts):04d}"
        tables, known = drop_stored_rows(
            Lake(staging.folder), self.rows.take(), (staging.job, staging.batch), self.manifest
        )
        parts = [one for name, rows in tables.items() for one in staging.write(name, rows, part)]
        self.told = self.told.plus(PartitionResult(tuple(parts), duplicates=known))

    def _send(self) -> None:
        """Lines to be forwarded to an outbox; each is in order, and so are all together once they are read."""
        if not self.waiting:
            return
        outbox = f"{self.staging.path}/outbox-{self.part}-{len(self.told.outboxes):04d}.arrow"
        forwarding.write_outbox(self.staging.folder, outbox, self.waiting)
        self.told = self.told.plus(PartitionResult(outboxes=(outbox,)))
        self.waiting, self.waiting_bytes = [], 0

    def _put_aside(self) -> None:
        if not self.rejected:
            return
        write_rejected(self.staging.folder, self._aside(), self.rejected)
        self.told = self.told.plus(PartitionResult(malformed=len(self.rejected)))
        self.rejected, self.rejected_bytes, self.rejections = [], 0, self.rejections + 1

    def _aside(self) -> str:
        more = f"-{self.rejections:04d}" if self.rejections else ""
        return f"{self.staging.job}-{self.staging.batch}-{self.part}{more}"

    def close(self) -> PartitionResult:
        self.flush()
        self._send()
        self._put_aside()
        if (
            self.rejections
        ):  # an attempt before, which had the lines in another order, may have made one file more
            self.staging.folder.remove(f"{REJECTED_FOLDER}/{self._aside()}.ndjson")
        return self.told


def rejected_text(line: bytes) -> str:
    """Of a line that was not taken, as much as is kept."""
    return line[:MAX_REJECTED_LINE_BYTES].decode("utf-8", "replace")


def write_rejected(folder: LakeFolder, name: str, lines: Iterable[Mapping[str, str]]) -> None:
    """Put aside, by one file, what was not taken: `origin`, `error`, `line`. The same name replaces it."""
    text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in lines)
    folder.write(f"{REJECTED_FOLDER}/{name}.ndjson", text.encode("utf-8", "replace"))


Write = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def make_writer(staging: Staging, manifest: LakeManifest, forward: bool) -> Write:
    """What each executor does with its share: rows of `landing.PARSED` and `arrived` -> one line of TOLD."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        share = _PartitionBuffer(staging, manifest, f"{context.partitionId() if context else 0:05d}", forward)
        arrived = 0.0
        for batch in batches:
            if batch.num_rows:
                arrived = batch.column("arrived").cast(pa.int64())[0].as_py() / 1e6
            names = ("agent", "seq", "line", "origin", "error")
            for row in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
                share.take(*row)
        told = replace(share.close(), arrived=arrived)
        yield pa.RecordBatch.from_arrays([pa.array([told.to_json()], pa.string())], schema=RESULT_SCHEMA)

    return write
