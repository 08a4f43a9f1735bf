"""The landing zone: a folder of event files, read as a stream of lines and decoded.

A file holds events as in `POST /api/v1/events`, one JSON object per line (NDJSON), plain, or gzip if its name
ends in `.gz`. It is complete as soon as it has its name: a writer writes under a name that begins with `.` or
`_` (never read), then renames. A name is never reused; subfolders are read too. Drivers whose
`CONTROLPLANE_URL` is `file:///FOLDER` write such files.

Called by `controlplane.pipeline.ingest.ingest_job`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from controlplane.errors import BadRequest
from controlplane.lake import wire_events
from controlplane.lake.folders import LakeFolder
from listeners.protocol.errors import WireError

#: A decoded line. `key`: equal for equal events; `error`: why the line is not an event.
PARSED = pa.schema(
    [
        ("key", pa.binary()),
        ("agent", pa.string()),
        ("seq", pa.int64()),
        ("line", pa.binary()),
        ("origin", pa.string()),
        ("error", pa.string()),
    ]
)
PARSED_DDL = "key binary, agent string, seq bigint, line binary, origin string, error string"
#: Spark silently skips files that are older than the newest file by this age. One file with a time in the
#: future would stop ingestion, and a file copied with its old time would never be read: so, practically
#: never.
MAX_FILE_AGE = "36500d"
#: Longer lines are skipped unread, so that a line without an end cannot exhaust the memory.
MAX_LINE_BYTES = 16 * 1024 * 1024
LINE_READER_OPTIONS = {"mapreduce.input.linerecordreader.line.maxlength": str(MAX_LINE_BYTES)}
NEVER_PARALLEL = "1000000"
KAFKA_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13"


#: Spark's error for a file that it cannot read, and the causes that a retry does not fix.
_FAILED = re.compile(r"\[FAILED_READ_FILE[^\]]*\] .*? reading file (.+?)\.(?:\s|$)")
_DAMAGED = re.compile(
    r"Caused by: [^\n]*(?:EOFException|ZipException|ChecksumException|DataFormatException|FileNotFoundException|gzip"
    r"|Too many bytes before newline"
    r"|(?:incorrect|invalid) (?:header|block|distance|stored|code|data|bit|literal|length|compression))"
    r"|FAILED_READ_FILE\.FILE_NOT_EXIST"
)


@dataclass(frozen=True)
class IngestSource:
    """Where lines come from. `format`: `text` (a landing zone at `path`) or `kafka` (by `options`)."""

    path: str
    format: str = "text"
    options: Mapping[str, str] = field(default_factory=dict)
    #: Maximum files per batch; None: unlimited.
    max_files: int | None = 1000
    #: Delete files once the batch that read them is committed.
    clean: bool = False


def read_lines(spark: SparkSession, source: IngestSource) -> DataFrame:
    """A stream of lines: `value` (bytes), `origin` (file or offset). BadRequest where Spark cannot
    read it.
    """
    if LakeFolder(source.path).is_local:
        # Listing a batch's files on the driver is faster here than by a Spark job.
        spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", NEVER_PARALLEL)
    reader = spark.readStream.format(source.format)
    for name, setting in {**_reader_options(source), **source.options}.items():
        reader = reader.option(name, setting)
    try:
        found = reader.load(source.path) if source.format == "text" else reader.load()
    except AnalysisException as error:
        raise BadRequest(_error_message(source, error)) from None
    if source.format == "text":
        origin = F.col("_metadata.file_path")
    else:
        origin = F.concat_ws("/", F.col("topic"), F.col("partition"), F.col("offset"))
    return found.select(found["value"].cast("binary").alias("value"), origin.alias("origin"))


def _reader_options(source: IngestSource) -> dict[str, str]:
    if source.format != "text":
        return {"startingOffsets": "earliest"}
    # Otherwise a new subfolder would be treated as a partition, and end the stream.
    wanted = {"maxFileAge": MAX_FILE_AGE, "recursiveFileLookup": "true", **LINE_READER_OPTIONS}
    if source.max_files is not None:
        wanted["maxFilesPerTrigger"] = str(source.max_files)
    return {**wanted, "cleanSource": "delete"} if source.clean else wanted


def _error_message(source: IngestSource, error: AnalysisException) -> str:
    text = str(error).strip().splitlines()[0]
    if "Failed to find data source" in text and source.format == "kafka":
        from pyspark import __version__

        return (
            "the Kafka connector is missing: start with "
            f"PYSPARK_SUBMIT_ARGS='--packages {KAFKA_PACKAGE}:{__version__} pyspark-shell'"
        )
    if error.getCondition() == "PATH_NOT_FOUND":
        return f"no landing zone at {source.path}: create the folder first"
    return f"{source.path or source.format} cannot be read: {text}"


def damaged_file(trouble: str) -> str | None:
    """The file whose content or absence made a batch fail; None where the cause may be temporary."""
    found = _FAILED.search(trouble)
    return found.group(1) if found and _DAMAGED.search(trouble) else None


def parse_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode lines by PARSED, on executors. A bad line becomes a row with an `error`; empty lines are
    skipped.
    """
    for batch in batches:
        lines, origins = batch.column(0).to_pylist(), batch.column(1).to_pylist()
        rows = [_row(line, origin) for line, origin in zip(lines, origins, strict=True) if line.strip()]
        columns = list(zip(*rows, strict=True)) or [()] * len(PARSED)
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, part.type) for column, part in zip(columns, PARSED, strict=True)], schema=PARSED
        )


def _row(line: bytes, origin: str) -> tuple[bytes, str | None, int | None, bytes, str, str | None]:
    try:
        event = wire_events.decode_line(line)
        return wire_events.deduplication_key(event), event.agent, event.seq, line, origin, None
    except (WireError, ValueError, RecursionError) as error:
        reason = str(error) or "nested too deeply"
    key = blake2b(line, digest_size=16, key=blake2b(origin.encode(), digest_size=32).digest()).digest()
    return key, None, None, line, origin, reason[:500]
