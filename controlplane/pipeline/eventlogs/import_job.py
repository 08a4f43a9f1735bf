"""The import job: event logs to the lake, one commit per log, on all cores of the Spark application.

Called by `controlplane history import`. Logs that have not changed since their import are skipped. A log that
grew is read again and replaces its rows; rows that it no longer contains are kept. Each log is committed as
soon as its last split is read.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark import AccumulatorParam
from pyspark.sql import SparkSession

from controlplane.errors import LakeError
from controlplane.lake.deduplication import conflict_check
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import LakeManifest, Part
from controlplane.lake.rows import RAW_TABLES
from controlplane.pipeline.eventlogs.discovery import EventLog, RejectedLog, find_logs
from controlplane.pipeline.eventlogs.file_reader import HadoopShell, spark_home
from controlplane.pipeline.eventlogs.import_summary import ImportSummary
from controlplane.pipeline.eventlogs.listing import fsspec_supports, list_files, scheme_of
from controlplane.pipeline.eventlogs.reconcile import ImportedRuns, retain_missing_rows
from controlplane.pipeline.eventlogs.split_progress import WRITE_SECONDS, read_progress
from controlplane.pipeline.eventlogs.split_reader import LogSplit, SplitResult, read_split
from controlplane.pipeline.runtime.session import SparkFailed, error_line
from controlplane.pipeline.runtime.worker_setup import freeze_loaded_objects

JOB = "import"
#: Uncompressed files larger than this are read in ranges by several cores.
RANGE_BYTES = 64 << 20
#: Splits share a task up to this many bytes and splits. Starting a task costs as much as reading about ten
#: MB, and a large task delays the end of the job, so each core gets several.
MIN_TASK_BYTES, MAX_TASK_BYTES, MAX_TASK_SPLITS = 16 << 20, 128 << 20, 64
TASKS_PER_CORE = 4
POLL_SECONDS = 0.03
#: Up to this number of open logs the progress within their splits is read.
MAX_WATCHED_LOGS = 20


class NoFilesFound(LakeError):
    """None of the paths can be listed; the message gives the reason per path."""


@dataclass(frozen=True)
class ImportProgress:
    """Progress of an import. Bytes are those of the files; `seconds`: since the job began to read."""

    logs: int
    of_logs: int
    bytes: int
    of_bytes: int
    events: int
    seconds: float

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds left; None before the first byte."""
        return (self.of_bytes - self.bytes) * self.seconds / self.bytes if self.bytes else None


@dataclass(frozen=True)
class ImportRequest:
    """What to import. `since`: Unix seconds; logs last modified before are skipped."""

    paths: tuple[str, ...]
    since: float | None = None
    force: bool = False


@dataclass
class _PendingLog:
    """A log with splits still to be read."""

    log: EventLog
    pieces: list[LogSplit]
    results: list[SplitResult] = field(default_factory=list)


Start = Callable[[], SparkSession]


def import_logs(
    get_session: Start,
    lake: Lake,
    request: ImportRequest,
    on_progress: Callable[[ImportProgress], None] = lambda _: None,
) -> ImportSummary:
    """Import the logs below `request.paths`. Raises NoFilesFound, LakeError, SparkFailed.

    `get_session` is called only where there is work to do.
    """
    began = time.monotonic()
    files, named, gone = list_files(get_session, request.paths)
    if not files:
        raise NoFilesFound("; ".join(map(str, gone)))
    logs, refused = find_logs(files, named)
    summary = ImportSummary(str(lake.folder), found=len(logs), rejected=[*gone, *refused])
    with _lake_errors(lake):
        lake.recover(JOB)
        commit_stamps, held = lake.commit_stamps(JOB), lake.manifest()
    wanted = [log for log in logs if _is_wanted(log, held, request, summary)]
    hadoop_batches = {log.batch for log in wanted if not _is_read_by_fsspec(log)}
    hadoop = _hadoop_shell(get_session()) if hadoop_batches else None
    with _lake_errors(lake):
        opened = {
            log.batch: _PendingLog(log, _splits(lake, log, hadoop if log.batch in hadoop_batches else None))
            for log in wanted
        }
    if opened:
        _ImportRun(get_session(), lake, held, commit_stamps, opened, summary, on_progress).run()
    summary.seconds = time.monotonic() - began
    return summary


@contextlib.contextmanager
def _lake_errors(lake: Lake) -> Iterator[None]:
    """Report a full or read-only disk as LakeError."""
    try:
        yield
    except OSError as error:
        raise LakeError(f"the lake at {lake.folder} cannot be written: {error}") from None


