"""The ingest job: a stream of events to the lake and to a server's store, each event once, whatever is
killed.

Called by `controlplane history ingest`. Steps: files or Kafka → lines → keys → deduplication (state by
arrival time, so nothing is late) → parts of the lake and outboxes, on the executors → the server → the lake's
commit. A repeated batch has the same lines, state and name, so it replaces itself.

Events outside of the state's window, and those of other jobs, are deduplicated against the lake
(`controlplane.lake.deduplication`).
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from controlplane.errors import ControlPlaneError, LakeError
from controlplane.lake.deduplication import conflict_check
from controlplane.lake.lake import Lake
from controlplane.lake.manifest import LakeManifest
from controlplane.lake.staging import Staging
from controlplane.pipeline.ingest import damaged_files, forwarding, landing_zone, partition_writer
from controlplane.pipeline.ingest.forwarding import Forwarder
from controlplane.pipeline.ingest.landing_zone import IngestSource
from controlplane.pipeline.ingest.partition_writer import PartitionResult, rejected_text
from controlplane.pipeline.runtime.session import error_line
from listeners.delivery.backoff import Backoff

JOB = "ingest"
QUERY_NAME = "history-ingest"
#: Time for the current trigger to end after a stop is requested.
DRAIN_TIMEOUT_SECONDS = 30.0
POLL_SECONDS = 0.2
MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 60.0
#: Attempts of a run with `--available-now`.
MAX_ATTEMPTS = 3
#: Error text of a batch that the job's own stop interrupted. Spark distinguishes a stop from a failure by
#: this text, with a pattern that recurses for each character: on py4j's real message of several pages the
#: thread overflows its stack.
INTERRUPTED_MESSAGE = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling the batch\n: java.lang.InterruptedException"
)
#: Reasons for rejection by the server that are logged per batch; all are stored.
MAX_REASONS = 5
#: Settings of the stream's session. Without the third, an empty batch would follow each batch to move the
#: watermark.
SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # A line may have a megabyte: limited by rows alone, ten thousand of them would be passed to Python at
    # once.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 * 1024 * 1024),
}

Log = Callable[[str], None]


class CheckpointRewound(LakeError):
    """The checkpoint is older than the lake's data of this stream."""


class BatchLimitReached(ControlPlaneError):
    """The run has processed its maximum number of batches."""


class BatchFailed(ControlPlaneError):
    """One line for Spark why a batch failed. `MicroBatches.last_error` has the details."""


class IngestFailed(ControlPlaneError):
    """The stream failed on every attempt."""

    status, code = 503, "ingest_failed"


@dataclass(frozen=True)
class IngestPlan:
    """Configuration of a stream. `every`: seconds between triggers; None: available data only."""

    source: IngestSource
    checkpoint: str
    window_seconds: float
    every: float | None


@dataclass(frozen=True)
class IngestSummary:
    """Counts of a run."""

    batches: int = 0
    events: int = 0
    rows: int = 0
    malformed: int = 0
    duplicates: int = 0
    rejected: int = 0


def deduplicate(lines: DataFrame, window_seconds: float) -> DataFrame:
    """Lines → events, each once within the window by arrival time, which is the same when a batch is
    repeated.
    """
    return (
        lines.mapInArrow(landing_zone.parse_batches, landing_zone.PARSED_DDL)
        .withColumn("arrived", F.current_timestamp())
        .withWatermark("arrived", f"{max(1, round(window_seconds))} seconds")
        .dropDuplicatesWithinWatermark(["key"])
    )


