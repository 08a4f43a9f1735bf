"""Cost of a progress event in the driver: PySpark's listener, the agent's, and the floor.

Three listeners receive the same real events of one stateful query on RocksDB, in the same run and
session, and each times its own callbacks: *plain* is a `StreamingQueryListener` subclass that does
nothing, *floor* implements the same Java interface and only calls `event.progress().json()`, *ours*
is the agent's. Whoever is called first after a batch pays for cold caches, so floor and ours take
that place for one half of the run each. The agent's CPU per event is what the kernel accounts to its
threads and callbacks, the HTTP delivery to a local server included.

    python bench/listener.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["PYSPARK_PYTHON"] = sys.executable

from tests.recording_server import recording_server

AGENT_THREADS = ("spooler", "sender", "poller", "prober")


class Timed:
    """Wraps a callback and keeps the duration of each call in milliseconds."""

    def __init__(self, act: Any):
        self.milliseconds: list[float] = []
        self.cpu_milliseconds = 0.0
        self._act = act

    def __call__(self, event: Any) -> None:
        began, cpu = time.perf_counter(), time.thread_time()
        self._act(event)
        self.milliseconds.append((time.perf_counter() - began) * 1000)
        self.cpu_milliseconds += (time.thread_time() - cpu) * 1000


class Floor:
    """The same Java interface, doing nothing but the one py4j call."""

    def __init__(self) -> None:
        self.timed = Timed(lambda event: event.progress().json())

    def onQueryStarted(self, event: Any) -> None: ...

    def onQueryProgress(self, event: Any) -> None:
        self.timed(event)

    def onQueryIdle(self, event: Any) -> None: ...

    def onQueryTerminated(self, event: Any) -> None: ...

    class Java:
        implements = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]  # noqa: RUF012


def plain_listener() -> tuple[Any, Timed]:
    """A do-nothing listener as the documentation shows it, timed where Java calls in."""
    from pyspark.sql.streaming import StreamingQueryListener
    from pyspark.sql.streaming.listener import JStreamingQueryListener

    class Plain(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None: ...

        def onQueryProgress(self, event: Any) -> None: ...

        def onQueryIdle(self, event: Any) -> None: ...

        def onQueryTerminated(self, event: Any) -> None: ...

    plain = Plain()
    timed = Timed(lambda event: JStreamingQueryListener.onQueryProgress(plain._jlistener_py, event))
    proxy = JStreamingQueryListener(plain)
    plain._jlistener_py = proxy  # type: ignore[attr-defined]
    proxy.onQueryProgress = timed  # type: ignore[method-assign, assignment]
    return proxy, timed


def session(directory: str) -> Any:
    from pyspark.sql import SparkSession

    built = (
        SparkSession.builder.master("local[2]")
        .appName("bench-listener")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .config("spark.sql.streaming.checkpointLocation", directory)
        .getOrCreate()
    )
    built.sparkContext.setLogLevel("OFF")
    return built


def stateful(spark: Any) -> Any:
    frame = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    counts = frame.withWatermark("timestamp", "10 seconds").groupBy("value").count()
    return counts.writeStream.outputMode("update").format("noop").queryName("bench").start()


def thread_cpu_seconds(names: tuple[str, ...]) -> float:
    """User and system CPU of this process's threads with these names (Linux accounting)."""
    ticks = os.sysconf("SC_CLK_TCK")
    idents = {t.native_id for t in threading.enumerate() if t.name.removeprefix("controlplane-") in names}
    total = 0
    for ident in idents:
        fields = Path(f"/proc/self/task/{ident}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / ticks


def measure(events: int) -> dict[str, float]:
    from listeners import attach
    from listeners.spark.classic import ENGINE

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory, recording_server() as server:
        os.environ["CONTROLPLANE_SPOOL_DIR"] = directory + "/spool"
        spark = session(directory + "/checkpoints")
        floor, (plain, plain_timed) = Floor(), plain_listener()
        take_off_floor = ENGINE.listen(spark, floor)
        attachment = attach.attach(spark, server=server.url, app="bench", token="t")
        assert isinstance(attachment, attach.Attachment)
        ours = Timed(attachment.listener.onQueryProgress)
        attachment.listener.onQueryProgress = ours  # type: ignore[method-assign, assignment]
        take_off_plain = ENGINE.listen(spark, plain)
        query = stateful(spark)
        wait_for(plain_timed, 5)
        for timed in (ours, floor.timed, plain_timed):  # the first calls pay for imports and the JIT
            timed.milliseconds.clear()
            timed.cpu_milliseconds = 0.0
        cpu = thread_cpu_seconds(AGENT_THREADS)
        wait_for(plain_timed, events // 2)
        # Ours is called first from now on.
        for take_off, listener in ((take_off_floor, floor), (take_off_plain, plain)):
            take_off()
            ENGINE.listen(spark, listener)
        wait_for(plain_timed, events)
        cpu = thread_cpu_seconds(AGENT_THREADS) - cpu
        counted = len(ours.milliseconds)
        query.stop()
        spark.stop()
    return {
        "events": counted,
        "plain_ms": statistics.median(plain_timed.milliseconds),
        "ours_ms": statistics.median(ours.milliseconds),
        "floor_ms": statistics.median(floor.timed.milliseconds),
        "agent_cpu_ms_per_event": (ours.cpu_milliseconds + cpu * 1000) / counted,
        "agent_callback_cpu_ms_per_event": ours.cpu_milliseconds / counted,
    }


def wait_for(timed: Timed, events: int) -> None:
    while len(timed.milliseconds) < events:
        time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer events, under a minute")
    figures = measure(25 if parser.parse_args().quick else 150)
    rounded = {key: round(value, 3) for key, value in figures.items()}
    print(
        json.dumps(
            {
                "bench": "listener",
                "machine": {"cpus": os.cpu_count(), "python": platform.python_version()},
                "figures": rounded,
                "ratios": {
                    "plain_over_ours": round(figures["plain_ms"] / figures["ours_ms"], 2),
                    "ours_over_floor": round(figures["ours_ms"] / figures["floor_ms"], 3),
                },
            }
        )
    )


if __name__ == "__main__":
    main()
