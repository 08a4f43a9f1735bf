"""The import: event logs -> the lake, one commit a log, on all cores that Spark has.

Called by `controlplane history import`. Logs that did not change since they were imported are not read again; one that
grew is read anew and replaces what it gave before, but what it tells no more is kept. Each log is committed as soon as
its last piece is read.
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
from controlplane.pipeline.eventlogs.split_reader import LogSplit, SplitResult
from controlplane.pipeline.eventlogs.split_reader import read_split as read
from controlplane.pipeline.runtime.session import SparkFailed, error_line
from controlplane.pipeline.runtime.worker_setup import freeze_loaded_objects

JOB = "import"
#: Plain files larger than this are read in ranges, by several cores at once.
RANGE_BYTES = 64 << 20
#: Pieces share a task until it has so many bytes, or so many pieces. To begin a task costs as much as reading some
#: ten MB, and one that is too large keeps the others waiting for it: each core is to have several.
MIN_TASK_BYTES, MAX_TASK_BYTES, MAX_TASK_SPLITS = 16 << 20, 128 << 20, 64
TASKS_PER_CORE = 4
POLL_SECONDS = 0.03


class NoFilesFound(LakeError):
    """None of the paths can be listed; the message says why, path by path."""


@dataclass(frozen=True)
class ImportProgress:
    """How far an import is. Bytes are those of the files; `seconds` since its begin."""

    logs: int
    of_logs: int
    bytes: int
    of_bytes: int
    events: int
    seconds: float

    @property
    def seconds_left(self) -> float | None:
        return (self.of_bytes - self.bytes) * self.seconds / self.bytes if self.bytes else None


@dataclass(frozen=True)
class ImportRequest:
    """What is asked of an import. `since`: Unix seconds, logs that nobody wrote to since then are left out."""

    paths: tuple[str, ...]
    since: float | None = None
    force: bool = False


@dataclass
class _PendingLog:
    """A log of which pieces are still to come."""

    log: EventLog
    pieces: list[LogSplit]
    outcomes: list[SplitResult] = field(default_factory=list)


Start = Callable[[], SparkSession]


def import_logs(
    start: Start, lake: Lake, wish: ImportRequest, show: Callable[[ImportProgress], None] = lambda _: None
) -> ImportSummary:
    """Bring the logs below `wish.paths` into the lake. NothingThere, LakeError, SparkFailed.

    `start` gives the session; it is asked for one only where there is something to do.
    """
    began = time.monotonic()
    files, named, gone = list_files(start, wish.paths)
    if not files:
        raise NoFilesFound("; ".join(map(str, gone)))
    logs, refused = find_logs(files, named)
    account = ImportSummary(str(lake.folder), found=len(logs), rejected=[*gone, *refused])
    with _lake_errors(lake):
        lake.recover(JOB)
        commit_stamps, held = lake.commit_stamps(JOB), lake.manifest()
    wanted = [log for log in logs if _is_wanted(log, held, wish, account)]
    by_hadoop = {log.batch for log in wanted if not _is_read_by_fsspec(log)}
    hadoop = _hadoop_shell(start()) if by_hadoop else None
    with _lake_errors(lake):
        opened = {
            log.batch: _PendingLog(log, _splits(lake, log, hadoop if log.batch in by_hadoop else None))
            for log in wanted
        }
    if opened:
        _ImportRun(start(), lake, held, commit_stamps, opened, account, show, began).go()
    account.seconds = time.monotonic() - began
    return account


@contextlib.contextmanager
def _lake_errors(lake: Lake) -> Iterator[None]:
    """A disk that is full or closed to us is the lake's trouble, in one line."""
    try:
        yield
    except OSError as error:
        raise LakeError(f"the lake at {lake.folder} cannot be written: {error}") from None