class MicroBatches:
    """Processes each batch, on a thread of Spark's. `last_error`: why the last one failed."""

    def __init__(self, lake: Lake, window_seconds: float, forwarder: Forwarder | None, log: Log):
        self._lake, self._window, self._forwarder, self._log = lake, window_seconds, forwarder, log
        self.last_error: Exception | None = None
        self.totals = IngestSummary()
        #: Maximum number of batches; the next one ends the stream and is repeated by the next run.
        self.max_batches: int | None = None
        #: The stream is being stopped: a failure now is an interruption.
        self.stopped = False

    def __call__(self, batch: DataFrame, number: int) -> None:
        try:
            self.last_error = None
            if self.max_batches is not None and self.totals.batches >= self.max_batches:
                raise BatchLimitReached("the batch limit of this run is reached")
            self._take(batch, number)
        except Exception as error:
            self.last_error = error
            message = INTERRUPTED_MESSAGE if self.stopped else error_line(error)
            raise BatchFailed(message).with_traceback(error.__traceback__) from None

    def _take(self, batch: DataFrame, number: int) -> None:
        stream = _stream_name(batch.sparkSession)
        staging = self._lake.stage(JOB, f"{stream}-{number:012d}")
        # Read after staging: a later change of this batch's own files makes the commit fail.
        held = self._lake.manifest()
        manifest = foreign_commits(held, stream, number, time.time() - self._window)
        try:
            result = self._written(batch, staging, manifest)
            refused = self._forward(result, staging.batch)
            facts = {"arrived_at": result.arrived, "events": result.events, "malformed": result.malformed}
            check = conflict_check(self._lake, staging, result.parts, held)
            self._lake.commit(staging, result.parts, facts, check=check)
        except Exception:
            self._lake.folder.remove(staging.path)
            raise
        self._note(number, result, refused)

    def _written(self, batch: DataFrame, staging: Staging, manifest: LakeManifest) -> PartitionResult:
        write = partition_writer.make_writer(staging, manifest, self._forwarder is not None)
        result = PartitionResult()
        for row in batch.mapInArrow(write, partition_writer.RESULT_DDL).collect():
            result = result.plus(PartitionResult.of_json(row[0]))
        return result

    def _forward(self, result: PartitionResult, name: str) -> int:
        if self._forwarder is None:
            return 0
        refused = self._forwarder.forward(forwarding.read_outboxes(self._lake.folder, result.outboxes))
        for why, events in Counter(item.why for item in refused).most_common(MAX_REASONS):
            self._log(f"the server rejected {events} events permanently: {why}")
        if refused:
            lines = (
                {"origin": "the server", "error": item.why, "line": rejected_text(item.line)}
                for item in refused
            )
            partition_writer.write_rejected(self._lake.folder, f"{JOB}-{name}-server", lines)
        return len(refused)

    def report_damaged(self, files: Sequence[str]) -> None:
        """Log and record files that cannot be read to their end."""
        for file in files:
            self._log(f"{file} is {damaged_files.DAMAGED_REASON}")
        damaged_files.record_damaged(self._lake.folder, files)

    def _note(self, number: int, result: PartitionResult, rejected: int) -> None:
        rows, done = sum(part.rows for part in result.parts), self.totals
        self.totals = IngestSummary(
            done.batches + 1,
            done.events + result.events,
            done.rows + rows,
            done.malformed + result.malformed,
            done.duplicates + result.duplicates,
            done.rejected + rejected,
        )
        more = [
            f", {count} {what}"
            for count, what in (
                (
                    result.malformed,
                    f"malformed (kept in {self._lake.folder.absolute(partition_writer.REJECTED_FOLDER)})",
                ),
                (result.duplicates, "reports already in the lake"),
                (rejected, "rejected by the server (kept there too)"),
            )
            if count
        ]
        self._log(f"batch {number}: {result.events} events, {rows} rows{''.join(more)}")


def foreign_commits(manifest: LakeManifest, stream: str, number: int, since: float) -> LakeManifest:
    """The commits to deduplicate against: without this stream's own batches that arrived after `since`.

    The stream's state covers those. CheckpointRewound where the lake has later batches of this stream.
    """
    own = {key for key in manifest.commits if key[0] == JOB and key[1].startswith(f"{stream}-")}
    newest = max((int(batch.rpartition("-")[2]) for _, batch in own), default=-1)
    if newest > number:
        raise CheckpointRewound(
            f"the lake has batch {newest} of this stream, but the checkpoint is at batch {number}: the checkpoint "
            "was set back. Use a new checkpoint folder; events that the lake already has are skipped"
        )
    kept = {
        key: commit
        for key, commit in manifest.commits.items()
        if key not in own or float(commit.facts.get("arrived_at") or 0.0) < since
    }
    return LakeManifest(kept)


def _stream_name(session: SparkSession) -> str:
    """A short name of the stream, constant for its checkpoint."""
    query_id = session.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not query_id:
        raise IngestFailed("Spark does not report the id of the query")
    return hashlib.blake2b(query_id.encode(), digest_size=5).hexdigest()


def stream_session(session: SparkSession) -> SparkSession:
    """A new session of the same application with the stream's settings."""
    own = session.newSession()
    for name, value in SETTINGS.items():
        own.conf.set(name, value)
    cores = session.sparkContext.defaultParallelism
    own.conf.set("spark.sql.shuffle.partitions", str(max(2, min(64, cores))))
    return own


