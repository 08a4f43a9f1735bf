"""The agent on a real Spark session: events, commands, and waits for termination."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.recording_server import RecordingServer

pytestmark = pytest.mark.spark

ROWS = "key INT, value STRING"


class Source:
    """A directory of JSON files; each `add` is one file, renamed into place."""

    def __init__(self, directory: Path):
        self.directory = directory
        directory.mkdir()
        self.rows: list[tuple[int, str]] = []

    def add(self, count: int = 3) -> None:
        rows = [(len(self.rows) + i, f"v{len(self.rows) + i}") for i in range(count)]
        name = f"{len(self.rows):06d}.json"
        (self.directory / f".{name}").write_text(
            "\n".join(json.dumps({"key": k, "value": v}) for k, v in rows)
        )
        (self.directory / f".{name}").rename(self.directory / name)
        self.rows += rows

    def read(self, spark: Any) -> Any:
        return spark.readStream.schema(ROWS).json(str(self.directory))


@pytest.fixture
def source(tmp_path: Path) -> Source:
    made = Source(tmp_path / "in")
    made.add()
    return made


def writer(source: Source, spark: Any, tmp_path: Path, name: str) -> Any:
    return (
        source.read(spark)
        .writeStream.format("json")
        .queryName(name)
        .option("checkpointLocation", str(tmp_path / f"checkpoint-{name}"))
        .option("path", str(tmp_path / f"out-{name}"))
    )


def written(spark: Any, tmp_path: Path, name: str) -> list[tuple[int, str]]:
    return sorted(
        (r.key, r.value) for r in spark.read.schema(ROWS).json(str(tmp_path / f"out-{name}")).collect()
    )


def batches(recorder: RecordingServer, run_id: str) -> list[int]:
    return [p["batchId"] for p in recorder.of_type("progress", runId=run_id)]


def test_events_of_a_query_arrive_as_spark_wrote_them(spark, attached, recorder, source, tmp_path):
    query = writer(source, spark, tmp_path, "plain").start()
    progress = recorder.wait_for(lambda: recorder.of_type("progress", runId=query.runId))[0]
    assert progress["batchId"] == 0 and progress["numInputRows"] == 3
    assert progress["durationMs"]["triggerExecution"] >= 0 and progress["sources"][0]["description"]
    assert recorder.of_type("started", runId=query.runId)[0]["name"] == "plain"
    facts = recorder.wait_for(
        lambda: [q for s in recorder.of_type("status") for q in s["queries"] if "facts" in q]
    )[0]
    assert facts["facts"]["restart"] == "reuse" and facts["facts"]["checkpoint"].endswith("checkpoint-plain")
    query.stop()
    assert recorder.wait_for(lambda: recorder.of_type("terminated", runId=query.runId))
    seqs = [event["seq"] for event in recorder.events]
    assert seqs == sorted(set(seqs)) and seqs[0] == 1


def test_a_heartbeat_has_the_executors_and_the_heap_of_the_driver(spark, attached, recorder):
    output = recorder.wait_for(lambda: [h for h in heartbeats(attached, recorder) if "driver" in h])[0]
    assert output["executors"] == 0  # local mode has none
    # The serial collector leaves out of its 1 GiB what it copies survivors to.
    assert 2**20 < output["driver"]["heapUsed"] < output["driver"]["heapMax"]
    assert 0.9 * 2**30 < output["driver"]["heapMax"] <= 2**30


def test_the_delay_of_a_watermark_is_reported_in_seconds(spark, attached, recorder, tmp_path):
    late = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute 30 seconds")
    query = late.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "late")).start()
    output = recorder.wait_for(
        lambda: [q for s in recorder.of_type("status") for q in s["queries"] if q.get("facts")]
    )
    assert [(q["id"], q["facts"]["watermarkDelay"]) for q in output] == [(query.id, 90.0)]


def heartbeats(attached: Any, recorder: RecordingServer) -> list[dict[str, Any]]:
    attached.agent.request_probe()  # the figures are of the round before: do not wait 10 s for it
    return recorder.of_type("heartbeat")


def test_a_restart_resumes_and_the_users_handle_follows(spark, attached, recorder, source, tmp_path):
    query = writer(source, spark, tmp_path, "again").start()
    first = query.runId
    recorder.wait_for(lambda: batches(recorder, first))
    result = recorder.command("restart", query.id)
    assert result["state"] == "succeeded", result
    assert query.runId == result["evidence"]["run_id"] != first
    source.add()
    recorder.wait_for(lambda: batches(recorder, query.runId))
    assert batches(recorder, query.runId) == [1]
    query.processAllAvailable()
    assert written(spark, tmp_path, "again") == source.rows


def test_await_termination_outlives_a_commanded_stop_and_follows_the_next_run(
    spark, attached, recorder, source, tmp_path
):
    query = writer(source, spark, tmp_path, "awaited").start()
    recorder.wait_for(lambda: batches(recorder, query.runId))
    waiter = run_aside(query.awaitTermination)
    assert recorder.command("stop", query.id)["state"] == "succeeded"
    waiter.join(0.5)
    assert waiter.is_alive() and not query.isActive
    assert recorder.command("start", query.id)["state"] == "succeeded"
    assert query.isActive and waiter.is_alive()
    query.stop()  # the user's own
    waiter.join(10)
    assert not waiter.is_alive()


def test_a_users_own_stop_ends_a_wait_that_a_command_held(spark, attached, recorder, source, tmp_path):
    query = writer(source, spark, tmp_path, "held").start()
    recorder.wait_for(lambda: batches(recorder, query.runId))
    waiter = run_aside(query.awaitTermination)
    recorder.command("stop", query.id)
    query.stop()
    waiter.join(10)
    assert not waiter.is_alive()


def test_await_any_termination_ignores_commanded_ends_and_sees_others(
    spark, attached, recorder, source, tmp_path
):
    spark.streams.resetTerminated()
    item = writer(source, spark, tmp_path, "one").start()
    two = writer(source, spark, tmp_path, "two").start()
    recorder.wait_for(lambda: batches(recorder, item.runId) and batches(recorder, two.runId))
    waiter = run_aside(spark.streams.awaitAnyTermination)
    assert recorder.command("restart", item.id)["state"] == "succeeded"
    assert recorder.command("stop", item.id)["state"] == "succeeded"
    waiter.join(1.0)
    assert waiter.is_alive()
    two.stop()
    waiter.join(10)
    assert not waiter.is_alive()


def test_a_failure_that_no_command_caused_is_raised_as_spark_raises_it(
    spark, attached, recorder, source, tmp_path
):
    query = writer(source, spark, tmp_path, "fails").foreachBatch(fail).start()
    with pytest.raises(Exception, match="poison"):
        query.awaitTermination()
    ended = recorder.wait_for(lambda: recorder.of_type("terminated", runId=query.runId))[0]
    assert "poison" in ended["exception"] and "\tat org.apache.spark" in ended["exception"]


def test_a_failure_right_after_a_restart_does_not_end_the_program(
    spark, attached, recorder, source, tmp_path
):
    broken = threading.Event()

    def sometimes(frame: Any, batch_id: int) -> None:
        if broken.is_set():
            raise RuntimeError("poison")

    query = writer(source, spark, tmp_path, "later").foreachBatch(sometimes).start()
    recorder.wait_for(lambda: batches(recorder, query.runId))
    waiter = run_aside(query.awaitTermination)
    broken.set()
    source.add()
    recorder.command("restart", query.id)
    recorder.wait_for(lambda: any(e["exception"] for e in recorder.of_type("terminated", runId=query.runId)))
    waiter.join(1.0)
    assert waiter.is_alive()
    broken.clear()
    assert recorder.command("start", query.id)["state"] == "succeeded"
    recorder.wait_for(lambda: batches(recorder, query.runId))
    query.stop()
    waiter.join(10)
    assert not waiter.is_alive()


def test_a_writer_that_started_two_queries_restarts_only_the_last(
    spark, attached, recorder, source, tmp_path
):
    shared = writer(source, spark, tmp_path, "first")
    first = shared.start()
    second = (
        shared.queryName("second")
        .option("checkpointLocation", str(tmp_path / "checkpoint-second"))
        .option("path", str(tmp_path / "out-second"))
        .start()
    )
    recorder.wait_for(lambda: batches(recorder, first.runId) and batches(recorder, second.runId))
    refused = recorder.command("restart", first.id)
    assert (refused["state"], refused["code"]) == ("refused", "needs_factory")
    assert first.isActive
    assert recorder.command("restart", second.id)["evidence"]["query_id"] == second.id


def test_start_with_a_path_is_repeated_with_it(spark, attached, recorder, source, tmp_path):
    query = (
        source.read(spark)
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint-path"))
        .start(path=str(tmp_path / "out-path"), format="json", queryName="path")
    )
    recorder.wait_for(lambda: batches(recorder, query.runId))
    assert recorder.command("restart", query.id)["state"] == "succeeded"
    source.add()
    query.processAllAvailable()
    assert written(spark, tmp_path, "path") == source.rows


def test_to_table_is_repeated(spark, attached, recorder, source, tmp_path):
    query = (
        source.read(spark)
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint-table"))
        .toTable("restarted_table", format="parquet", queryName="table")
    )
    recorder.wait_for(lambda: batches(recorder, query.runId))
    assert recorder.command("restart", query.id)["state"] == "succeeded"
    source.add()
    query.processAllAvailable()
    assert spark.table("restarted_table").count() == len(source.rows)
    query.stop()
    spark.sql("DROP TABLE restarted_table")


def test_a_stream_static_join_needs_a_factory_and_obeys_one(spark, attached, recorder, source, tmp_path):
    static_path = str(tmp_path / "static")
    spark.createDataFrame([(0, "a")], "key INT, word STRING").write.parquet(static_path)

    def build() -> Any:
        joined = source.read(spark).join(spark.read.parquet(static_path), "key", "left")
        return (
            joined.writeStream.format("json")
            .queryName("joined")
            .option("checkpointLocation", str(tmp_path / "checkpoint-joined"))
            .option("path", str(tmp_path / "out-joined"))
            .start()
        )

    query = build()
    recorder.wait_for(lambda: batches(recorder, query.runId))
    refused = recorder.command("restart", query.id)
    assert (refused["state"], refused["code"]) == ("refused", "needs_factory") and "static" in refused[
        "reason"
    ]
    assert query.isActive
    attached.factory("joined")(build)
    done = recorder.command("restart", query.id)
    assert done["state"] == "succeeded" and query.runId == done["evidence"]["run_id"]


def test_a_query_without_a_checkpoint_of_its_own_is_not_restarted(spark, attached, recorder, source):
    query = source.read(spark).writeStream.format("noop").queryName("homeless").start()
    recorder.wait_for(lambda: batches(recorder, query.runId))
    refused = recorder.command("restart", query.id)
    assert (refused["state"], refused["code"]) == ("refused", "temporary_checkpoint")
    assert query.isActive


def test_a_start_that_raises_is_reported_and_still_raised(spark, attached, recorder, source, tmp_path):
    with pytest.raises(Exception, match="complete"):
        writer(source, spark, tmp_path, "wrong").outputMode("complete").start()
    failed = recorder.wait_for(lambda: recorder.of_type("start_failed"))[0]
    assert (failed["method"], failed["name"]) == ("start", "wrong") and failed["exception"]


def test_queries_of_a_second_session_are_reported_and_listed(spark, attached, recorder, source, tmp_path):
    other = spark.newSession()
    query = writer(source, other, tmp_path, "elsewhere").start()
    recorder.wait_for(lambda: batches(recorder, query.runId))
    recorder.wait_for(
        lambda: [q for s in recorder.of_type("status") for q in s["queries"] if q["id"] == query.id]
    )
    assert recorder.command("restart", query.id)["state"] == "succeeded"
    query.stop()


def test_a_drain_stop_waits_for_the_gap_between_batches(spark, attached, recorder, source, tmp_path):
    def slow(frame: Any, batch_id: int) -> None:
        threading.Event().wait(1.5)

    query = writer(source, spark, tmp_path, "drained").foreachBatch(slow).start()
    recorder.wait_for(lambda: batches(recorder, query.runId))
    source.add()
    recorder.wait_for(lambda: query.status["isTriggerActive"])
    result = recorder.command("stop", query.id, drain=True, timeout_seconds=60)
    evidence = result["evidence"]
    assert evidence["drained"] is True and evidence["planned_batch"] == evidence["committed_batch"] == 1
    assert result["reason"] == "stopped after batch 1"
    assert recorder.wait_for(lambda: batches(recorder, query.runId) == [0, 1])


def test_a_stop_in_the_middle_of_a_batch_names_the_batch_that_will_run_again(
    spark, attached, recorder, source, tmp_path
):
    slow = source.read(spark).selectExpr(
        "key", "value", "java_method('java.lang.Thread', 'sleep', cast(30000 AS BIGINT)) AS slept"
    )
    query = (
        slow.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint-cut")).start()
    )
    recorder.wait_for((tmp_path / "checkpoint-cut" / "offsets" / "0").exists)
    result = recorder.command("stop", query.id)
    assert result["reason"] == "stopped in the middle of batch 0, which will run again", result


def test_a_stop_of_a_hung_query_is_not_called_done_and_its_restart_waits_for_the_end(
    spark, attached, recorder, source, tmp_path
):
    reached, go_on = threading.Event(), threading.Event()

    def hang(frame: Any, batch_id: int) -> None:
        reached.set()
        go_on.wait(60)

    query = writer(source, spark, tmp_path, "hung").foreachBatch(hang).start()
    waiter = run_aside(query.awaitTermination)
    assert reached.wait(30)
    stopped = recorder.command("stop", query.id, timeout_seconds=2)
    assert (stopped["state"], stopped["code"]) == ("failed", "stop_timed_out")
    assert recorder.command("restart", query.id)["code"] == "still_stopping"
    go_on.set()
    recorder.wait_for(lambda: recorder.of_type("terminated", runId=query.runId))
    recorder.wait_for(lambda: recorder.command("start", query.id)["state"] == "succeeded")
    recorder.wait_for(lambda: batches(recorder, query.runId) or recorder.of_type("idle", runId=query.runId))
    assert waiter.is_alive()
    query.stop()
    waiter.join(10)
    assert not waiter.is_alive()


def test_a_short_available_now_run_reports_its_trigger_between_two_polls(
    spark, attached, recorder, source, tmp_path
):
    query = writer(source, spark, tmp_path, "nightly").trigger(availableNow=True).start()
    query.awaitTermination()
    output = recorder.wait_for(
        lambda: [q for s in recorder.of_type("status") for q in s["queries"] if q["runId"] == query.runId]
    )
    assert any(entry.get("facts", {}).get("trigger") == "available_now" for entry in output)


def test_attaching_again_after_detaching_works(spark, recorder, tmp_path, monkeypatch):
    from listeners import attach

    monkeypatch.setenv("CONTROLPLANE_SPOOL_DIR", str(tmp_path / "spool"))
    first = attach.attach(spark, server=recorder.url, app="tests", token="t")
    assert attach.attach(spark.newSession()) is first
    first.detach()
    second = attach.attach(spark, server=recorder.url, app="tests", token="t")
    assert second is not first
    recorder.wait_for(lambda: len(recorder.of_type("app_started")) == 2)
    second.detach()


def test_detaching_puts_every_method_back(spark, recorder, tmp_path, monkeypatch):
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from listeners import attach

    monkeypatch.setenv("CONTROLPLANE_SPOOL_DIR", str(tmp_path / "spool"))
    before = (DataStreamWriter.start, DataStreamWriter.option, StreamingQuery.awaitTermination)
    attachment = attach.attach(spark, server=recorder.url, app="tests", token="t")
    assert (DataStreamWriter.start, DataStreamWriter.option, StreamingQuery.awaitTermination) != before
    attachment.detach()
    assert (DataStreamWriter.start, DataStreamWriter.option, StreamingQuery.awaitTermination) == before
    assert recorder.of_type("app_ended")


def fail(frame: Any, batch_id: int) -> None:
    raise RuntimeError("poison")


def run_aside(act: Callable[[], Any]) -> threading.Thread:
    def run() -> None:
        try:
            act()
        except Exception:
            pass

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