def _is_wanted(log: EventLog, held: LakeManifest, wish: ImportRequest, account: ImportSummary) -> bool:
    if wish.since is not None and log.modified < wish.since:
        account.too_old += 1
        return False
    before = held.get(JOB, log.batch)
    if before is not None and not wish.force and before.facts.get("files") == log.fingerprint:
        account.unchanged += 1
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
            LogSplit(log, staging, place, start, stop, hadoop)
            for start, stop in zip(starts, stops, strict=True)
        ]
    return made


def _hadoop_shell(spark: SparkSession) -> HadoopShell:
    """Hadoop's settings as the session has them, for those of its shells that read on executors."""
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    settings = {
        prefix + name: value
        for prefix in ("fs.", "dfs.", "hadoop.", "ha.")
        for name, value in conf.getPropsWithPrefix(prefix).items()
    }
    return HadoopShell(spark_home(), settings)


def group_into_tasks(pieces: Iterable[LogSplit], cores: int) -> list[list[LogSplit]]:
    """Pieces as tasks, the largest first, so that no core waits for a large one at the end."""
    largest_first = sorted(pieces, key=lambda one: -one.size)
    share = sum(piece.size for piece in largest_first) // (TASKS_PER_CORE * cores)
    most = min(MAX_TASK_BYTES, max(MIN_TASK_BYTES, share))
    made: list[list[LogSplit]] = []
    filling: list[LogSplit] = []
    room = most
    for piece in largest_first:
        if filling and (piece.size > room or len(filling) >= MAX_TASK_SPLITS):
            made.append(filling)
            filling, room = [], most
        filling.append(piece)
        room -= piece.size
    return [*made, filling] if filling else made


class _ResultAccumulator(AccumulatorParam[Any]):
    """Outcomes as tasks hand them in; the driver sees them while others still run."""

    def zero(self, value: Any) -> Any:
        return []

    def addInPlace(self, value1: Any, value2: Any) -> Any:
        value1.extend(value2)
        return value1


