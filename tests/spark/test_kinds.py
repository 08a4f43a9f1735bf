"""Every kind of trigger and sink on real Spark: what the agent reports, and what commands can do.

The table of kinds in the guide is the result of these tests.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.recording_server import RecordingServer
from tests.spark.deployment import Deployment, Feed, wait_for
from tests.spark.goldens import ROCKSDB
from tests.spark.test_agent import Source

pytestmark = pytest.mark.spark
long = pytest.mark.long


class Rows:
    """A Python foreach writer with all three methods."""

    def open(self, partition: int, epoch: int) -> bool:
        return True

    def process(self, row: Any) -> None: ...

    def close(self, error: Any) -> None: ...


@pytest.fixture
def source(tmp_path: Path) -> Source:
    made = Source(tmp_path / "in")
    made.add()
    return made


@dataclass
class Bench:
    """One query under test, and the events of it that were recorded."""

    spark: Any
    recorder: RecordingServer
    source: Source
    path: Path

    def rows(self) -> Any:
        return self.spark.readStream.schema("key INT, value STRING").option("maxFilesPerTrigger", 1)

    def files(self) -> Any:
        return self.rows().json(str(self.source.directory))

    def rate(self) -> Any:
        return self.spark.readStream.format("rate").option("rowsPerSecond", 5).load()

    def writer(self, frame: Any, name: str = "kind") -> Any:
        return frame.writeStream.queryName(name).option(
            "checkpointLocation", str(self.path / f"checkpoint-{name}")
        )

    def backlog(self, files: int = 40) -> None:
        for _ in range(files):
            self.source.add()

    def shown(self, query: Any) -> list[int]:
        """The batches that its present run has reported."""
        return [p["batchId"] for p in self.recorder.of_type("progress", runId=query.runId)]

    def await_batch(self, query: Any, batches: int = 1) -> None:
        self.recorder.wait_for(lambda: len(self.shown(query)) >= batches)

    def await_end(self, query: Any) -> dict[str, Any]:
        return dict(self.recorder.wait_for(lambda: self.recorder.of_type("terminated", runId=query.runId))[0])

    def facts(self, query: Any) -> dict[str, Any]:
        def reported() -> Any:
            documents = [q for s in self.recorder.of_type("status") for q in s["queries"]]
            return [q["facts"] for q in documents if q["runId"] == query.runId and "facts" in q]

        return dict(self.recorder.wait_for(reported)[-1])

    def done(self, action: str, query: Any, **fields: Any) -> dict[str, Any]:
        result = self.recorder.command(action, query.id, **fields)
        assert result["state"] == "succeeded", result
        return result

    def refused(self, action: str, query: Any, code: str, **fields: Any) -> str:
        result = self.recorder.command(action, query.id, **fields)
        assert (result["state"], result["code"]) == ("refused", code), result
        return str(result["reason"])


@pytest.fixture
def bench(spark: Any, attached: Any, recorder: RecordingServer, source: Source, tmp_path: Path) -> Bench:
    return Bench(spark, recorder, source, tmp_path)


# -- drains ------------------------------------------------------------------------------------------


def test_a_query_that_never_pauses_is_drained_by_the_report_of_its_commit(bench):
    bench.backlog()
    query = bench.writer(bench.files()).foreachBatch(lambda frame, batch: frame.count()).start()
    bench.await_batch(query)
    reported = bench.done("stop", query, drain=True)
    evidence = reported["evidence"]
    assert evidence["stopped_at"] in ("commit", "gap"), reported  # the poll may hit the gap by chance
    cut = evidence["cut_batch"]
    assert cut in (None, evidence["committed_batch"] + 1)
    assert ("will run again" in reported["reason"]) is (cut is not None), reported
    assert evidence["drained"] is (cut is None)
    committed = max(int(p.name) for p in (bench.path / "checkpoint-kind" / "commits").glob("[0-9]*"))
    assert evidence["committed_batch"] == committed
    bench.done("start", query)
    bench.await_batch(query)
    assert bench.shown(query)[0] == committed + 1


def test_a_batch_that_outlasts_the_drain_is_cut_and_named(bench):
    slow = bench.files().selectExpr("java_method('java.lang.Thread', 'sleep', cast(30000 AS BIGINT)) AS s")
    query = bench.writer(slow).format("noop").start()
    bench.recorder.wait_for((bench.path / "checkpoint-kind" / "offsets" / "0").exists)
    reported = bench.done("stop", query, drain=True, timeout_seconds=20.0)
    assert reported["evidence"]["stopped_at"] == "deadline" and reported["evidence"]["cut_batch"] == 0
    assert "the drain timed out" in reported["reason"]


def test_a_hung_stop_reports_its_thread_state_and_other_queries_take_commands_meanwhile(bench):
    reached, go_on = threading.Event(), threading.Event()

    def hang(frame: Any, batch: int) -> None:
        reached.set()
        go_on.wait(60)

    hung = bench.writer(bench.files(), "hung").foreachBatch(hang).start()
    other = bench.writer(bench.files(), "other").format("noop").start()
    assert reached.wait(30)
    bench.await_batch(other)
    try:
        stopped = bench.recorder.command("stop", hung.id, timeout_seconds=1.5)
        assert stopped["code"] == "stop_timed_out"
        stack = stopped["evidence"]["thread"]["stack"]
        assert any("ForeachBatch" in frame for frame in stack), stack
        assert "has not finished" in bench.refused("stop", hung, "still_stopping")
        bench.done("restart", other)
    finally:
        go_on.set()
    bench.await_end(hung)


# -- overrides ---------------------------------------------------------------------------------------


def test_another_trigger_interval_lasts_until_the_next_start(bench, attached):
    query = bench.writer(bench.files()).format("noop").trigger(processingTime="200 milliseconds").start()
    bench.await_batch(query)
    reported = bench.done("restart", query, overrides={"trigger": "700ms"})
    assert reported["evidence"]["overrides"] == {"trigger": "700ms"}
    assert bench.facts(query)["triggerInterval"] == 0.7
    bench.done("restart", query)
    assert attached.registry.entry(query.id).run.facts()["triggerInterval"] == 0.2
    assert "only `trigger`" in bench.refused("restart", query, "unsupported_override", overrides={"rate": 1})
    assert "such as 10 seconds" in bench.refused(
        "restart", query, "unsupported_override", overrides={"trigger": "now"}
    )


def test_a_factory_gets_its_parameters_and_the_active_session(bench, attached):
    sessions = []

    @attached.factory("kind")
    def build(files: int = 1) -> Any:
        from pyspark.sql import SparkSession

        sessions.append((files, SparkSession.getActiveSession() is not None))
        rows = bench.rows().option("maxFilesPerTrigger", files).json(str(bench.source.directory))
        return bench.writer(rows).format("noop").start()

    query = build()
    bench.await_batch(query)
    bench.done("restart", query, overrides={"files": 3})
    assert sessions == [(1, True), (3, True)]
    reason = bench.refused("restart", query, "unsupported_override", overrides={"speed": 1})
    assert reason == "the factory of kind has no parameter speed; its parameters: files"


# -- triggers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trigger", "kind"), [({"availableNow": True}, "available_now"), ({"once": True}, "once")]
)
def test_a_query_that_ends_by_itself_can_be_started_again(bench, trigger, kind):
    query = bench.writer(bench.files()).format("noop").trigger(**trigger).start()
    query.awaitTermination()
    assert bench.await_end(query)["exception"] is None
    assert bench.facts(query)["trigger"] == kind
    bench.refused("stop", query, "not_running")
    bench.source.add()
    bench.done("start", query)
    bench.await_batch(query)
    assert bench.shown(query)[0] == 1
    bench.await_end(query)
    reason = bench.refused("restart", query, "unsupported_override", overrides={"trigger": "1 s"})
    assert f"this query's is {kind}" in reason


def test_a_continuous_query_resumes_after_its_last_epoch(bench, attached):
    writer = bench.writer(bench.rate()).format("console").trigger(continuous="500 milliseconds")
    query = writer.start()
    epochs = bench.path / "checkpoint-kind" / "commits"

    def newest() -> int:
        return max((int(path.name) for path in epochs.glob("[0-9]*")), default=-1)

    bench.recorder.wait_for(lambda: newest() >= 1)
    facts = bench.facts(query)
    assert (facts["trigger"], facts["triggerInterval"]) == ("continuous", 0.5)
    reported = bench.done("restart", query, drain=True)
    assert "cannot be drained" in reported["reason"] and reported["evidence"]["drained"] is False
    before = reported["evidence"]["committed_batch"]
    bench.recorder.wait_for(lambda: newest() > before + 1)
    assert not bench.recorder.of_type("progress")  # Spark reports none for these
    assert attached.registry.entry(query.id).run.status().message.startswith("Committing epoch")
    assert "rows written since then" in bench.done("stop", query)["reason"]


def test_a_real_time_query_without_a_source_for_it_fails_with_sparks_condition(bench):
    rows = bench.writer(bench.rate()).format("console").outputMode("update")
    if "realTime" not in rows.trigger.__wrapped__.__kwdefaults__:
        pytest.skip("this Spark knows no real-time mode")
    query = rows.trigger(realTime="5 seconds").start()
    assert "STREAMING_REAL_TIME_MODE.INPUT_STREAM_NOT_SUPPORTED" in bench.await_end(query)["exception"]
    assert bench.facts(query)["trigger"] == "real_time"


@long
def test_a_real_time_query_over_a_source_for_it_is_reported_and_stopped(bench, spark):
    """The wheel's only such source is in memory, for Spark's own tests."""
    from pyspark.sql import DataFrame
    from pyspark.sql.classic.column import _to_seq

    name = "org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream$"
    companion = spark._jvm.java.lang.Class.forName(name).getField("MODULE$").get(None)
    source = companion.apply(spark._jsparkSession, spark._jvm.org.apache.spark.sql.Encoders.INT())
    source.addData(_to_seq(spark.sparkContext, [1, 2, 3]))
    writer = bench.writer(DataFrame(source.toDF(), spark)).format("console").outputMode("update")
    query = writer.trigger(realTime="5 seconds").start()
    bench.await_batch(query)
    report = bench.recorder.of_type("progress", runId=query.runId)[0]
    assert (report["numInputRows"], report["batchId"]) == (3, 0)
    facts = bench.facts(query)
    assert (facts["trigger"], facts["triggerInterval"]) == ("real_time", 5.0)
    bench.done("stop", query)
    assert bench.await_end(query)["exception"] is None


# -- sinks -------------------------------------------------------------------------------------------


def test_a_memory_sink_that_spark_will_not_resume_is_not_stopped_for_it(bench):
    query = bench.writer(bench.files(), "in_memory").format("memory").start()
    bench.await_batch(query)
    facts = bench.facts(query)
    assert facts["sink"] == "MemorySink" and "complete mode" in facts["restartReason"]
    assert "complete mode" in bench.refused("restart", query, "cannot_resume")
    assert query.isActive
    bench.done("stop", query)
    bench.refused("start", query, "cannot_resume")


@dataclass(frozen=True)
class Sink:
    start: Callable[[Bench, Any], Any]
    reported: str
    frame: Callable[[Bench], Any] = Bench.files


def json_files(bench: Bench, writer: Any) -> Any:
    return writer.format("json").option("path", str(bench.path / "out")).start()


def counts(bench: Bench) -> Any:
    return bench.files().groupBy("value").count()


SINKS = {
    "file": Sink(json_files, "FileSink["),
    "table": Sink(lambda bench, writer: writer.toTable("kind_table", format="parquet"), "FileSink["),
    "console": Sink(lambda bench, writer: writer.format("console").start(), "ConsoleTable"),
    "noop": Sink(lambda bench, writer: writer.format("noop").start(), "NoopTable"),
    "foreach object": Sink(lambda bench, writer: writer.foreach(Rows()).start(), "ForeachWriterTable"),
    "foreach function": Sink(lambda bench, writer: writer.foreach(print).start(), "ForeachWriterTable"),
    "foreachBatch": Sink(lambda bench, writer: writer.foreachBatch(count).start(), "ForeachBatchSink"),
    "memory, complete": Sink(
        lambda bench, writer: writer.format("memory").outputMode("complete").start(), "MemorySink", counts
    ),
}


def count(frame: Any, batch: int) -> None:
    frame.count()


@long
@pytest.mark.parametrize("kind", SINKS)
def test_each_sink_is_reported_stopped_started_and_restarted(bench, kind, spark):
    sink = SINKS[kind]
    query = sink.start(bench, bench.writer(sink.frame(bench)))
    bench.await_batch(query)
    facts = bench.facts(query)
    assert sink.reported in facts["sink"] and facts["restart"] == "reuse", facts
    first = query.runId
    assert bench.done("stop", query, drain=True)["evidence"]["drained"] is True
    bench.source.add()
    bench.done("start", query)
    bench.await_batch(query)
    assert bench.shown(query)[0] == 1
    bench.done("restart", query)
    bench.source.add()
    bench.await_batch(query)
    assert bench.shown(query)[0] == 2 and query.runId != first
    bench.done("stop", query)
    bench.recorder.wait_for(lambda: len(bench.recorder.of_type("terminated", id=query.id)) == 3)
    assert [t["exception"] for t in bench.recorder.of_type("terminated", id=query.id)] == [None] * 3
    spark.sql("DROP TABLE IF EXISTS kind_table")


# -- state and sources in Python ---------------------------------------------------------------------


def counted(bench: Bench, form: str) -> Any:
    """Rows by value, counted by `transformWithState` in one of its two forms."""
    from pyspark.sql.streaming import StatefulProcessor

    class Count(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._seen = handle.getValueState("seen", "n BIGINT")

        def handleInputRows(self, key: Any, rows: Any, timer: Any) -> Iterator[Any]:
            new = sum(len(part) for part in rows) if form == "pandas" else sum(1 for _ in rows)
            seen = (self._seen.get()[0] if self._seen.exists() else 0) + new
            self._seen.update((seen,))
            yield self._result(key[0], seen)

        def _result(self, value: str, seen: int) -> Any:
            import pandas as pd
            from pyspark.sql import Row

            return pd.DataFrame({"v": [value], "n": [seen]}) if form == "pandas" else Row(v=value, n=seen)

    grouped = bench.files().groupBy("value")
    transform = grouped.transformWithStateInPandas if form == "pandas" else grouped.transformWithState
    return transform(Count(), "v STRING, n BIGINT", "Update", "None")


@long
@pytest.mark.alone  # Spark waits ten seconds at most for such a Python worker
@pytest.mark.parametrize("form", ["pandas", "rows"])
def test_a_transform_with_state_is_reported_and_keeps_its_state_through_a_restart(bench, spark, form):
    for name, value in ROCKSDB.items():
        spark.conf.set(name, value)
    try:
        query = bench.writer(counted(bench, form)).format("noop").outputMode("update").start()
        bench.await_batch(query)
        bench.done("restart", query, drain=True)
        bench.source.add()
        bench.await_batch(query)
        bench.done("stop", query, drain=True)
    finally:
        for name in ROCKSDB:
            spark.conf.unset(name)
    reports = {report["batchId"]: report for report in bench.recorder.of_type("progress", id=query.id)}
    operators = [reports[batch]["stateOperators"] for batch in (0, 1)]
    assert [len(found) for found in operators] == [1, 1]
    assert operators[0][0]["operatorName"].startswith("transformWithStateIn")
    assert [found[0]["numRowsTotal"] for found in operators] == [3, 6]  # each file has three new values


@long
@pytest.mark.alone
def test_a_simple_source_in_python_is_reported_and_resumes_after_its_last_offset(bench, spark):
    from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

    class Reader(SimpleDataSourceStreamReader):
        def initialOffset(self) -> dict[str, Any]:
            return {"position": {"a": 0}}

        def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[int]], dict[str, Any]]:
            first = start["position"]["a"]
            return iter([(first,), (first + 1,)]), {"position": {"a": first + 2}}

        def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[tuple[int]]:
            return iter([(n,) for n in range(start["position"]["a"], end["position"]["a"])])

        def commit(self, end: dict[str, Any]) -> None: ...

    class Numbers(DataSource):
        @classmethod
        def name(cls) -> str:
            return "numbers"

        def schema(self) -> str:
            return "n INT"

        def simpleStreamReader(self, schema: Any) -> Any:
            return Reader()

    spark.dataSource.register(Numbers)
    rows = spark.readStream.format("numbers").load()
    query = bench.writer(rows).format("noop").trigger(processingTime="300 milliseconds").start()
    bench.await_batch(query)
    bench.done("restart", query, drain=True)
    bench.await_batch(query)
    bench.done("stop", query)
    found = {report["batchId"]: report for report in bench.recorder.of_type("progress", id=query.id)}
    ends = [found[batch]["sources"][0]["endOffset"]["position"]["a"] for batch in sorted(found)]
    assert ends == list(range(2, 2 * len(found) + 1, 2)) and sorted(found) == list(range(len(found)))
    assert {report["numInputRows"] for report in found.values()} == {2}


@long
def test_a_foreach_in_python_does_not_run_in_continuous_mode(bench):
    query = bench.writer(bench.rate()).foreach(Rows()).trigger(continuous="1 second").start()
    assert "batch id from TaskContext" in bench.await_end(query)["exception"]


@long
def test_ten_saturated_drains_lose_and_repeat_nothing_but_what_they_name(bench):
    bench.backlog(60)
    seen: list[int] = []

    def note(frame: Any, batch: int) -> None:
        frame.count()
        seen.append(batch)

    query = bench.writer(bench.files()).foreachBatch(note).start()
    for _ in range(10):
        bench.await_batch(query, 2)
        evidence = bench.done("restart", query, drain=True)["evidence"]
        assert evidence["stopped_at"] in ("commit", "gap"), evidence
        assert evidence["cut_batch"] in (None, evidence["committed_batch"] + 1)
    bench.await_batch(query)
    bench.done("stop", query, drain=True)
    assert sorted(set(seen)) == list(range(max(seen) + 1))


def test_a_command_that_comes_twice_is_carried_out_once(bench):
    query = bench.writer(bench.files()).format("noop").start()
    bench.await_batch(query)
    runs = len(bench.recorder.of_type("started", id=query.id))
    command = {"id": "twice", "action": "restart", "query_id": query.id, "drain": True}
    bench.recorder.commands.put(command)
    bench.recorder.commands.put(command)
    first = bench.recorder.wait_for(lambda: bench.recorder.results.pop("twice", None))

    def delivered_until_answered():
        """As the server does: the poller drops a copy that comes while the answer to the first is on its way."""
        if bench.recorder.commands.empty():
            bench.recorder.commands.put(command)
        return bench.recorder.results.get("twice")

    assert bench.recorder.wait_for(delivered_until_answered) == first
    bench.source.add()
    bench.await_batch(query)
    time.sleep(0.3)
    assert len(bench.recorder.of_type("started", id=query.id)) == runs + 1


@long
def test_the_server_judges_a_continuous_query_by_its_epochs(tmp_path):
    deployment = Deployment(tmp_path)
    try:
        program = deployment.drive("continuous.py", str(tmp_path / "base"), app="live")
        wait_for(lambda: deployment.queries().get("epochs", {}).get("status") == "running", 300)
        assert "is committed" in deployment.queries()["epochs"]["reason"]
        action = deployment.act("restart", "epochs", "--drain")["action"]
        assert action["evidence"]["verified_by"] == "epoch", action
        assert action["evidence"]["epoch"] > action["evidence"]["committed_batch"]
        assert deployment.act("stop", "epochs")["action"]["state"] == "succeeded"
        assert program.poll() is None
    finally:
        deployment.close()


@long
def test_overrides_and_their_mistakes_travel_the_whole_way(tmp_path):
    Feed(tmp_path / "base" / "in").add()
    deployment = Deployment(tmp_path)
    try:
        deployment.drive("two_queries.py", str(tmp_path / "base"))
        wait_for(lambda: deployment.queries().get("orders", {}).get("batch_id") is not None, 300)
        action = deployment.act("restart", "orders", "--drain", "--set", "trigger=700ms")["action"]
        assert action["evidence"]["overrides"] == {"trigger": "700ms"}, action
        query = f"/api/v1/queries/{action['query_id']}"
        wait_for(lambda: deployment.get(query)["facts"]["trigger_interval"] == 0.7)
        refused = deployment.cli("restart", "orders", "--set", "rate=5")
        assert refused.returncode == 1 and "only `trigger` can be overridden" in refused.stdout, refused
        assert "Traceback" not in refused.stderr
    finally:
        deployment.close()
