"""Benchmark a rollup: a generated day of 1 000 queries with a batch every 10 s, all widths at once; then
repeated.

The peer is DuckDB, computing the same quantiles over the same files on as many threads, without lag in
seconds, run activity and deduplication. Both start from files that were just written.

    python bench/rollup.py [--quick] [--queries N] [--cores 2]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402

from controlplane.lake.lake import Lake  # noqa: E402
from controlplane.lake.manifest import Part  # noqa: E402
from controlplane.lake.schema import arrow_schema  # noqa: E402
from controlplane.lake.staging import Staging  # noqa: E402

DAY = date(2026, 3, 4)
BATCHES, SECONDS = 8640, 10
#: Queries in one file.
IN_FILE = 50
WHOLE_SECONDS = 180


def table(name: str, count: int, columns: dict[str, Any]) -> pa.Table:
    """Rows of a table of the lake; what is not given is null."""
    schema = arrow_schema(name)
    made = [
        pa.nulls(count, field.type)
        if columns.get(field.name) is None
        else pa.array(columns[field.name]).cast(field.type)
        for field in schema
    ]
    return pa.table(made, schema=schema)


def repeated(texts: list[str], times: int) -> pa.Array:
    indices = np.repeat(np.arange(len(texts), dtype=np.int32), times)
    return pa.DictionaryArray.from_arrays(indices, texts).cast(pa.string())


def written(staging: Staging, first: int, queries: int, seed: int) -> list[Part]:
    """A day of so many queries: reports, their one source, and their one operator where they have state."""
    rng, count = np.random.default_rng(seed), queries * BATCHES
    names = [f"query_{first + query}" for query in range(queries)]
    begin = int(datetime(DAY.year, DAY.month, DAY.day, tzinfo=UTC).timestamp() * 1e6)
    at = np.tile(begin + np.arange(BATCHES) * SECONDS * 1_000_000, queries)
    rows = rng.poisson(np.repeat(rng.uniform(100, 10_000, queries), BATCHES)).astype(np.int64)
    waiting = np.maximum(rng.integers(-3_000, 1_000, count), 0)
    duration = rng.integers(500, 9_500, count)
    ends = np.cumsum(rows.reshape(queries, BATCHES), axis=1).ravel()
    state = np.cumsum(rng.integers(0, 3, (queries, BATCHES)), axis=1).ravel()
    batch = np.tile(np.arange(BATCHES, dtype=np.int64), queries)
    times = pa.array(at).cast(pa.timestamp("us", tz="UTC"))
    whose = {
        "app": repeated([f"app_{(first + query) // 10}" for query in range(queries)], BATCHES),
        "query_id": repeated(
            [f"{first + query:08x}-0000-4000-8000-{seed:012x}" for query in range(queries)], BATCHES
        ),
        "run_id": repeated(
            [f"{first + query:08x}-1111-4000-8000-{seed:012x}" for query in range(queries)], BATCHES
        ),
        "batch_id": batch,
        "trigger_at": times,
        "origin": repeated(["agent"], count),
    }
    rates = {"input_rows_per_second": rows / SECONDS, "processed_rows_per_second": rows / (duration / 1000)}
    report = {
        "name": repeated(names, BATCHES),
        "reported_at": times,
        "duration_ms": duration,
        "input_rows": rows,
        "output_rows": rows // 2,
        "lag_rows": waiting,
        "watermark": pa.array(at - 60_000_000).cast(pa.timestamp("us", tz="UTC")),
        "state_rows": state,
        "state_bytes": state * 120,
        "dropped_rows": np.zeros(count, np.int64),
        "spark_version": repeated(["4.3.0"], count),
    }
    source = {
        "source": np.zeros(count, np.int32),
        "description": repeated([f"KafkaV2[Subscribe[{name}]]" for name in names], BATCHES),
        "input_rows": rows,
        "end_total": ends.astype(float),
        "latest_total": (ends + waiting).astype(float),
        "lag_rows": waiting,
    }
    operator = {"operator": np.zeros(count, np.int32), "rows": state, "memory_bytes": state * 120}
    part = f"{first:05d}"
    return [
        *staging.write("progress", table("progress", count, {**whose, **rates, **report}), part),
        *staging.write("sources", table("sources", count, {**whose, **rates, **source}), part),
        *staging.write("state_operators", table("state_operators", count, {**whose, **operator}), part),
    ]


def a_day(url: str, queries: int) -> Lake:
    lake = Lake.open(url, create=True)
    staging = lake.stage("import", "bench")
    parts: list[Part] = []
    for first in range(0, queries, IN_FILE):
        parts += written(staging, first, min(IN_FILE, queries - first), first)
    lake.commit(staging, parts)
    return lake


def checked(lake: Lake, queries: int) -> None:
    """The totals are those of the raw rows, whichever width is asked."""
    import duckdb

    root = lake.folder.root
    (raw,) = duckdb.sql(
        f"select count(*), sum(input_rows), sum(duration_ms) from read_parquet('{root}/progress/*/*.parquet')"
    ).fetchall()
    for name, seconds in (("rollup_1m", 60), ("rollup_1h", 3600), ("rollup_1d", 86400)):
        (made,) = duckdb.sql(
            "select sum(batches), sum(input_rows), round(sum(busy_seconds) * 1000), count(*), sum(starts)"
            f" from read_parquet('{root}/{name}/*/*.parquet')"
        ).fetchall()
        assert made[:3] == raw, f"{name}: {made} of {raw}"
        assert made[3:] == (queries * 86400 // seconds, queries), f"{name}: {made}"


def peer_seconds(lake: Lake, cores: int) -> float:
    """Counts and the same exact quantiles of four columns by DuckDB, all widths."""
    import duckdb

    connection = duckdb.connect(config={"threads": cores})
    figures = ("duration_ms", "input_rows_per_second", "lag_rows", "state_rows")
    quantiles = ", ".join(f"quantile_cont({figure}, [0.1, 0.5, 0.9, 0.95])" for figure in figures)
    began = time.perf_counter()
    for width in ("minute", "hour", "day"):
        connection.sql(
            f"select query_id, date_trunc('{width}', trigger_at) as bucket, count(*), sum(input_rows), {quantiles}"
            f" from read_parquet('{lake.folder.root}/progress/*/*.parquet') group by all"
        ).to_arrow_table()
    return time.perf_counter() - began


def files(lake: Lake) -> dict[str, int]:
    held = (
        path for path in Path(lake.folder.root).rglob("*") if path.is_file() and "_locks" not in path.parts
    )
    return {str(path): path.stat().st_mtime_ns for path in held}


def peak_bytes() -> int:
    """Memory of the JVM and of Python's workers at their most, added up: Linux only."""
    total = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except (OSError, ValueError):
            continue
        if _is_ours(int(fields["Pid"])):
            total += int(fields.get("VmHWM", "0 kB").split()[0]) * 1024
    return total