class _ImportRun:
    """One import under way."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        held: LakeManifest,
        commit_stamps: Mapping[str, Any],
        opened: dict[str, _PendingLog],
        account: ImportSummary,
        show: Callable[[ImportProgress], None],
        began: float,
    ):
        self.spark, self.lake, self.held, self.commit_stamps, self.opened = (
            spark,
            lake,
            held,
            commit_stamps,
            opened,
        )
        self.account, self.show, self.began = account, show, began
        self.total = sum(piece.size for one in opened.values() for piece in one.pieces)
        self.logs, self.events, self.bytes = len(opened), 0, 0
        self.runs = ImportedRuns()
        self.error: BaseException | None = None

    def go(self) -> None:
        outcomes = self.spark.sparkContext.accumulator([], _ResultAccumulator())
        job = threading.Thread(target=self._tasks, args=(outcomes,), name="import", daemon=True)
        job.start()
        seen = 0
        try:
            while True:
                alive = job.is_alive()
                news = outcomes.value[seen:]
                seen += len(news)
                for outcome in news:
                    self._settle(outcome)
                self.show(self._progress())
                if not alive and not news:
                    break
                job.join(POLL_SECONDS)
        except BaseException:
            self.spark.sparkContext.cancelAllJobs()
            self._leave()
            raise
        if self.error is not None:
            self._leave()
            raise SparkFailed(f"the import ended early: {error_line(self.error)}") from None

    def _tasks(self, outcomes: Any) -> None:
        """The job: every task hands in what became of its pieces."""
        pieces = (piece for one in self.opened.values() for piece in one.pieces)
        tasks = group_into_tasks(pieces, self.spark.sparkContext.defaultParallelism)
        live_parts = any(part.table in RAW_TABLES for part, _ in self.held.live_parts.values())
        held = self.spark.sparkContext.broadcast(self.held if live_parts else None)

        def work(bundle: Iterable[list[LogSplit]]) -> None:
            freeze_loaded_objects()
            for pieces in bundle:
                for piece in pieces:
                    outcomes.add([read(piece, held.value)])

        try:
            self.spark.sparkContext.parallelize(tasks, len(tasks)).foreachPartition(work)
        except BaseException as error:  # told by the main thread
            self.error = error

    def _settle(self, outcome: SplitResult) -> None:
        if outcome.lake_error:
            raise LakeError(outcome.lake_error)
        self.bytes += outcome.size
        self.events += outcome.events.total()
        one = self.opened[outcome.batch]
        one.outcomes.append(outcome)
        if len(one.outcomes) == len(one.pieces):
            self._commit(one)
            del self.opened[outcome.batch]

    def _commit(self, one: _PendingLog) -> None:
        log, outcomes, account = one.log, one.outcomes, self.account
        refused = next((outcome.rejected for outcome in outcomes if outcome.rejected), None)
        events: Counter[str] = sum((outcome.events for outcome in outcomes), Counter())
        if refused is not None:
            account.rejected.append(RejectedLog(log.path, refused))
            self.lake.folder.remove(one.pieces[0].staging.path)
            return
        problems = [*log.notes, *(text for outcome in outcomes for text in outcome.problems)]
        torn = any(outcome.truncated for outcome in outcomes)
        if torn and not log.in_progress:
            problems.append("its end is cut off")
        facts = {
            "log": log.path,
            "app_id": log.app_id,
            "attempt": log.attempt,
            "app": outcomes[0].app,
            "spark_version": outcomes[0].spark_version,
            "files": log.fingerprint,
            "events": dict(events),
            "problems": problems,
        }
        with _lake_errors(self.lake):
            try:
                parts = self._put(one, [part for outcome in outcomes for part in outcome.parts], facts)
            except FileNotFoundError as error:
                reason = f"another job merged files of it meanwhile, import it again: {error}"
                account.rejected.append(RejectedLog(log.path, reason))
                return
            except LakeError as error:  # what is staged stays: a commit that was begun is finished from it
                account.rejected.append(RejectedLog(log.path, str(error)))
                return
        account.read += 1
        account.in_progress += log.in_progress
        account.size += log.size
        account.decoded_bytes += sum(outcome.decoded_bytes for outcome in outcomes)
        account.duplicates += sum(outcome.duplicates for outcome in outcomes)
        account.events += events
        for part in parts:
            account.rows[part.table] += part.rows
        account.damaged += [RejectedLog(log.path, problem) for problem in problems]

    def _put(self, one: _PendingLog, read: list[Part], facts: dict[str, Any]) -> list[Part]:
        """Commit what was read of a log. The parts of it that are in the lake for that; `facts` gain what was kept."""
        lake, staging = self.lake, one.pieces[0].staging
        parts, known, runs = self.runs.once(lake, staging, read)
        untold, reports = retain_missing_rows(lake, staging, parts, self.held)
        if reports:
            facts["problems"].append(
                f"{reports} reports that it told before are gone from it: the lake keeps them"
            )
        # Thousands of logs: the manifest is read for a commit only where another job made one meanwhile.
        alone = lake.commit_stamps(JOB) == self.commit_stamps
        check = None if alone else conflict_check(lake, staging, parts, self.held)
        self.runs.note(runs, lake.commit(staging, [*parts, *untold], facts, check=check))
        self.account.duplicates += known
        return parts

    def _leave(self) -> None:
        """Take away what was staged of logs that were not read to their end: the disk may be full of it."""
        for one in self.opened.values():
            if len(one.outcomes) < len(one.pieces):
                with contextlib.suppress(OSError, LakeError):
                    self.lake.folder.remove(one.pieces[0].staging.path)

    def _progress(self) -> ImportProgress:
        done = self.logs - len(self.opened)
        return ImportProgress(
            done, self.logs, self.bytes, self.total, self.events, time.monotonic() - self.began
        )


def normalize_paths(arguments: Sequence[str]) -> tuple[str, ...]:
    """Paths as given, each once, without an end slash."""
    return tuple(dict.fromkeys(path.rstrip("/") or "/" for path in arguments))