def run_stream(
    session: SparkSession,
    plan: IngestPlan,
    batches: MicroBatches,
    stopping: threading.Event,
    log: Log,
    backoff: Backoff | None = None,
) -> IngestSummary:
    """Run until `stopping` is set, or until all available data is processed. A failed stream is restarted.

    ControlPlaneError where it cannot be started, or where a restart would not help.
    """
    stream = deduplicate(landing_zone.read_lines(session, plan.source), plan.window_seconds)
    runner = _StreamRunner(session, stream, plan, batches, stopping, log)
    backoff, attempts, ignore_damaged = backoff or Backoff(MIN_RETRY_SECONDS, MAX_RETRY_SECONDS), 0, False
    while not stopping.is_set():
        done = batches.totals.batches
        last_error = runner.run_once(ignore_damaged)
        if last_error is None:
            if ignore_damaged and not stopping.is_set():
                ignore_damaged = False
                continue
            break
        damaged = None if ignore_damaged else landing_zone.damaged_file(last_error)
        ignore_damaged = damaged is not None
        if damaged is not None:
            batches.report_damaged(damaged_files.find_damaged(session, plan.checkpoint, damaged))
            continue
        if batches.totals.batches > done:
            attempts = 0
            backoff.reset()
        attempts += 1
        if isinstance(batches.last_error, CheckpointRewound):
            raise batches.last_error
        if _application_ended(session):
            raise IngestFailed(
                "the Spark application has ended. Nothing is lost: the next run repeats the batch"
            )
        if plan.every is None and attempts >= MAX_ATTEMPTS:
            raise IngestFailed(
                f"ingest with the checkpoint {plan.checkpoint} failed: {_error_line(last_error)}"
            )
        if not stopping.is_set():
            wait = backoff.next(getattr(batches.last_error, "retry_after", None))
            log(f"the stream failed and restarts in {wait:.0f} s: {_error_line(last_error)}")
            stopping.wait(wait)
    return batches.totals


@dataclass(frozen=True)
class _StreamRunner:
    """Starts the stream, once per `run_once`."""

    session: SparkSession
    stream: DataFrame
    plan: IngestPlan
    batches: MicroBatches
    stopping: threading.Event
    log: Log

    def run_once(self, ignore_damaged: bool) -> str | None:
        """Run the stream; None when it ended as requested, else the error.

        `ignore_damaged`: skip files that cannot be read to their end. For one batch only: Spark does not
        report which they were.
        """
        for name in ("Corrupt", "Missing"):
            self.session.conf.set(f"spark.sql.files.ignore{name}Files", str(ignore_damaged).lower())
        self.batches.last_error, self.batches.stopped = None, False
        self.batches.max_batches = self.batches.totals.batches + 1 if ignore_damaged else None
        try:
            query = self._started()
            self.log(f"ingesting from {self.plan.source.path or self.plan.source.format}")
            while query.isActive:
                if self.stopping.wait(POLL_SECONDS):
                    _drain(query, self.batches)
                    return None
            query.awaitTermination()
        except (PySparkException, Py4JJavaError) as error:
            enough = isinstance(self.batches.last_error, BatchLimitReached)
            return None if enough else str(self.batches.last_error or error)
        unasked = self.plan.every is not None and not self.stopping.is_set()
        return "the stream ended by itself" if unasked else None

    def _started(self) -> Any:
        every = self.plan.every
        when: dict[str, Any] = (
            {"availableNow": True} if every is None else {"processingTime": f"{every:g} seconds"}
        )
        writer = self.stream.writeStream.foreachBatch(self.batches).queryName(QUERY_NAME)
        return writer.option("checkpointLocation", self.plan.checkpoint).trigger(**when).start()


def _application_ended(session: SparkSession) -> bool:
    """Whether the application has ended although Spark's process continues, as when a cluster ends it."""
    context: Any = session.sparkContext
    return bool(context._jsc.sc().isStopped())


def _drain(query: Any, batches: MicroBatches) -> None:
    """Let the current batch finish, then stop."""
    done, until = batches.totals.batches, time.monotonic() + DRAIN_TIMEOUT_SECONDS
    while query.isActive and query.status["isTriggerActive"] and batches.totals.batches == done:
        if time.monotonic() >= until:
            break
        time.sleep(POLL_SECONDS)
    batches.stopped = True
    query.stop()


def _error_line(text: str) -> str:
    """The first informative line: py4j's first line is generic."""
    lines = (line.strip().removeprefix(": ") for line in text.splitlines())
    informative = (line for line in lines if line and not line.startswith("An error occurred while calling"))
    return next(informative, "no reason was given")