def _is_wanted(log: EventLog, held: LakeManifest, request: ImportRequest, summary: ImportSummary) -> bool:
    if request.since is not None and log.modified < request.since:
        summary.too_old += 1
        return False
    before = held.get(JOB, log.batch)
    if before is not None and not request.force and before.facts.get("files") == log.fingerprint:
        summary.unchanged += 1
        return False
    return True


def _is_read_by_fsspec(log: EventLog) -> bool:
    scheme = scheme_of(log.path)
    return scheme == "file" or fsspec_supports(scheme)


def _splits(lake: Lake, log: EventLog, hadoop: HadoopShell | None) -> list[LogSplit]:
    staging = lake.stage(JOB, log.batch)
    made = []
    for place, file in enumerate(log.files):
        alone = log.codecs[place] or hadoop or file.size <= RANGE_BYTES * 3 // 2
        starts = [0] if alone else list(range(0, file.size, RANGE_BYTES))
        stops = [*starts[1:], None]
        made += [
            LogSplit(log, staging, place, get_session, stop, hadoop)
            for get_session, stop in zip(starts, stops, strict=True)
        ]
    return made


def _hadoop_shell(spark: SparkSession) -> HadoopShell:
    """A Hadoop shell for executors, with the session's file system settings."""
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    settings = {
        prefix + name: value
        for prefix in ("fs.", "dfs.", "hadoop.", "ha.")
        for name, value in conf.getPropsWithPrefix(prefix).items()
    }
    return HadoopShell(spark_home(), settings)


def group_into_tasks(pieces: Iterable[LogSplit], cores: int) -> list[list[LogSplit]]:
    """Group splits into tasks, largest first, so that no large split runs alone at the end."""
    largest_first = sorted(pieces, key=lambda pending: -pending.size)
    share = sum(piece.size for piece in largest_first) // (TASKS_PER_CORE * cores)
    max_bytes = min(MAX_TASK_BYTES, max(MIN_TASK_BYTES, share))
    made: list[list[LogSplit]] = []
    current: list[LogSplit] = []
    capacity = max_bytes
    for piece in largest_first:
        if current and (piece.size > capacity or len(current) >= MAX_TASK_SPLITS):
            made.append(current)
            current, capacity = [], max_bytes
        current.append(piece)
        capacity -= piece.size
    return [*made, current] if current else made


class _ResultAccumulator(AccumulatorParam[Any]):
    """Collects results; the driver sees them while other tasks run."""

    def zero(self, value: Any) -> Any:
        return []

    def addInPlace(self, value1: Any, value2: Any) -> Any:
        value1.extend(value2)
        return value1


