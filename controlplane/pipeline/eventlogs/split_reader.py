"""Read one split of an event log and stage its rows in the lake. Runs on executors; called by `import_job`.

Memory is bounded: lines are streamed, some thousand reports become Arrow columns at a time, and these are
written to the lake before they grow large. An error in one file does not affect others.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa

from controlplane.errors import LakeError
from controlplane.lake.arrays import merge_sorted
from controlplane.lake.deduplication import drop_stored_rows
from controlplane.lake.fields import duration_ms, end_micros, integers, to_micros
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import LakeManifest, Part
from controlplane.lake.rows import RAW_TABLES, REPORT_TABLES, LakeRowBuilder, Producer
from controlplane.lake.staging import Staging
from controlplane.pipeline.eventlogs.codecs import CorruptStream, TruncatedStream
from controlplane.pipeline.eventlogs.columnar_decoder import ProgressReport, ReportDecoder, ended_at
from controlplane.pipeline.eventlogs.discovery import EventLog
from controlplane.pipeline.eventlogs.event_parser import EventLogRecord, parse_event, parse_line
from controlplane.pipeline.eventlogs.file_reader import HadoopShell, read_chunks
from controlplane.pipeline.eventlogs.scanner import (
    NEARBY_BYTES,
    Line,
    LogHeader,
    NotAnEventLog,
    ScanState,
    nearest_time,
    read_header,
    scan_lines,
)
from controlplane.pipeline.eventlogs.split_progress import SplitProgress

#: Rows, and bytes of their lines, that are buffered as Python values before they become Arrow columns.
MAX_BUFFERED_ROWS, MAX_BUFFERED_LINE_BYTES = 6_000, 32 << 20
#: Bytes of Arrow columns that are buffered before they are written.
MAX_COLUMN_BYTES = 64 << 20
#: Reasons of one kind reported per split; the rest is counted.
MAX_REASONS = 3


@dataclass(frozen=True)
class LogSplit:
    """What one task reads: a file of a log, or a byte range of one. `stop` None: to the end of the file."""

    log: EventLog
    staging: Staging
    file_index: int = 0
    start: int = 0
    stop: int | None = None
    hadoop: HadoopShell | None = None

    @property
    def size(self) -> int:
        """Bytes of the split."""
        return (self.log.files[self.file_index].size if self.stop is None else self.stop) - self.start

    @property
    def name(self) -> str:
        """Identifies the split within its log."""
        return f"{self.file_index}-{self.start}"

    @property
    def first(self) -> bool:
        """Whether the split is the start of its log."""
        return not self.file_index and not self.start


@dataclass
class SplitResult:
    """Outcome of a split. `events`: counts by kind; `duplicates`: reports that the lake already held."""

    batch: str
    size: int
    path: str = ""  # of the split, below `_staging`
    parts: list[Part] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    duplicates: int = 0
    decoded_bytes: int = 0
    truncated: bool = False
    app: str | None = None
    spark_version: str | None = None
    problems: list[str] = field(default_factory=list)
    #: Why the log is rejected: the file is unreadable or not an event log.
    rejected: str | None = None
    #: Why the import fails: the lake cannot be written.
    lake_error: str | None = None


def read_split(split: LogSplit, held: LakeManifest | None) -> SplitResult:
    """Read a split and stage its rows; never raises. `held`: the lake's manifest, None where it is empty."""
    result = SplitResult(split.log.batch, split.size, f"{split.staging.path}/{split.name}")
    gc_enabled = gc.isenabled()
    gc.disable()  # millions of values, no cycles: collecting would take a sixth of the time
    try:
        SplitReader(split, held, result).read()
    except NotAnEventLog as error:
        result.rejected = str(error)
    except LakeError as error:
        result.lake_error = str(error)
    except Exception as error:  # errors of file systems and libraries: one file must not end the import
        text = " ".join(str(error).split())[:300]
        result.rejected = f"unreadable: {text or type(error).__name__}"
    finally:
        if gc_enabled:
            gc.enable()
    return result