def _is_ours(pid: int) -> bool:
    while pid > 1:
        if pid == os.getpid():
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False


def cpu_seconds() -> float:
    """CPU time of the JVM and of Python's workers so far: what the machine's other work does not change much."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(stat.parent.name) != os.getpid() and _is_ours(int(stat.parent.name)):
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measured(folder: str, queries: int, cores: int) -> dict[str, Any]:
    from controlplane.pipeline.rollup.rollup_job import RollupRequest, refresh_rollups
    from controlplane.pipeline.runtime.session import get_session

    lake = a_day(folder, queries)
    began = time.perf_counter()
    spark = get_session("bench rollup", f"local[{cores}]")
    started = time.perf_counter() - began
    done = refresh_rollups(lake, lambda: spark, RollupRequest(), lambda text: print(text, file=sys.stderr))
    ours, before = time.perf_counter() - began, files(lake)
    peak, cpu = peak_bytes(), cpu_seconds()
    began = time.perf_counter()
    again = refresh_rollups(lake, lambda: spark, RollupRequest(), print)
    second = time.perf_counter() - began
    assert not again.days and files(lake) == before, "a second run changed something"
    checked(lake, queries)
    spark.stop()
    peer = peer_seconds(lake, cores)
    reports = queries * BATCHES
    return {
        "figures": {
            "queries": queries,
            "reports": reports,
            "raw_rows_read": 2 * reports,
            "rows_written": sum(done.rows.values()),
            "ours_seconds": round(ours, 1),
            "of_that_spark_start_seconds": round(started, 1),
            "ours_cpu_seconds": round(cpu, 1),
            "again_seconds": round(second, 3),
            "reports_per_second": round(reports / ours),
            "peak_memory_bytes": peak,
            "peer_seconds": round(peer, 1),
            "bar_seconds": WHOLE_SECONDS,
        },
        "ratios": {"peer_over_ours_seconds": round(peer / ours, 3)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--queries", type=int)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    queries = options.queries or (20 if options.quick else 1_000)
    with tempfile.TemporaryDirectory() as folder:
        found = measured(f"{folder}/lake", queries, options.cores)
    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "system": platform.platform()}
    print(json.dumps({"bench": "rollup", "machine": machine, **found}))


if __name__ == "__main__":
    main()
