"""Inventories that the agent takes of real queries' checkpoints, and starts that it prevents."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from controlplane.checkpoints.analyzer import analyze
from controlplane.checkpoints.inventory.model import from_json
from controlplane.shapes.report import comparison_document
from listeners import attach
from listeners.checkpoints import timetable
from listeners.queries.preflight import QueryNotStarted
from listeners.spark.planned import Planned, planned_shape
from listeners.spark.shape import shape_of
from tests.recording_server import RecordingServer

pytestmark = pytest.mark.spark


@pytest.fixture
def rows(spark: Any, tmp_path: Path) -> Any:
    folder = tmp_path / "in put"
    folder.mkdir()
    (folder / "0.json").write_text('{"k": "x", "v": 1, "ts": "2026-01-01T00:00:00Z"}')
    return spark.readStream.schema("k STRING, v BIGINT, ts TIMESTAMP").json(str(folder))


def writer(rows: Any, tmp_path: Path, **options: str) -> Any:
    made = rows.writeStream.queryName("looked-at").option("checkpointLocation", str(tmp_path / "check point"))
    return made.options(**options)


def test_inventories_are_taken_after_the_start_on_request_and_at_the_end(
    attached: Any, recorder: RecordingServer, rows: Any, tmp_path: Path
) -> None:
    query = writer(rows, tmp_path, path=str(tmp_path / "out")).format("json").start()
    (started,) = recorder.wait_for(lambda: recorder.of_type("inventory", why="started"))
    assert (started["id"], started["runId"], started["name"]) == (query.id, query.runId, "looked-at")
    verdict = analyze(from_json(started["inventory"]), output=from_json(started["output"]))
    assert (verdict.verdict, verdict.query_id) == ("ok", query.id)
    result = recorder.command("inventory", query.id, timeout_seconds=20)
    assert result["state"] == "succeeded" and result["evidence"]["files"] > 5
    (asked,) = recorder.wait_for(lambda: recorder.of_type("inventory", why="asked"))
    assert asked["inventory"]["spark_version"] == "4.3.0" and asked["inventory"]["complete"]
    query.stop()
    (stopped,) = recorder.wait_for(lambda: recorder.of_type("inventory", why="stopped"))
    inventory = from_json(stopped["inventory"])
    assert analyze(inventory).last_committed_batch == 0
    assert any(path.endswith(".crc") for path in inventory.entries)
    assert [path for path in from_json(stopped["output"]).contents if path == "_spark_metadata/0"]


def test_an_inventory_is_taken_at_once_after_a_failure_and_shows_its_cause(
    attached: Any, recorder: RecordingServer, rows: Any, tmp_path: Path
) -> None:
    first = writer(rows, tmp_path).format("noop").trigger(availableNow=True).start()
    first.awaitTermination()
    (tmp_path / "check point/offsets/0").write_text("")
    (tmp_path / "check point/offsets/.0.crc").unlink()
    broken = writer(rows, tmp_path).format("noop").start()
    (document,) = recorder.wait_for(lambda: recorder.of_type("inventory", why="failed"))
    assert document["runId"] == broken.runId
    assert analyze(from_json(document["inventory"])).verdict == "broken"


def test_logs_of_a_running_query_are_read_again_after_a_batch(
    attached: Any, recorder: RecordingServer, rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timetable, "LOGS_SECONDS", 0.0)
    query = writer(rows, tmp_path).format("noop").start()
    query.processAllAvailable()
    recorder.wait_for(lambda: recorder.of_type("inventory", why="started"))
    (tmp_path / "in put/more.json").write_text('{"k":"z","v":3,"ts":"2026-01-01T00:01:00Z"}')
    query.processAllAvailable()
    (read, *_) = recorder.wait_for(lambda: recorder.of_type("checkpoint_logs", committed=1))
    assert (read["id"], read["runId"], read["planned"]) == (query.id, query.runId, 1)
    assert 0 < read["seconds"] < 5


def test_a_temporary_checkpoint_is_refused_with_the_reason(
    attached: Any, recorder: RecordingServer, rows: Any
) -> None:
    query = rows.writeStream.format("noop").start()
    result = recorder.command("inventory", query.id)
    assert (result["state"], result["code"]) == ("refused", "temporary_checkpoint")


# -- before a start --------------------------------------------------------------------------------


class Oracle:
    """Answers `/api/v1/preflight` by comparing with the shape that it holds; takes all other posts."""

    def __init__(self) -> None:
        self.old: dict[str, Any] | None = None
        self.asked: list[dict[str, Any]] = []
        oracle = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                answer: dict[str, Any] = {}
                if self.path == "/api/v1/preflight":
                    oracle.asked.append(json.loads(body))
                    document = comparison_document(oracle.old or {}, oracle.asked[-1]["shape"])
                    answer = {**document, "against": {"run_id": "5e6f", "at": 1.0}}
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            def do_GET(self) -> None:
                self.send_response(204)
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def oracle(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Oracle]:
    made = Oracle()
    monkeypatch.setenv("CONTROLPLANE_SPOOL_DIR", str(tmp_path / "spool"))
    monkeypatch.setenv("CONTROLPLANE_PREFLIGHT", "block")
    attachment = attach.attach(spark, server=made.url, app="tests", token="t")
    assert attachment
    yield made
    for query in spark.streams.active:
        query.stop()
    attachment.detach(timeout=0.2)
    made.close()


def test_in_block_mode_a_start_that_its_checkpoint_does_not_allow_is_prevented(
    spark: Any, oracle: Oracle, rows: Any, tmp_path: Path
) -> None:
    counted = writer(rows.groupBy("k").count(), tmp_path).outputMode("complete").format("noop")
    query = counted.start()
    oracle.old = json.loads(json.dumps(shape_of(query)))
    query.stop()
    counted.start().stop()  # as it was: nothing to object to
    assert (oracle.asked[0]["app"], oracle.asked[0]["name"]) == ("tests", "looked-at")
    assert oracle.asked[0]["checkpoint"] == str(tmp_path / "check point")
    changed = writer(rows.groupBy("v").count(), tmp_path).outputMode("complete").format("noop")
    with pytest.raises(QueryNotStarted, match=r"'looked-at' was not started.*run 5e6f") as refused:
        changed.start()
    assert "CONTROLPLANE_PREFLIGHT=report" in str(refused.value)
    assert [q.name for q in spark.streams.active] == []


def test_in_block_mode_the_checkpoint_s_own_query_is_compared_and_a_new_one_is_not(
    oracle: Oracle, rows: Any, tmp_path: Path
) -> None:
    counted = writer(rows.groupBy("k").count(), tmp_path).outputMode("complete").format("noop")
    query = counted.start()
    query.processAllAvailable()
    oracle.old = json.loads(json.dumps(shape_of(query)))
    query.stop()
    assert oracle.asked == [], "the first start continues nothing"
    counted.start().stop()
    assert [asked["query_id"] for asked in oracle.asked] == [query.id]
    changed = writer(rows.groupBy("v").count(), tmp_path).outputMode("complete").format("noop")
    for _ in range(2):
        with pytest.raises(QueryNotStarted):
            changed.start()
    shutil.rmtree(tmp_path / "check point")
    anew = changed.start()
    anew.processAllAvailable()
    assert anew.exception() is None and len(oracle.asked) == 3
    anew.stop()


def test_in_block_mode_a_server_that_does_not_answer_prevents_nothing(
    oracle: Oracle, rows: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    query = writer(rows, tmp_path).format("noop").start()
    query.processAllAvailable()
    query.stop()
    oracle.close()
    writer(rows, tmp_path).format("noop").start().stop()
    assert [r for r in caplog.records if "preflight" in r.message and "the query starts" in r.message]


def plans(rows: Any, tmp_path: Path) -> dict[str, tuple[Any, dict[str, Any]]]:
    from pyspark.sql import functions as F

    late = rows.withWatermark("ts", "1 minute")
    pair = F.expr("l.k = r.k and l.ts >= r.ts and l.ts <= r.ts + interval 1 minute")
    joined = late.alias("l").join(late.alias("r"), pair).select("l.k", "r.v")
    return {
        "files": (rows.writeStream, {"path": str(tmp_path / "o ut"), "format": "json", "partitionBy": "k"}),
        "aggregate": (
            rows.groupBy(F.upper("k")).agg(F.sum("v")).writeStream,
            {"format": "memory", "outputMode": "complete"},
        ),
        "windows": (late.groupBy(F.window("ts", "1 minute"), "k").count().writeStream, {"format": "noop"}),
        "join": (joined.writeStream, {"format": "noop"}),
        "batches": (rows.where("v > 0").writeStream.foreachBatch(lambda frame, number: None), {}),
    }


@pytest.mark.long
@pytest.mark.parametrize("kind", ["files", "aggregate", "windows", "join", "batches"])
def test_the_shape_before_the_start_is_that_of_the_run(rows: Any, tmp_path: Path, kind: str) -> None:
    made, arguments = plans(rows, tmp_path)[kind]
    made = made.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True)
    arguments = dict(arguments, queryName=f"planned_{kind}")
    before = planned_shape(Planned(made, "start", (), arguments), None)
    query = made.start(**arguments)
    query.awaitTermination()
    after = shape_of(query)
    assert comparison_document(after, json.loads(json.dumps(before)))["findings"] == []
    assert {**before, "sources": 0, "sink": 0} == {**after, "sources": 0, "sink": 0}
    assert [source["type"] for source in before["sources"]] == [source["type"] for source in after["sources"]]
    assert before["sink"]["type"] == after["sink"]["type"]