def _uncounted(size: int) -> None:
    """Bytes that belong to another split."""


class SplitReader:
    """Reads one split."""

    def __init__(self, split: LogSplit, held: LakeManifest | None, result: SplitResult):
        self.split, self.held, self.result = split, held, result
        self.file = split.log.files[split.file_index]
        self.rows = LakeRowBuilder()
        self.reports: ReportDecoder  # created once the producer is known
        self.buffered: list[dict[str, pa.Table]] = []
        self.buffered_bytes = 0
        self.written = 0
        self.malformed: Counter[str] = Counter()
        #: Reports decoded by the fast path.
        self.fast_count = 0
        #: Run → its last buffered report; run → end of its last report, Unix seconds.
        self.pending_reports: dict[str, ProgressReport] = {}
        self.last_report_at: dict[str, float] = {}
        self.line_bytes = 0
        self.progress = SplitProgress(split.staging, split.name, self._event_count)

    def _event_count(self) -> int:
        return self.fast_count + self.result.events.total()

    def read(self) -> None:
        """Read all lines of the split and stage their rows."""
        header, stream, base = self._opened()
        producer = Producer(header.app or self.split.log.app_id, header.spark_version, "log")
        self.result.app, self.result.spark_version = producer.app, producer.spark_version
        self.reports = ReportDecoder(producer)
        state = ScanState()
        try:
            for line in scan_lines(stream, state, base, self.split.start, self.split.stop):
                self._take(line, producer, header)
        except CorruptStream as error:
            self._damaged(self.file.name, error)
        self._end(state, producer, header)
        self._write()

    def _opened(self) -> tuple[LogHeader, Iterable[bytes], int]:
        """The header of the log's first file, and the split as chunks with their base offset in its file."""
        split, log = self.split, self.split.log
        on_read = self.progress if split.first else _uncounted
        first: Any = read_chunks(log.files[0], log.codecs[0], split.hadoop, on_read=on_read)
        seen: list[bytes] = []
        try:
            header = read_header(_record(first, seen))
        except CorruptStream as error:
            if not seen:
                raise NotAnEventLog(f"not an event log, or damaged from its first byte: {error}") from None
            self._damaged(log.files[0].name, error)
            header = LogHeader()
        if split.first:
            return header, chain(seen, first), 0
        first.close()
        base = max(0, split.start - NEARBY_BYTES)
        codec = log.codecs[split.file_index]
        return header, read_chunks(self.file, codec, split.hadoop, base, self.progress), base

    def _damaged(self, name: str, error: CorruptStream) -> None:
        if isinstance(error, TruncatedStream):
            self.result.truncated = True
        else:
            self.result.problems.append(f"{name}: {error}; the events before the damage are imported")

    def _take(self, line: Line, producer: Producer, header: LogHeader) -> None:
        report = self.reports.add(line[0])
        if report is None:
            self._take_other(line, producer, header)
        else:
            self.fast_count += 1
            self.pending_reports[report.runId] = report
        self.line_bytes += len(line[0])
        if (
            len(self.reports) + len(self.rows) >= MAX_BUFFERED_ROWS
            or self.line_bytes >= MAX_BUFFERED_LINE_BYTES
        ):
            self._gather()

    def _take_other(self, line: Line, producer: Producer, header: LogHeader) -> None:
        """Parse an event of any kind and shape."""
        try:
            event = parse_event(parse_line(line[0]), self.split.log.app_id)
            if event is not None:
                self.result.events[self._add(event, line, producer, header)] += 1
        except (ValueError, TypeError, OverflowError) as error:
            self._malformed(str(error))
        except RecursionError:
            self._malformed("an event is nested too deeply")

    def _malformed(self, why: str) -> None:
        self.result.events["malformed"] += 1
        self.malformed[why.partition(":")[0][:120]] += 1

    def _add(self, event: EventLogRecord, line: Line, producer: Producer, header: LogHeader) -> str:
        """Add the rows of one event; return its kind."""
        if event.report is not None:
            return "progress" if self._report(event, producer) else "idle"
        at = _seconds(event.at)
        if at is None:  # before Spark 3.0 only progress events have a time, and a termination never has one
            times = (nearest_time(line[1], line[2]), self._last_of(event.run_id or ""), header.started_at)
            at = max((time for time in times if time is not None), default=self.file.modified)
        self.rows.lifecycle(
            producer,
            event.kind,
            at,
            event.query_id,
            event.run_id,
            event.name,
            event.exception,
            event.error_class,
            rest=event.rest,
        )
        return event.kind

    def _last_of(self, run_id: str) -> float | None:
        pending_reports = self.pending_reports.get(run_id)
        return self.last_report_at.get(run_id) if pending_reports is None else ended_at(pending_reports)

    def _report(self, event: EventLogRecord, producer: Producer) -> bool:
        report = event.report or {}
        is_batch = self.rows.progress(producer, report)
        began = to_micros(report.get("timestamp"))
        if began is not None and event.run_id:
            self.pending_reports.pop(event.run_id, None)
            took = duration_ms(report, integers(report, "durationMs", {}), {})
            self.last_report_at[event.run_id] = end_micros(began, took) / 1e6
        return is_batch

    def _end(self, state: ScanState, producer: Producer, header: LogHeader) -> None:
        """Handle an incomplete last line and summarize the split."""
        if state.torn.startswith(b"{"):
            try:
                parse_line(state.torn)  # only the newline is missing
                self._take((state.torn, b"", 0), producer, header)
            except ValueError:
                self.result.truncated = True
        elif state.torn:
            self.result.truncated = True
        self.result.decoded_bytes = state.read
        if self.fast_count:
            self.result.events["progress"] += self.fast_count
            self.fast_count = 0
        problems = self.result.problems
        if state.too_long:
            problems.append(
                f"{self.file.name}: {state.too_long} lines exceed the size limit and were skipped"
            )
        for reason, times in self.malformed.most_common(MAX_REASONS):
            problems.append(f"{self.file.name}: {times} events are malformed: {reason}")

    # -- writing ---------------------------------------------------------------------------------

    def _gather(self) -> None:
        self.progress(0)  # a well compressed file is read long before its events are
        self.last_report_at.update(
            (run_id, ended_at(report)) for run_id, report in self.pending_reports.items()
        )
        self.pending_reports, self.line_bytes = {}, 0
        # Rows of the general path come first: the first batch of a run takes it.
        for buffered in (self.rows, self.reports):
            if len(buffered):
                tables = buffered.take()
                self.buffered.append(tables)
                self.buffered_bytes += sum(table.nbytes for table in tables.values())
        if self.buffered_bytes >= MAX_COLUMN_BYTES:
            self._write()

    def _write(self) -> None:
        if len(self.rows) or len(self.reports):
            self._gather()
        if not self.buffered:
            return
        by_table = {name: [tables[name] for tables in self.buffered if name in tables] for name in RAW_TABLES}
        tables = {name: _concatenate(name, parts) for name, parts in by_table.items() if parts}
        self.buffered, self.buffered_bytes = [], 0
        staging = self.split.staging
        if self.held is not None:
            lake = Lake(staging.folder)
            tables, known = drop_stored_rows(lake, tables, (staging.job, staging.batch), self.held)
            self.result.duplicates += known
        name = f"{self.split.file_index}-{self.split.start}-{self.written}"
        for table, rows in tables.items():
            self.result.parts += staging.write(table, rows, name)
        self.written += 1


def _concatenate(name: str, tables: list[pa.Table]) -> pa.Table:
    return merge_sorted(tables, "query_id") if name in REPORT_TABLES else pa.concat_tables(tables)


def _record(stream: Iterator[bytes], seen: list[bytes]) -> Iterator[bytes]:
    for chunk in stream:
        seen.append(chunk)
        yield chunk


def _seconds(moment: Any) -> float | None:
    """RFC 3339 text or Unix seconds → Unix seconds; None where the time cannot be represented."""
    found = to_micros(moment)
    return None if found is None else found / 1e6
