"""Benchmark `controlplane history import` against plain Spark that reads the same files as text.

The logs are multiplied from what real queries wrote in this run: once with their full mix of events, once
with streaming events only. Each copy has its own ids, times and figures, so that compression is realistic.
Both sides read all bytes in one session, on one core and on two; all processes are pinned to these cores,
driver and JVM included. The fastest of several attempts counts. The lake is measured as imported and after
compaction; worker memory for a quarter of the logs and for all.

    python bench/history.py [--quick]
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import platform
import random
import re
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ["PYTHONPATH"] = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))

import orjson  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

from controlplane.lake.lake import Lake  # noqa: E402
from controlplane.lake.rows import RAW_TABLES  # noqa: E402
from controlplane.pipeline.compaction import compact  # noqa: E402
from controlplane.pipeline.eventlogs.import_job import ImportRequest, import_logs  # noqa: E402
from controlplane.pipeline.runtime.session import get_session  # noqa: E402

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
MARK = b"StreamingQueryListener$QueryProgressEvent"
#: Also matches starts and terminations.
ANY_MARK = b"StreamingQueryListener$Query"
UUID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
#: Divides evenly between two cores.
LOGS = 16
MAX_CORES = 2
ALLOWED = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
RECORDING_SECONDS, QUICK_SECONDS, FULL_SECONDS = 300, 600, 3600


# -- the logs --------------------------------------------------------------------------------------


def recorded(folder: Path, batches: int) -> tuple[list[bytes], float]:
    """The lines of the event log of real queries: an aggregation in RocksDB, a deduplication, a plain one.

    And how many seconds they ran. Each query does so many batches, however slow the machine is.
    """
    folder.mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    }
    spark = get_session("bench-recorded", "local[2]", conf)
    from pyspark.sql import functions as f

    rate: Any = spark.readStream.format("rate").option("rowsPerSecond", 200).load()
    key = (f.col("value") % 7).alias("key")
    windows = rate.withWatermark("timestamp", "10 seconds").groupBy(f.window("timestamp", "5 seconds"), key)
    frames = {"windows": windows.count(), "once": rate.dropDuplicates(["value"]), "plain": rate.select(key)}
    for name, frame in frames.items():
        writer = frame.writeStream.queryName(name).outputMode("update" if name == "windows" else "append")
        writer.format("noop").option("checkpointLocation", str(folder.parent / f"checkpoint-{name}")).start()
    began = time.monotonic()
    while any(last_batch(query) < batches for query in spark.streams.active):
        if time.monotonic() - began > RECORDING_SECONDS:
            raise SystemExit(f"the queries did not do {batches} batches in {RECORDING_SECONDS} s")
        time.sleep(0.1)
    seconds = time.monotonic() - began
    if len(spark.streams.active) < len(frames):
        raise SystemExit("a query failed while it was recorded")
    for query in spark.streams.active:
        query.stop()
    spark.stop()
    (log,) = folder.iterdir()
    return log.read_bytes().splitlines(keepends=True), seconds


def last_batch(query: Any) -> int:
    return int(query.lastProgress["batchId"]) if query.lastProgress else -1


class Growing:
    """Writes logs as large as wanted, of recorded lines that come again with other ids, times and figures."""

    def __init__(self, lines: list[bytes], seconds: float, seed: int = 6):
        self.random = random.Random(seed)
        begin = next(
            place for place, line in enumerate(lines) if b"SparkListenerApplicationStart" in line[:60]
        )
        self.head, self.body = lines[: begin + 1], lines[begin + 1 : -1]
        #: A copy of what was recorded goes on where the one before it ended, as the same run.
        self.seconds = seconds
        self.streaming = [line for line in self.body if MARK in line[:120] and b'"sources":[{' in line]
        if not self.streaming:
            raise SystemExit("the recorded log holds no report of a batch")
        self.written = {"bytes": 0, "streaming_bytes": 0, "reports": 0}

    def grow(self, folder: Path, size: int, everything: bool, logs: int = LOGS) -> dict[str, int]:
        """So many logs of `size` bytes together; of all events or of progress alone. Counts of what was written."""
        folder.mkdir()
        self.written = dict.fromkeys(self.written, 0)
        for number in range(logs):
            name, size_limit = f"local-{1_790_000_000_000 + number}", size // logs
            with (folder / name).open("wb") as file:
                for line in self.lines(name, size_limit, everything):
                    file.write(line)
        return self.written

    def lines(self, name: str, size_limit: int, everything: bool) -> Iterator[bytes]:
        for line in self.head:
            document = json.loads(line)
            if document["Event"] == "SparkListenerApplicationStart":
                document["App ID"] = name
            yield json.dumps(document, separators=(",", ":")).encode() + b"\n"
        body, rounds, left = self.body if everything else self.streaming, 0, size_limit
        ids: dict[bytes, bytes] = {}
        while left > 0:
            for line in body:
                made = line
                if MARK in line[:120]:
                    made = self.changed(line, ids, rounds)
                elif ANY_MARK in line[:120]:
                    made = b"" if rounds else self.renamed(line, ids)  # the run goes on
                left -= len(made)
                self.written["bytes"] += len(made)
                yield made
                if left <= 0:
                    break
            rounds += 1

    def renamed(self, line: bytes, ids: dict[bytes, bytes]) -> bytes:
        """The line with ids of this log's own."""
        return UUID.sub(
            lambda m: ids.setdefault(m[0], str(uuid.UUID(int=self.random.getrandbits(128))).encode()), line
        )

    def changed(self, line: bytes, ids: dict[bytes, bytes], rounds: int) -> bytes:
        """The report as another run would have made it."""
        document = orjson.loads(self.renamed(line, ids))
        report = document["progress"]
        moved = datetime.fromisoformat(report["timestamp"]) + timedelta(seconds=self.seconds * rounds)
        report["timestamp"] = moved.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        report["batchId"] += len(self.streaming) * rounds
        report["durationMs"] = self.jittered(report["durationMs"])
        report["batchDuration"] = self.scattered(report["batchDuration"])
        for source in report["sources"]:
            source["inputRowsPerSecond"] *= self.random.uniform(0.8, 1.25)
            source["processedRowsPerSecond"] *= self.random.uniform(0.8, 1.25)
            source["numInputRows"] = self.scattered(source["numInputRows"])
        for operator in report["stateOperators"]:
            operator.update(self.jittered({k: v for k, v in operator.items() if isinstance(v, int)}))
            operator["customMetrics"] = self.jittered(operator["customMetrics"])
        made = orjson.dumps(document) + b"\n"
        self.written["streaming_bytes"] += len(made)
        self.written["reports"] += 1
        return made

    def jittered(self, numbers: dict[str, int]) -> dict[str, int]:
        return {name: self.scattered(value) for name, value in numbers.items()}

    def scattered(self, value: int) -> int:
        return int(value * self.random.uniform(0.8, 1.25)) if value > 9 else value