class _ImportRun:
    """One import in progress."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        held: LakeManifest,
        commit_stamps: Mapping[str, Any],
        opened: dict[str, _PendingLog],
        summary: ImportSummary,
        on_progress: Callable[[ImportProgress], None],
    ):
        self.spark, self.lake, self.held, self.commit_stamps, self.opened = (
            spark,
            lake,
            held,
            commit_stamps,
            opened,
        )
        self.summary, self.on_progress = summary, on_progress
        self.began = time.monotonic()  # without the start of Spark, which does not count for the rate
        self.total = sum(piece.size for pending in opened.values() for piece in pending.pieces)
        self.logs, self.events, self.bytes = len(opened), 0, 0
        self.ended: set[str] = set()
        self.running, self.read_again_at = (0, 0), 0.0
        self.runs = ImportedRuns()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Run the Spark job and commit each log as its results arrive."""
        results = self.spark.sparkContext.accumulator([], _ResultAccumulator())
        job = threading.Thread(target=self._tasks, args=(results,), name="import", daemon=True)
        job.start()
        seen = 0
        try:
            while True:
                alive = job.is_alive()
                news = results.value[seen:]
                seen += len(news)
                for result in news:
                    self._handle_result(result)
                self.on_progress(self._progress())
                if not alive and not news:
                    break
                job.join(POLL_SECONDS)
        except BaseException:
            self.spark.sparkContext.cancelAllJobs()
            self._remove_staged()
            raise
        if self.error is not None:
            self._remove_staged()
            raise SparkFailed(f"the import job failed: {error_line(self.error)}") from None

    def _tasks(self, results: Any) -> None:
        """The Spark job: every task adds the results of its splits."""
        pieces = (piece for pending in self.opened.values() for piece in pending.pieces)
        tasks = group_into_tasks(pieces, self.spark.sparkContext.defaultParallelism)
        live_parts = any(part.table in RAW_TABLES for part, _ in self.held.live_parts.values())
        held = self.spark.sparkContext.broadcast(self.held if live_parts else None)

        def work(bundle: Iterable[list[LogSplit]]) -> None:
            freeze_loaded_objects()
            for pieces in bundle:
                for piece in pieces:
                    results.add([read_split(piece, held.value)])

        try:
            self.spark.sparkContext.parallelize(tasks, len(tasks)).foreachPartition(work)
        except BaseException as error:  # raised by the main thread
            self.error = error

    def _handle_result(self, result: SplitResult) -> None:
        if result.lake_error:
            raise LakeError(result.lake_error)
        self.bytes += result.size
        self.ended.add(result.path)
        self.events += result.events.total()
        pending = self.opened[result.batch]
        pending.results.append(result)
        if len(pending.results) == len(pending.pieces):
            self._commit(pending)
            del self.opened[result.batch]

    def _commit(self, pending: _PendingLog) -> None:
        log, results, summary = pending.log, pending.results, self.summary
        refused = next((result.rejected for result in results if result.rejected), None)
        events: Counter[str] = sum((result.events for result in results), Counter())
        if refused is not None:
            summary.rejected.append(RejectedLog(log.path, refused))
            self.lake.folder.remove(pending.pieces[0].staging.path)
            return
        problems = [*log.notes, *(text for result in results for text in result.problems)]
        torn = any(result.truncated for result in results)
        if torn and not log.in_progress:
            problems.append("the end of the log is truncated")
        facts = {
            "log": log.path,
            "app_id": log.app_id,
            "attempt": log.attempt,
            "app": results[0].app,
            "spark_version": results[0].spark_version,
            "files": log.fingerprint,
            "events": dict(events),
            "problems": problems,
        }
        with _lake_errors(self.lake):
            try:
                parts = self._put(pending, [part for result in results for part in result.parts], facts)
            except FileNotFoundError as error:
                reason = f"another job compacted its files meanwhile; import it again: {error}"
                summary.rejected.append(RejectedLog(log.path, reason))
                return
            except LakeError as error:  # staged files are kept: an interrupted commit is completed from them
                summary.rejected.append(RejectedLog(log.path, str(error)))
                return
        summary.read += 1
        summary.in_progress += log.in_progress
        summary.size += log.size
        summary.decoded_bytes += sum(result.decoded_bytes for result in results)
        summary.duplicates += sum(result.duplicates for result in results)
        summary.events += events
        for part in parts:
            summary.rows[part.table] += part.rows
        summary.damaged += [RejectedLog(log.path, problem) for problem in problems]

    def _put(self, pending: _PendingLog, read: list[Part], facts: dict[str, Any]) -> list[Part]:
        """Commit the rows read from a log and return their parts; retained rows are noted in `facts`."""
        lake, staging = self.lake, pending.pieces[0].staging
        parts, known, runs = self.runs.once(lake, staging, read)
        retained, reports = retain_missing_rows(lake, staging, parts, self.held)
        if reports:
            facts["problems"].append(
                f"{reports} reports of an earlier import are no longer in the log; the lake keeps them"
            )
        # With thousands of logs the manifest is compared only when another job has committed meanwhile.
        alone = lake.commit_stamps(JOB) == self.commit_stamps
        check = None if alone else conflict_check(lake, staging, parts, self.held)
        self.runs.note(runs, lake.commit(staging, [*parts, *retained], facts, check=check))
        self.summary.duplicates += known
        return parts

    def _remove_staged(self) -> None:
        """Remove the staged files of logs that were not read completely: the disk may be full of them."""
        for pending in self.opened.values():
            if len(pending.results) < len(pending.pieces):
                with contextlib.suppress(OSError, LakeError):
                    self.lake.folder.remove(pending.pieces[0].staging.path)

    def _progress(self) -> ImportProgress:
        done = self.logs - len(self.opened)
        read, events = self._running()
        read = min(self.total, self.bytes + read)
        seconds = time.monotonic() - self.began
        return ImportProgress(done, self.logs, read, self.total, self.events + events, seconds)

    def _running(self) -> tuple[int, int]:
        """Bytes and events that running tasks have read; (0, 0) while so many logs are open that these show it."""
        now = time.monotonic()
        if len(self.opened) > MAX_WATCHED_LOGS:
            return 0, 0
        if now >= self.read_again_at:
            staged = [pending.pieces[0].staging.path for pending in self.opened.values()]
            self.running = read_progress(self.lake.folder, staged, self.ended)
            self.read_again_at = now + WRITE_SECONDS
        return self.running


def normalize_paths(arguments: Sequence[str]) -> tuple[str, ...]:
    """The paths without duplicates and trailing slashes."""
    return tuple(dict.fromkeys(path.rstrip("/") or "/" for path in arguments))
