"""One piece of an event log -> staged parts of the lake. Runs on executors, called by `importing`.

Memory stays flat: lines are streamed, reports become Arrow columns some thousand at a time, and these become files of
the lake before they are many. Nothing that is wrong with a file stops its neighbours.
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
from controlplane.lake.fields import duration_ms, integers, to_micros
from controlplane.lake.fields import end_micros as ended_at_micros
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import LakeManifest, Part
from controlplane.lake.rows import RAW_TABLES, REPORT_TABLES, LakeRowBuilder, Producer
from controlplane.lake.staging import Staging
from controlplane.pipeline.eventlogs.codecs import CorruptStream, TruncatedStream
from controlplane.pipeline.eventlogs.columnar_decoder import ProgressReport, ReportDecoder, ended_at
from controlplane.pipeline.eventlogs.discovery import EventLog
from controlplane.pipeline.eventlogs.event_parser import EventLogRecord, parse_line
from controlplane.pipeline.eventlogs.event_parser import parse_event as told
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

#: Rows, and bytes of their lines, that are gathered as Python values before they become Arrow columns.
MAX_BUFFERED_ROWS, MAX_BUFFERED_LINE_BYTES = 6_000, 32 << 20
#: Bytes of Arrow columns that are gathered before they are written.
MAX_COLUMN_BYTES = 64 << 20
#: So many reasons of one kind are told of one piece; the rest is counted.
MAX_REASONS = 3


@dataclass(frozen=True)
class LogSplit:
    """What one task reads: a file of a log, or a range of bytes of one. `stop` None: to its end."""

    log: EventLog
    staging: Staging
    place: int = 0
    start: int = 0
    stop: int | None = None
    hadoop: HadoopShell | None = None

    @property
    def size(self) -> int:
        return (self.log.files[self.place].size if self.stop is None else self.stop) - self.start

    @property
    def first(self) -> bool:
        return not self.place and not self.start


@dataclass
class SplitResult:
    """What became of a piece. `events`: how many of each kind; `known`: reports that the lake held already."""

    batch: str
    size: int
    parts: list[Part] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    duplicates: int = 0
    decoded_bytes: int = 0
    truncated: bool = False
    app: str | None = None
    spark_version: str | None = None
    problems: list[str] = field(default_factory=list)
    #: Why nothing of it may be committed: the file could not be read, or it is no event log.
    rejected: str | None = None
    #: Why no piece can be: the lake cannot be written.
    lake_error: str | None = None


def read_split(piece: LogSplit, held: LakeManifest | None) -> SplitResult:
    """Read a piece and stage its rows. `held`: what the lake holds, where it holds anything. Raises nothing."""
    outcome = SplitResult(piece.log.batch, piece.size)
    collecting = gc.isenabled()
    gc.disable()  # millions of values and no cycles: the collector costs a sixth of the time and finds nothing
    try:
        SplitReader(piece, held, outcome).read()
    except NotAnEventLog as error:
        outcome.rejected = str(error)
    except LakeError as error:
        outcome.lake_error = str(error)
    except Exception as error:  # of a file system, of a library: one file must not end the import
        text = " ".join(str(error).split())[:300]
        outcome.rejected = f"it cannot be read: {text or type(error).__name__}"
    finally:
        if collecting:
            gc.enable()
    return outcome


class SplitReader:
    """Reads one piece."""

    def __init__(self, piece: LogSplit, held: LakeManifest | None, outcome: SplitResult):
        self.piece, self.held, self.outcome = piece, held, outcome
        self.file = piece.log.files[piece.place]
        self.rows = LakeRowBuilder()
        self.reports: ReportDecoder  # made once it is known whose they are
        self.gathered: list[dict[str, pa.Table]] = []
        self.gathered_bytes = 0
        self.written = 0
        self.malformed: Counter[str] = Counter()
        #: How many reports took the fast way.
        self.quick = 0
        #: Run → its last report of those being gathered; → when its last report was made, Unix seconds.
        self.fresh: dict[str, ProgressReport] = {}
        self.last: dict[str, float] = {}
        self.line_bytes = 0

    def read(self) -> None:
        told_head, stream, base = self._opened()
        who = Producer(told_head.app or self.piece.log.app_id, told_head.spark_version, "log")
        self.outcome.app, self.outcome.spark_version = who.app, who.spark_version
        self.reports = ReportDecoder(who)
        walk = ScanState()
        try:
            for line in scan_lines(stream, walk, base, self.piece.start, self.piece.stop):
                self._take(line, who, told_head)
        except CorruptStream as error:
            self._damaged(self.file.name, error)
        self._end(walk, who, told_head)
        self._write()

    def _opened(self) -> tuple[LogHeader, Iterable[bytes], int]:
        """What the log's first file says at its begin, and the piece as chunks that begin at a place of its file."""
        piece, log = self.piece, self.piece.log
        first: Any = read_chunks(log.files[0], log.codecs[0], piece.hadoop)
        seen: list[bytes] = []
        try:
            told_head = read_header(_record(first, seen))
        except CorruptStream as error:
            if not seen:
                raise NotAnEventLog(f"it is no event log, or damaged from its first byte: {error}") from None
            self._damaged(log.files[0].name, error)
            told_head = LogHeader()
        if piece.first:
            return told_head, chain(seen, first), 0
        first.close()
        base = max(0, piece.start - NEARBY_BYTES)
        return told_head, read_chunks(self.file, log.codecs[piece.place], piece.hadoop, base), base

    def _damaged(self, name: str, error: CorruptStream) -> None:
        if isinstance(error, TruncatedStream):
            self.outcome.truncated = True
        else:
            self.outcome.problems.append(f"{name}: {error}; what came before is taken")

    def _take(self, line: Line, who: Producer, told_head: LogHeader) -> None:
        report = self.reports.add(line[0])
        if report is None:
            self._take_any(line, who, told_head)
        else:
            self.quick += 1
            self.fresh[report.runId] = report
        self.line_bytes += len(line[0])
        if (
            len(self.reports) + len(self.rows) >= MAX_BUFFERED_ROWS
            or self.line_bytes >= MAX_BUFFERED_LINE_BYTES
        ):
            self._gather()

    def _take_any(self, line: Line, who: Producer, told_head: LogHeader) -> None:
        """An event of any kind and shape."""
        try:
            event = told(parse_line(line[0]), self.piece.log.app_id)
            if event is not None:
                self.outcome.events[self._add(event, line, who, told_head)] += 1
        except (ValueError, TypeError, OverflowError) as error:
            self._malformed(str(error))
        except RecursionError:
            self._malformed("an event is nested too deep")

    def _malformed(self, why: str) -> None:
        self.outcome.events["malformed"] += 1
        self.malformed[why.partition(":")[0][:120]] += 1

    def _add(self, event: EventLogRecord, line: Line, who: Producer, told_head: LogHeader) -> str:
        """The rows of one event; its kind."""
        if event.report is not None:
            return "progress" if self._report(event, who) else "idle"
        at = _seconds(event.at)
        if at is None:  # before Spark 3.0 none but progress has a time, and the end of a run never has
            times = (nearest_time(line[1], line[2]), self._last_of(event.run_id or ""), told_head.started_at)
            at = max((one for one in times if one is not None), default=self.file.modified)
        self.rows.lifecycle(
            who,
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
        fresh = self.fresh.get(run_id)
        return self.last.get(run_id) if fresh is None else ended_at(fresh)

    def _report(self, event: EventLogRecord, who: Producer) -> bool:
        report = event.report or {}
        is_batch = self.rows.progress(who, report)
        began = to_micros(report.get("timestamp"))
        if began is not None and event.run_id:
            self.fresh.pop(event.run_id, None)
            took = duration_ms(report, integers(report, "durationMs", {}), {})
            self.last[event.run_id] = ended_at_micros(began, took) / 1e6
        return is_batch

    def _end(self, walk: ScanState, who: Producer, told_head: LogHeader) -> None:
        """What is to be said of the whole piece, once its lines are through."""
        if walk.torn.startswith(b"{"):
            try:
                parse_line(walk.torn)  # only its end of line is missing
                self._take((walk.torn, b"", 0), who, told_head)
            except ValueError:
                self.outcome.truncated = True
        elif walk.torn:
            self.outcome.truncated = True
        self.outcome.decoded_bytes = walk.read
        if self.quick:
            self.outcome.events["progress"] += self.quick
        problems = self.outcome.problems
        if walk.too_long:
            problems.append(f"{self.file.name}: {walk.too_long} lines are too long and were passed over")
        for reason, times in self.malformed.most_common(MAX_REASONS):
            problems.append(f"{self.file.name}: {times} events are malformed: {reason}")

    # -- writing ---------------------------------------------------------------------------------

    def _gather(self) -> None:
        self.last.update((run_id, ended_at(report)) for run_id, report in self.fresh.items())
        self.fresh, self.line_bytes = {}, 0
        # What is odd mostly came first: a run's first batch is.
        for gathered in (self.rows, self.reports):
            if len(gathered):
                tables = gathered.take()
                self.gathered.append(tables)
                self.gathered_bytes += sum(table.nbytes for table in tables.values())
        if self.gathered_bytes >= MAX_COLUMN_BYTES:
            self._write()

    def _write(self) -> None:
        if len(self.rows) or len(self.reports):
            self._gather()
        if not self.gathered:
            return
        told = {name: [one[name] for one in self.gathered if name in one] for name in RAW_TABLES}
        tables = {name: _concatenate(name, some) for name, some in told.items() if some}
        self.gathered, self.gathered_bytes = [], 0
        staging = self.piece.staging
        if self.held is not None:
            lake = Lake(staging.folder)
            tables, known = drop_stored_rows(lake, tables, (staging.job, staging.batch), self.held)
            self.outcome.duplicates += known
        name = f"{self.piece.place}-{self.piece.start}-{self.written}"
        for table, rows in tables.items():
            self.outcome.parts += staging.write(table, rows, name)
        self.written += 1


def _concatenate(name: str, tables: list[pa.Table]) -> pa.Table:
    return merge_sorted(tables, "query_id") if name in REPORT_TABLES else pa.concat_tables(tables)


def _record(stream: Iterator[bytes], seen: list[bytes]) -> Iterator[bytes]:
    for chunk in stream:
        seen.append(chunk)
        yield chunk


def _seconds(moment: Any) -> float | None:
    """RFC 3339 text or Unix seconds -> Unix seconds, or None where it is no time that a file can hold."""
    found = to_micros(moment)
    return None if found is None else found / 1e6
