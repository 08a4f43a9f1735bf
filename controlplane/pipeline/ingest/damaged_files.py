"""Find all damaged files of a failed batch; Spark names only one per failure.

Called by `controlplane.pipeline.ingest.ingest_job` before it repeats the batch without requiring complete
files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from controlplane.lake.folders import LakeFolder
from controlplane.pipeline.ingest import landing_zone, partition_writer

DAMAGED_REASON = "damaged or missing: its readable events were ingested, the rest is lost"
#: Paths are literal, whatever characters they contain. Spark's own read of the stream sets the same.
READ_OPTIONS = {"__globPaths__": "false", **landing_zone.LINE_READER_OPTIONS}


def find_damaged(spark: SparkSession, checkpoint: str, reported_path: str) -> list[str]:
    """All damaged files of the batch in progress, sorted. `reported_path`: the one in Spark's error.

    Only that one where the checkpoint does not list the others.
    """
    found = {unquote(reported_path)}
    try:
        candidates = set(_uncommitted_files(spark, checkpoint)) - found
        while candidates:
            item = _first_damaged(spark, sorted(candidates))
            if item is None:
                break
            found.add(item)
            candidates.discard(item)
    except (PySparkException, Py4JError, ValueError, KeyError):
        pass  # the reported file is returned in any case, and the batch continues
    return sorted(found)


def record_damaged(folder: LakeFolder, paths: Sequence[str]) -> None:
    """Write one line per file beside the rejected lines; the same files give the same name."""
    name = hashlib.sha256("\n".join(paths).encode("utf-8", "replace")).hexdigest()[:12]
    partition_writer.write_rejected(
        folder, f"files-{name}", ({"origin": path, "error": DAMAGED_REASON, "line": ""} for path in paths)
    )


def _uncommitted_files(spark: SparkSession, checkpoint: str) -> Iterable[str]:
    """Files that the stream has seen and not committed, from Spark's source log."""
    done = max(
        (int(name) for name, _ in _lines(spark, f"{checkpoint}/commits") if name.isdigit()), default=-1
    )
    until = -1
    for name, line in _lines(spark, f"{checkpoint}/offsets"):
        entry = json.loads(line) if line.startswith("{") else {}
        if name == str(done) and "logOffset" in entry:
            until = int(entry["logOffset"])
    for _, line in _lines(spark, f"{checkpoint}/sources/0"):
        if line.startswith("{"):
            entry = json.loads(line)
            if int(entry["batchId"]) > until:
                yield unquote(entry["path"])


def _lines(spark: SparkSession, folder: str) -> list[tuple[str, str]]:
    """File name and line of all files in a folder of the checkpoint; empty where it does not exist."""
    try:
        found = spark.read.text(folder).select(F.col("_metadata.file_name"), "value").collect()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return []
        raise
    return [(row[0], row[1]) for row in found]


def _first_damaged(spark: SparkSession, paths: list[str]) -> str | None:
    """One of the files that cannot be read to its end."""
    try:
        _text(spark, paths).count()
    except AnalysisException as error:
        gone = (error.getMessageParameters() or {}).get("path", "")
        return gone if error.getCondition() == "PATH_NOT_FOUND" and gone in paths else None
    except (PySparkException, Py4JError) as error:
        item = landing_zone.damaged_file(str(error))
        return unquote(item) if item is not None and unquote(item) in paths else None
    return None


def _text(spark: SparkSession, paths: list[str]) -> DataFrame:
    return spark.read.options(**READ_OPTIONS).text(paths)