# -- the two readers -------------------------------------------------------------------------------


def scanned(spark: Any, folder: Path) -> int:
    """All bytes of the files as text, by plain Spark."""
    from pyspark.sql import functions as f

    return int(spark.read.text(str(folder)).agg(f.sum(f.length("value"))).collect()[0][0])


def imported(spark: Any, folder: Path, lake: Path, quarter: bool = False) -> Any:
    """Into a lake of its own; all logs of the folder, or a quarter of them."""
    shutil.rmtree(lake, ignore_errors=True)
    logs = sorted(map(str, folder.iterdir()))
    wish = ImportRequest(tuple(logs[: len(logs) // 4])) if quarter else ImportRequest((str(folder),))
    account = import_logs(lambda: spark, Lake.open(str(lake), create=True), wish)
    if account.rejected or account.damaged:
        raise SystemExit(f"not all was imported: {(account.rejected + account.damaged)[0]}")
    return account


def seconds_of(act: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = act()
    return time.perf_counter() - began, answer


def held_to(cores: int, allowed: list[int]) -> None:
    """All our processes, and those that they will start, run on so many cores only; where Linux reports of them."""
    for process in ours():
        for thread in (process / "task").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # ended meanwhile
                os.sched_setaffinity(int(thread.name), allowed[:cores])


def workers() -> Iterator[Path]:
    """Our Python workers."""
    for process in ours():
        with contextlib.suppress(OSError):  # ended meanwhile
            command = (process / "cmdline").read_bytes().split(b"\0")
            if command[1:2] == [b"-m"] and command[2].endswith(b"daemon"):  # the JVM's names it too
                yield process


def ours() -> Iterator[Path]:
    """This process and all that descend from it: other sessions of Spark may run here."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile
            ancestor = process
            while ancestor.name not in ("0", "1", str(os.getpid())):
                found = re.search(r"PPid:\s+(\d+)", (ancestor / "status").read_text())
                ancestor = ancestor.with_name(found[1] if found else "0")
            if ancestor.name == str(os.getpid()):
                yield process


def worker_peak_mb(act: Callable[[], Any]) -> float:
    """Most memory that one of our Python workers had meanwhile."""
    for process in workers():
        (process / "clear_refs").write_text("5")  # the peak begins anew
    act()
    peaks = (re.search(r"VmHWM:\s+(\d+) kB", (process / "status").read_text()) for process in workers())
    return max((int(peak[1]) / 1024 for peak in peaks if peak), default=0.0)


def measured(folders: dict[str, Path], warm: Path, lake: Path, cores: int, tries: int) -> dict[str, float]:
    """Seconds of both readers on so many cores, for each kind of logs."""
    spark = get_session("bench-history", f"local[{cores}]", {"spark.driver.memory": "1g"})
    held_to(cores, ALLOWED)
    scanned(spark, warm)
    imported(spark, warm, lake)
    figures: dict[str, float] = {}
    for kind, folder in folders.items():
        for _ in range(tries):
            for name, act in (
                ("scan", lambda at=folder: scanned(spark, at)),
                ("ours", lambda at=folder: imported(spark, at, lake)),
            ):
                took, _ = seconds_of(act)
                key = f"{kind}_{name}_{cores}_seconds"
                figures[key] = min(took, figures.get(key, took))
                print(f"{key} {took:.2f}", file=sys.stderr, flush=True)
        if cores == MAX_CORES:
            figures |= {f"{kind}_{name}": value for name, value in weighed(spark, folder, lake).items()}
    spark.stop()
    return figures


def weighed(spark: Any, folder: Path, lake: Path) -> dict[str, float]:
    """The memory that an import takes, and what its lake takes up."""
    figures: dict[str, float] = {}
    figures["worker_peak_of_a_quarter_mb"] = worker_peak_mb(lambda: imported(spark, folder, lake, True))
    figures["worker_peak_mb"] = worker_peak_mb(lambda: imported(spark, folder, lake))
    figures |= lake_bytes(lake)
    account = compact(Lake.open(str(lake)), time.time(), lambda: spark, today=True, min_files=2)
    if account.problems:
        raise SystemExit(f"the lake was not tidied: {account.problems[0]}")
    figures |= {f"tidied_{name}": value for name, value in lake_bytes(lake).items()}
    return figures


def lake_bytes(lake: Path) -> dict[str, int]:
    """Bytes of the raw tables, and how many of them are `extra`; reports."""
    whole = extra = reports = 0
    manifest = Lake.open(str(lake)).manifest()
    for table in RAW_TABLES:
        for part in manifest.parts(table):
            path = lake / part.path
            meta = pq.read_metadata(path)
            whole += path.stat().st_size
            reports += meta.num_rows if table == "progress" else 0
            for group in (meta.row_group(place) for place in range(meta.num_row_groups)):
                columns = (group.column(place) for place in range(group.num_columns))
                extra += sum(c.total_compressed_size for c in columns if c.path_in_schema == "extra")
    return {"lake_bytes": whole, "lake_extra_bytes": extra, "lake_reports": reports}


# -- the whole -------------------------------------------------------------------------------------


def ratios_of(figures: dict[str, float], kind: str) -> dict[str, float]:
    ours = {cores: figures[f"{kind}_ours_{cores}_seconds"] for cores in (1, 2)}
    scan = {cores: figures[f"{kind}_scan_{cores}_seconds"] for cores in (1, 2)}
    reported = figures[f"{kind}_streaming_bytes"]
    lakes = {}
    for name in ("lake", "tidied_lake"):
        whole, extra = figures[f"{kind}_{name}_bytes"], figures[f"{kind}_{name}_extra_bytes"]
        lakes[f"{name}_over_json_bytes"] = round(whole / reported, 4)
        lakes[f"{name}_without_extra_over_json_bytes"] = round((whole - extra) / reported, 4)
    peaks = figures[f"{kind}_worker_peak_mb"] / max(1.0, figures[f"{kind}_worker_peak_of_a_quarter_mb"])
    return lakes | {
        "peak_memory_over_that_of_a_quarter": round(peaks, 3),
        "ours_over_text_scan_seconds": round(ours[2] / scan[2], 3),
        "ours_over_text_scan_seconds_1_core": round(ours[1] / scan[1], 3),
        "our_scaling_over_scan_scaling": round((ours[1] / ours[2]) / (scan[1] / scan[2]), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="an eighth of the bytes, two tries")
    quick = parser.parse_args().quick
    size, logs, tries = (128 << 20, LOGS // 2, 2) if quick else (1 << 30, LOGS, 5)
    faulthandler.dump_traceback_later(QUICK_SECONDS if quick else FULL_SECONDS, exit=True)  # rather than hang
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        growing = Growing(*recorded(root / "recorded", 6 if quick else 40))
        growing.grow(root / "warm", 80 << 20, True, 4)  # several tasks: every worker is to be warm
        folders = {"mixed": root / "mixed", "streaming": root / "streaming"}
        for kind, folder in folders.items():
            written = growing.grow(folder, size, everything=kind == "mixed", logs=logs)
            figures |= {f"{kind}_{name}": value for name, value in written.items()}
        for cores in (1, MAX_CORES):
            figures |= measured(folders, root / "warm", root / "lake", cores, tries)
    for kind in folders:
        for lake in ("lake", "tidied_lake"):
            if figures[f"{kind}_{lake}_reports"] != figures[f"{kind}_reports"]:
                raise SystemExit(
                    f"{kind}: the {lake} holds {figures[f'{kind}_{lake}_reports']} reports, not all"
                )
    ratios = ratios_of(figures, "mixed") | {
        f"streaming_{name}": value for name, value in ratios_of(figures, "streaming").items()
    }
    figures = {name: round(value, 3) for name, value in figures.items()}
    machine = {"python": platform.python_version(), "cpus": os.cpu_count(), "machine": platform.machine()}
    print(json.dumps({"bench": "history", "machine": machine, "figures": figures, "ratios": ratios}))


if __name__ == "__main__":
    main()
