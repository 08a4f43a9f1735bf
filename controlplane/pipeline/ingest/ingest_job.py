"""Ingest: a stream of events to the lake, and on to a server's store. Each event once, whatever is killed when.

Called by `controlplane history ingest`. Files or Kafka -> lines -> keys -> without doubles (state, by the time of
arrival: nothing is ever late) -> parts of the lake and outboxes, on the executors -> the server -> the lake's commit.
A batch that is done again has the same lines, the same state and the same name, so it takes its own place.

Beyond the window of the state, and against other jobs, the lake itself is asked what it has (`controlplane.lake.deduplication`).
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
from controlplane.pipeline.ingest.partition_writer import PartitionResult
from controlplane.pipeline.ingest.partition_writer import rejected_text as kept
from controlplane.pipeline.runtime.session import error_line
from listeners.delivery.backoff import Backoff

JOB = "ingest"
QUERY_NAME = "history-ingest"
#: A trigger that is under way when we are told to stop gets so long to end.
DRAIN_TIMEOUT_SECONDS = 30.0
POLL_SECONDS = 0.2
MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 60.0
#: A run over what is there, not for ever, tries so often.
MAX_ATTEMPTS = 3
#: What a batch says that our own stop broke off. Spark tells a stop from a failure by this text, and by a pattern that
#: takes the thread's stack for each of its letters: by what py4j really says, pages of it, the thread dies.
INTERRUPTED_MESSAGE = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling the batch\n: java.lang.InterruptedException"
)
#: Of reasons why a server refuses events of a batch, so many are told; all are kept.
MAX_REASONS = 5
#: What the stream needs of its session. Empty batches that only move the watermark would be one more for each.
SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # A line may have a megabyte, and by rows alone ten thousand of them would be given to Python at once.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 * 1024 * 1024),
}

Log = Callable[[str], None]


class CheckpointRewound(LakeError):
    """The checkpoint is older than what the lake has of this stream."""


class BatchLimitReached(ControlPlaneError):
    """As many batches as were wanted are done."""


class BatchFailed(ControlPlaneError):
    """Why a batch was not done, as Spark is told it: in a line. `Batches.trouble` has all of it."""


class IngestFailed(ControlPlaneError):
    """The stream ended by an error, as often as it was tried."""

    status, code = 503, "ingest_failed"


@dataclass(frozen=True)
class IngestPlan:
    """What is asked of a stream. `every`: seconds between triggers; None: what is there, then end."""

    source: IngestSource
    checkpoint: str
    window_seconds: float
    every: float | None


@dataclass(frozen=True)
class IngestSummary:
    """What a run did."""

    batches: int = 0
    events: int = 0
    rows: int = 0
    malformed: int = 0
    duplicates: int = 0
    rejected: int = 0


def deduplicate(lines: DataFrame, window_seconds: float) -> DataFrame:
    """Lines -> events, each once within the window. By the time of arrival, which a batch done again has again."""
    return (
        lines.mapInArrow(landing_zone.parse_batches, landing_zone.PARSED_DDL)
        .withColumn("arrived", F.current_timestamp())
        .withWatermark("arrived", f"{max(1, round(window_seconds))} seconds")
        .dropDuplicatesWithinWatermark(["key"])
    )


class MicroBatches:
    """What is done with each batch; Spark calls it on a thread of its own. `trouble`: what it failed by last."""

    def __init__(self, lake: Lake, window_seconds: float, forwarder: Forwarder | None, say: Log):
        self._lake, self._window, self._forwarder, self._say = lake, window_seconds, forwarder, say
        self.trouble: Exception | None = None
        self.sum = IngestSummary()
        #: No more batches than these are taken; the next one ends the stream and is done again by its next life.
        self.most: int | None = None
        #: The stream is being stopped: what fails now was broken off.
        self.stopped = False

    def __call__(self, batch: DataFrame, number: int) -> None:
        try:
            self.trouble = None
            if self.most is not None and self.sum.batches >= self.most:
                raise BatchLimitReached("as many batches as were wanted")
            self._take(batch, number)
        except Exception as error:
            self.trouble = error
            told = INTERRUPTED_MESSAGE if self.stopped else error_line(error)
            raise BatchFailed(told).with_traceback(error.__traceback__) from None

    def _take(self, batch: DataFrame, number: int) -> None:
        stream = _stream_name(batch.sparkSession)
        staging = self._lake.stage(JOB, f"{stream}-{number:012d}")
        # After the staging: what becomes of this batch's own files from here on refuses the commit.
        held = self._lake.manifest()
        manifest = foreign_commits(held, stream, number, time.time() - self._window)
        try:
            told = self._written(batch, staging, manifest)
            refused = self._forward(told, staging.batch)
            facts = {"arrived_at": told.arrived, "events": told.events, "malformed": told.malformed}
            check = conflict_check(self._lake, staging, told.parts, held)
            self._lake.commit(staging, told.parts, facts, check=check)
        except Exception:
            self._lake.folder.remove(staging.path)
            raise
        self._note(number, told, refused)

    def _written(self, batch: DataFrame, staging: Staging, manifest: LakeManifest) -> PartitionResult:
        write = partition_writer.make_writer(staging, manifest, self._forwarder is not None)
        told = PartitionResult()
        for row in batch.mapInArrow(write, partition_writer.RESULT_DDL).collect():
            told = told.plus(PartitionResult.of_json(row[0]))
        return told

    def _forward(self, told: PartitionResult, name: str) -> int:
        if self._forwarder is None:
            return 0
        refused = self._forwarder.forward(forwarding.read_outboxes(self._lake.folder, told.outboxes))
        for why, events in Counter(one.why for one in refused).most_common(MAX_REASONS):
            self._say(f"the server refused {events} events for good: {why}")
        if refused:
            lines = ({"origin": "the server", "error": one.why, "line": kept(one.line)} for one in refused)
            partition_writer.write_rejected(self._lake.folder, f"{JOB}-{name}-server", lines)
        return len(refused)

    def miss(self, files: Sequence[str]) -> None:
        """Tell and keep that files cannot be read to their end."""
        for file in files:
            self._say(f"{file} is {damaged_files.DAMAGED_REASON}")
        damaged_files.record_damaged(self._lake.folder, files)

    def _note(self, number: int, told: PartitionResult, rejected: int) -> None:
        rows, done = sum(part.rows for part in told.parts), self.sum
        self.sum = IngestSummary(
            done.batches + 1,
            done.events + told.events,
            done.rows + rows,
            done.malformed + told.malformed,
            done.duplicates + told.duplicates,
            done.rejected + rejected,
        )
        more = [
            f", {count} {what}"
            for count, what in (
                (
                    told.malformed,
                    f"malformed (kept in {self._lake.folder.absolute(partition_writer.REJECTED_FOLDER)})",
                ),
                (told.duplicates, "reports that the lake had"),
                (rejected, "refused by the server (kept there too)"),
            )
            if count
        ]
        self._say(f"batch {number}: {told.events} events, {rows} rows{''.join(more)}")


def foreign_commits(manifest: LakeManifest, stream: str, number: int, since: float) -> LakeManifest:
    """What of the lake has to be asked about doubles: not this stream's own batches that arrived after `since`.

    The stream's state knows these. Rewound where the lake has later batches of this stream.
    """
    own = {key for key in manifest.commits if key[0] == JOB and key[1].startswith(f"{stream}-")}
    newest = max((int(batch.rpartition("-")[2]) for _, batch in own), default=-1)
    if newest > number:
        raise CheckpointRewound(
            f"the lake has batch {newest} of this checkpoint, which is at batch {number}: it was set back. "
            "Go on with a new checkpoint folder; what the lake has is then left out"
        )
    kept = {
        key: commit
        for key, commit in manifest.commits.items()
        if key not in own or float(commit.facts.get("arrived_at") or 0.0) < since
    }
    return LakeManifest(kept)


def _stream_name(session: SparkSession) -> str:
    """A short name of the stream, which it keeps as long as its checkpoint."""
    query_id = session.sparkContext.getLocalProperty("sql.streaming.queryId")
    if not query_id:
        raise IngestFailed("Spark does not tell the id of the query")
    return hashlib.blake2b(query_id.encode(), digest_size=5).hexdigest()


def stream_session(session: SparkSession) -> SparkSession:
    """A session of the same application with the settings that the stream needs."""
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
    say: Log,
    backoff: Backoff | None = None,
) -> IngestSummary:
    """Until `stopping` is set, or until all that is there is done. A stream that fails is started again.

    ControlPlaneError where it cannot be started, or where trying again would not help.
    """
    stream = deduplicate(landing_zone.read_lines(session, plan.source), plan.window_seconds)
    life = _StreamRunner(session, stream, plan, batches, stopping, say)
    backoff, tries, lenient = backoff or Backoff(MIN_RETRY_SECONDS, MAX_RETRY_SECONDS), 0, False
    while not stopping.is_set():
        done = batches.sum.batches
        trouble = life.live(lenient)
        if trouble is None:
            if lenient and not stopping.is_set():
                lenient = False
                continue
            break
        damaged = None if lenient else landing_zone.damaged_file(trouble)
        lenient = damaged is not None
        if damaged is not None:
            batches.miss(damaged_files.find_damaged(session, plan.checkpoint, damaged))
            continue
        if batches.sum.batches > done:
            tries = 0
            backoff.reset()
        tries += 1
        if isinstance(batches.trouble, CheckpointRewound):
            raise batches.trouble
        if _application_ended(session):
            raise IngestFailed(
                "Spark's application was ended: nothing is lost, the next run does the batch again"
            )
        if plan.every is None and tries >= MAX_ATTEMPTS:
            raise IngestFailed(f"ingest with the checkpoint {plan.checkpoint} ended: {_error_line(trouble)}")
        if not stopping.is_set():
            wait = backoff.next(getattr(batches.trouble, "retry_after", None))
            say(f"the stream failed and is started again in {wait:.0f} s: {_error_line(trouble)}")
            stopping.wait(wait)
    return batches.sum


@dataclass(frozen=True)
class _StreamRunner:
    """What every life of the stream needs."""

    session: SparkSession
    stream: DataFrame
    plan: IngestPlan
    batches: MicroBatches
    stopping: threading.Event
    say: Log

    def live(self, lenient: bool) -> str | None:
        """None when it ended as it should, else why not.

        `lenient`: files that cannot be read to their end are no error. That is for one batch only: Spark does not
        say which they were.
        """
        for name in ("Corrupt", "Missing"):
            self.session.conf.set(f"spark.sql.files.ignore{name}Files", str(lenient).lower())
        self.batches.trouble, self.batches.stopped = None, False
        self.batches.most = self.batches.sum.batches + 1 if lenient else None
        try:
            query = self._started()
            self.say(f"taking in from {self.plan.source.place or self.plan.source.form}")
            while query.isActive:
                if self.stopping.wait(POLL_SECONDS):
                    _drain(query, self.batches)
                    return None
            query.awaitTermination()
        except (PySparkException, Py4JJavaError) as error:
            enough = isinstance(self.batches.trouble, BatchLimitReached)
            return None if enough else str(self.batches.trouble or error)
        unasked = self.plan.every is not None and not self.stopping.is_set()
        return "it ended unasked" if unasked else None

    def _started(self) -> Any:
        every = self.plan.every
        when: dict[str, Any] = (
            {"availableNow": True} if every is None else {"processingTime": f"{every:g} seconds"}
        )
        writer = self.stream.writeStream.foreachBatch(self.batches).queryName(QUERY_NAME)
        return writer.option("checkpointLocation", self.plan.checkpoint).trigger(**when).start()


def _application_ended(session: SparkSession) -> bool:
    """Whether the application has ended though Spark's process goes on, as where a cluster ends it."""
    context: Any = session.sparkContext
    return bool(context._jsc.sc().isStopped())


def _drain(query: Any, batches: MicroBatches) -> None:
    """Let the batch that is under way end, then stop."""
    done, until = batches.sum.batches, time.monotonic() + DRAIN_TIMEOUT_SECONDS
    while query.isActive and query.status["isTriggerActive"] and batches.sum.batches == done:
        if time.monotonic() >= until:
            break
        time.sleep(POLL_SECONDS)
    batches.stopped = True
    query.stop()


def _error_line(text: str) -> str:
    """The first line that says something: py4j says first that something happened."""
    lines = (line.strip().removeprefix(": ") for line in text.splitlines())
    told = (line for line in lines if line and not line.startswith("An error occurred while calling"))
    return next(told, "no reason was given")
