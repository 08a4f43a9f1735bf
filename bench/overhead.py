"""Cost of the agent for a saturated stateful query: CPU of the driver and throughput.

One JVM, one query on RocksDB that has always more to read. The agent is attached and detached in
alternating blocks of time, in the order with-without-without-with. *Throughput*: batches between the
first and the last commit of a block, by the commit files' times; each pair of neighbouring blocks gives
one ratio, and Student's t over their logarithms the interval. *CPU*: what the kernel accounts to this
process's threads other than the main one, which sleeps (the agent's own, and those of py4j that call it),
over Python and JVM together. The server that takes the events is a process of its own.

    python bench/overhead.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["PYSPARK_PYTHON"] = sys.executable

from controlplane.runtime.java import java_environment

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTLE_SECONDS = 1.0
#: Two-sided 95 % quantiles of Student's t by degrees of freedom; beyond, the last is on the safe side.
STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160)
SERVER = """
import time
from tests.recording_server import recording_server
with recording_server() as server:
    print(server.url, flush=True)
    while True:
        time.sleep(1)
        server.events.clear()
"""


@dataclass(frozen=True)
class Block:
    """One stretch of time. CPU in seconds; `agent` is that of the threads that are there for the agent."""

    attached: bool
    batches_per_second: float
    agent: float
    named: float
    driver: float


class Driver:
    """This process and its JVM."""

    def __init__(self, directory: Path, rows: int):
        self.spark = _session(directory)
        self.checkpoint = directory / "checkpoint"
        self._jvm = self.spark.sparkContext._gateway.proc.pid
        self._rows = rows

    def start(self) -> None:
        source = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", self._rows)
        counts = source.load().selectExpr("value % 20000 AS key").groupBy("key").count()
        counts = counts.writeStream.outputMode("update").format("noop")
        counts.option("checkpointLocation", str(self.checkpoint)).queryName("saturated").start()

    def commits(self) -> list[float]:
        """When each batch was committed, Unix seconds, in their order."""
        files = (self.checkpoint / "commits").glob("[0-9]*")
        return [path.stat().st_mtime for path in sorted(files, key=lambda path: int(path.name))]

    def cpu(self) -> float:
        """Seconds of Python and JVM so far."""
        fields = Path(f"/proc/{self._jvm}/stat").read_text().rpartition(")")[2].split()
        return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _session(directory: Path) -> Any:
    from pyspark.sql import SparkSession

    built = (
        SparkSession.builder.master("local[2]")
        .appName("bench-overhead")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .config("spark.sql.streaming.minBatchesToRetain", "10000")
        .config("spark.local.dir", str(directory / "local"))
        .getOrCreate()
    )
    built.sparkContext.setLogLevel("OFF")
    return built


def agent_cpu() -> float:
    """Of all threads of this process but the main one."""
    return time.process_time() - time.thread_time()


def named_cpu() -> float:
    """Of the agent's own threads, by the kernel's accounts of each."""
    ticks, total = os.sysconf("SC_CLK_TCK"), 0
    for thread in threading.enumerate():
        if thread.name.startswith("controlplane-") and thread.native_id:
            fields = Path(f"/proc/self/task/{thread.native_id}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total / ticks


def run_block(driver: Driver, url: str, attached: bool, seconds: float) -> Block:
    from listeners import attach

    attachment = attach.attach(driver.spark, server=url, app="bench", token="t") if attached else None
    assert not isinstance(attachment, attach.NotAttached)
    time.sleep(SETTLE_SECONDS)
    if attachment:
        attachment.agent.request_probe()  # each block has its look at Spark, as every 10 s have
    began, agent, named, cpu = time.time(), agent_cpu(), named_cpu(), driver.cpu()
    time.sleep(seconds)
    ended, agent, named, cpu = (
        time.time(),
        agent_cpu() - agent,
        named_cpu() - named,
        driver.cpu() - cpu,
    )
    if attachment is not None:
        attachment.detach()
    within = [at for at in driver.commits() if began <= at <= ended]
    assert len(within) > 1, f"only {len(within)} batches in {seconds} s: the machine is too busy to measure"
    return Block(attached, (len(within) - 1) / (within[-1] - within[0]), agent, named, cpu)


def measure(pairs: int, seconds: float, rows: int) -> list[Block]:
    from listeners import attach

    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory,
        subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parent.parent,
        ) as server,
    ):
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            os.environ["CONTROLPLANE_SPOOL_DIR"] = directory + "/spool"
            driver = Driver(Path(directory), rows)
            first = attach.attach(driver.spark, server=url, app="bench", token="t")
            driver.start()
            while len(driver.commits()) < 10:  # the first ones pay for imports and the JIT
                time.sleep(0.5)
            time.sleep(seconds)
            first.detach()
            order = [
                attached for pair in range(pairs) for attached in ((True, False), (False, True))[pair % 2]
            ]
            blocks = [run_block(driver, url, attached, seconds) for attached in order]
            driver.spark.stop()
        finally:
            server.kill()
    return blocks


def interval(blocks: list[Block]) -> tuple[float, float, float]:
    """(ratio, lower, upper) of throughput with the agent over without, 95 %."""
    logs = []
    for earlier, later in zip(blocks[::2], blocks[1::2], strict=True):
        with_agent, without = (earlier, later) if earlier.attached else (later, earlier)
        logs.append(math.log(with_agent.batches_per_second / without.batches_per_second))
    mean = statistics.fmean(logs)
    half = STUDENT[min(len(logs) - 2, len(STUDENT) - 1)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def report(blocks: list[Block], seconds: float) -> dict[str, Any]:
    with_agent = [block for block in blocks if block.attached]
    without = [block for block in blocks if not block.attached]
    ratio, low, high = interval(blocks)
    driver = sum(block.driver for block in with_agent)
    figures = {
        "blocks": len(blocks),
        "block_seconds": seconds,
        "batches_per_second_with": statistics.fmean(block.batches_per_second for block in with_agent),
        "batches_per_second_without": statistics.fmean(block.batches_per_second for block in without),
        "agent_cpu_ms_per_second": sum(b.agent for b in with_agent) / (len(with_agent) * seconds) * 1000,
        "driver_cpu_cores": driver / (len(with_agent) * seconds),
        "load_average": os.getloadavg()[0],
    }
    ratios = {
        "agent_cpu_over_driver_cpu": sum(block.agent for block in with_agent) / driver,
        "agent_threads_cpu_over_driver_cpu": sum(block.named for block in with_agent) / driver,
        "throughput_with_over_without": ratio,
        "throughput_with_over_without_low": low,
        "throughput_with_over_without_high": high,
    }
    return {
        "bench": "overhead",
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version()},
        "figures": {name: round(value, 3) for name, value in figures.items()},
        "ratios": {name: round(value, 4) for name, value in ratios.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few short blocks, under a minute")
    parser.add_argument("--rows", type=int, default=20_000, metavar="N", help="rows of a batch")
    arguments = parser.parse_args()
    os.environ.update(java_environment() or {})
    pairs, seconds = (3, 5.0) if arguments.quick else (12, 10.0)
    print(json.dumps(report(measure(pairs, seconds, arguments.rows), seconds)))


if __name__ == "__main__":
    main()
