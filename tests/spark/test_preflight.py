"""Shapes of real queries, and preflight predictions compared with what Spark does on the checkpoint."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from controlplane.health.failures import explain
from controlplane.shapes.comparison import compare_shapes
from controlplane.shapes.findings import ChangeEffect, ShapeVerdict, When, effect_of, verdict_of
from controlplane.shapes.model import Shape, shape_from
from listeners.spark import causes
from listeners.spark.shape import shape_of
from tests.recording_server import RecordingServer
from tests.spark.goldens import configured

pytestmark = pytest.mark.spark

SCHEMA = "k string, v bigint, ts timestamp"
PARTITIONS = "spark.sql.shuffle.partitions"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
KEYS_DIFFER = "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"
VALUES_DIFFER = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"


class Bench:
    """Three inputs, which grow by a file a change, and places for checkpoints."""

    def __init__(self, spark: Any, directory: Path):
        self.spark, self.directory = spark, directory
        for name in ("a", "b", "c"):
            (directory / name).mkdir()
        self.files = 0
        self.runs: dict[int, Run] = {}
        self.feed()
        self.feed()

    def feed(self) -> None:
        number, self.files = self.files, self.files + 1
        for name in ("a", "b", "c"):
            rows = [
                {
                    "k": k,
                    "v": v + 1000 - number,
                    "ts": f"2026-01-01T{number // 60:02d}:{number % 60:02d}:{v:02d}Z",
                }
                for v, k in enumerate(["x", "y", "x", "z"])
            ]
            text = "\n".join(json.dumps(row) for row in rows)
            (self.directory / name / f".{number}.json").write_text(text)
            (self.directory / name / f".{number}.json").rename(self.directory / name / f"{number}.json")

    def read(self, name: str = "a", schema: str = SCHEMA, **options: str) -> Any:
        reader = self.spark.readStream.schema(schema).options(**options)
        return reader.json(str(self.directory / name))

    def late(self, name: str = "a", delay: str = "10 minutes") -> Any:
        return self.read(name).withWatermark("ts", delay).alias(name)


@dataclass
class Query:
    """How a query is built; `sink`: `collect` (foreachBatch), `files` and `other` (two directories), or a format."""

    build: Callable[[Bench], Any]
    mode: str = "append"
    sink: str = "collect"
    conf: dict[str, str] = field(default_factory=dict)
    trigger: dict[str, Any] = field(default_factory=lambda: {"availableNow": True})
    name: str | None = None


@dataclass
class Run:
    """What a run came to: its shape, its failure's text, the rows of each batch."""

    shape: dict[str, Any] | None
    error: str | None
    batches: list[list[Any]]


def run(bench: Bench, query: Query, checkpoint: str) -> Run:
    """Start the query on that checkpoint and let it read what there is."""
    with configured(bench.spark, query.conf):
        return _run(bench, query, str(bench.directory / checkpoint))


def _run(bench: Bench, query: Query, checkpoint: str) -> Run:
    batches: list[list[Any]] = []
    writer = query.build(bench).writeStream.outputMode(query.mode).trigger(**query.trigger)
    writer = writer.option("checkpointLocation", checkpoint)
    if query.name:
        writer = writer.queryName(query.name)
    if query.sink == "collect":
        writer = writer.foreachBatch(lambda rows, number: batches.append(sorted(map(tuple, rows.collect()))))
    elif query.sink in ("files", "other"):
        writer = writer.format("parquet").option("path", str(bench.directory / f"{query.sink}-output"))
    else:
        writer = writer.format(query.sink)
    handle = None
    try:
        handle = writer.start()
        handle.processAllAvailable() if "processingTime" in query.trigger else handle.awaitTermination(120)
        error = None
    except Exception as failure:
        error = causes.text_of(failure)
    shape = shape_of(handle) if handle is not None else None
    if handle is not None:
        handle.stop()
    return Run(shape, error, batches)


# -- queries ---------------------------------------------------------------------------------------


def counted(
    bench: Bench, *, keys: Any = ("k",), aggregates: Any = ("count(1) as n", "sum(v) as total"), **more: Any
) -> Any:
    from pyspark.sql import functions as F

    rows = bench.read(**more)
    return rows.groupBy(*[F.expr(key) for key in keys]).agg(*[F.expr(each) for each in aggregates])


def windowed(bench: Bench, delay: str = "10 minutes", length: str = "1 minute") -> Any:
    from pyspark.sql import functions as F

    return bench.late(delay=delay).groupBy(F.window("ts", length), "k").count()


def joined(bench: Bench, how: str = "inner", columns: Any = ("a.k", "b.v"), on: str = "a.k = b.k") -> Any:
    from pyspark.sql import functions as F

    bounds = f"{on} and a.ts >= b.ts and a.ts <= b.ts + interval 1 minute"
    chosen = [c for c in columns if how != "leftsemi" or c.startswith("a.")]
    return bench.late("a").join(bench.late("b"), F.expr(bounds), how).select(*chosen)


def grouped(bench: Bench, state: str = "n bigint") -> Any:
    def count(key: Any, parts: Iterator[Any], held: Any) -> Iterator[Any]:
        import pandas as pd

        yield pd.DataFrame({"k": [key[0]], "n": [sum(len(part) for part in parts)]})

    rows = bench.read().groupBy("k")
    return rows.applyInPandasWithState(count, "k string, n bigint", state, "append", "NoTimeout")


def display_root(bench: Bench, name: str = "a", **options: str) -> Any:
    return bench.read(name, **options)


COUNT = Query(counted, "complete")
JOIN = Query(joined)
PLAIN = Query(display_root)
FILES = Query(display_root, sink="files")
DISTINCT = Query(lambda b: b.late().dropDuplicates(["k"]))
WINDOWED = Query(windowed)
UNION = Query(lambda b: b.read().union(b.read("b")))


@dataclass
class Change:
    """`results`: whether the last batch after it equals that of a run over all the data from the beginning."""

    old: Query
    new: Query
    verdict: ShapeVerdict
    effect: ChangeEffect
    condition: str | None = None
    results: str | None = None


OK, CARE, NO = ShapeVerdict.ALLOWED, ShapeVerdict.CONSEQUENCES, ShapeVerdict.NOT_ALLOWED
#: Enough to see that predictions hold; the others are left to the long tests.
OFTEN = {
    "nothing",
    "source added",
    "sources swapped",
    "grouping key added",
    "watermark delay",
    "shuffle partitions",
}
CHANGES = {
    "nothing": Change(COUNT, COUNT, OK, ChangeEffect.RUNS, results="same"),
    "source added": Change(PLAIN, UNION, NO, ChangeEffect.FAILS),
    "source removed": Change(UNION, Query(display_root), NO, ChangeEffect.FAILS),
    "sources swapped": Change(
        UNION,
        Query(lambda b: b.read("b").union(b.read())),
        NO,
        ChangeEffect.FAILS,
    ),
    "another input directory": Change(PLAIN, Query(lambda b: b.read("c")), NO, ChangeEffect.FAILS),
    "rate limit": Change(PLAIN, Query(lambda b: b.read(maxFilesPerTrigger="1")), OK, ChangeEffect.RUNS),
    "grouping key added": Change(
        COUNT,
        Query(lambda b: counted(b, keys=("k", "v % 2 as odd")), "complete"),
        NO,
        ChangeEffect.FAILS,
        KEYS_DIFFER,
    ),
    "type of the grouping key": Change(
        COUNT,
        Query(lambda b: counted(b, keys=("v % 3 as k",)), "complete"),
        NO,
        ChangeEffect.FAILS,
        KEYS_DIFFER,
    ),
    "grouping key renamed": Change(
        COUNT,
        Query(lambda b: counted(b, keys=("k as name",)), "complete"),
        CARE,
        ChangeEffect.UNKNOWN,
        results="same",
    ),
    "grouping key made in another way": Change(
        COUNT,
        Query(lambda b: counted(b, keys=("upper(k) as k",)), "complete"),
        NO,
        ChangeEffect.HARMS,
        results="other",
    ),
    "aggregate added": Change(
        COUNT,
        Query(
            lambda b: counted(b, aggregates=("count(1) as n", "sum(v) as total", "max(v) as most")),
            "complete",
        ),
        NO,
        ChangeEffect.FAILS,
        VALUES_DIFFER,
    ),
    "aggregate of another type": Change(
        COUNT,
        Query(lambda b: counted(b, aggregates=("count(1) as n", "max(k) as total")), "complete"),
        NO,
        ChangeEffect.FAILS,
        VALUES_DIFFER,
    ),
    "aggregates in another order": Change(
        COUNT,
        Query(lambda b: counted(b, aggregates=("sum(v) as total", "count(1) as n")), "complete"),
        NO,
        ChangeEffect.HARMS,
        results="other",
    ),
    "sum became max": Change(
        COUNT,
        Query(lambda b: counted(b, aggregates=("count(1) as n", "max(v) as total")), "complete"),
        NO,
        ChangeEffect.HARMS,
        results="other",
    ),
    "output mode": Change(COUNT, Query(counted, "update"), CARE, ChangeEffect.RUNS),
    "filter added": Change(PLAIN, Query(lambda b: b.read().where("v > 1000")), OK, ChangeEffect.RUNS),
    "projection": Change(
        FILES,
        Query(lambda b: b.read().select("k", "v"), sink="files"),
        CARE,
        ChangeEffect.RUNS,
    ),
    "shuffle partitions": Change(
        COUNT, Query(counted, "complete", conf={PARTITIONS: "4"}), CARE, ChangeEffect.IGNORED, results="same"
    ),
    "provider HDFS to RocksDB": Change(
        COUNT,
        Query(counted, "complete", conf={PROVIDER: ROCKSDB}),
        CARE,
        ChangeEffect.IGNORED,
        results="same",
    ),
    "watermark delay": Change(WINDOWED, Query(lambda b: windowed(b, "1 minute")), OK, ChangeEffect.RUNS),
    "window length": Change(
        WINDOWED, Query(lambda b: windowed(b, length="2 minutes")), CARE, ChangeEffect.HARMS
    ),
    "deduplication by more columns": Change(
        DISTINCT,
        Query(lambda b: b.late().dropDuplicates(["k", "v"])),
        NO,
        ChangeEffect.FAILS,
        KEYS_DIFFER,
    ),
    "another kind of deduplication": Change(
        DISTINCT,
        Query(lambda b: b.late().dropDuplicatesWithinWatermark(["k"])),
        NO,
        ChangeEffect.FAILS,
        "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    ),
    "join inner to left outer": Change(JOIN, Query(lambda b: joined(b, "leftouter")), NO, ChangeEffect.HARMS),
    "join inner to semi": Change(
        JOIN, Query(lambda b: joined(b, "leftsemi")), NO, ChangeEffect.FAILS, VALUES_DIFFER
    ),
    "column used after a join": Change(
        JOIN, Query(lambda b: joined(b, columns=("a.k", "b.v", "a.v"))), NO, ChangeEffect.FAILS, VALUES_DIFFER
    ),
    "state of a function": Change(
        Query(grouped),
        Query(lambda b: grouped(b, "n bigint, m string")),
        NO,
        ChangeEffect.FAILS,
        VALUES_DIFFER,
    ),
    "stateful operator added": Change(
        Query(display_root, "update"),
        Query(counted, "update"),
        NO,
        ChangeEffect.FAILS,
        "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
    ),
    "stateful operator removed": Change(
        Query(counted, "update"),
        Query(display_root, "update"),
        NO,
        ChangeEffect.FAILS,
        "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    ),
    "files to foreachBatch": Change(FILES, Query(display_root), CARE, ChangeEffect.RUNS),
    "trigger": Change(
        COUNT,
        Query(counted, "complete", trigger={"processingTime": "0 seconds"}),
        OK,
        ChangeEffect.RUNS,
        results="same",
    ),
    "name": Change(COUNT, Query(counted, "complete", name="another"), OK, ChangeEffect.RUNS, results="same"),
}


@pytest.fixture(scope="module")
def bench(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(spark, tmp_path_factory.mktemp("preflight"))


def checkpoint_of(bench: Bench, query: Query, place: str) -> Run:
    """The query has run on the checkpoint at `place`; once for all changes of it, and then by a copy."""
    golden = bench.directory / f"golden-{id(query)}"
    if id(query) not in bench.runs:
        bench.runs[id(query)] = run(bench, query, golden.name)
    shutil.copytree(golden, bench.directory / place)
    return bench.runs[id(query)]


def shape(found: Run) -> Shape:
    assert found.shape is not None and found.error is None, found.error
    return shape_from(json.loads(json.dumps(found.shape)))


@pytest.mark.parametrize(
    "name", [n if n in OFTEN else pytest.param(n, marks=pytest.mark.long) for n in CHANGES]
)
def test_what_is_predicted_of_a_change_is_what_spark_does(bench: Bench, name: str) -> None:
    change, place = CHANGES[name], name.replace(" ", "-")
    old = shape(checkpoint_of(bench, change.old, place))
    new = shape(run(bench, change.new, f"{place}-elsewhere"))
    findings = compare_shapes(old, new)
    assert (verdict_of(findings), effect_of(findings)) == (change.verdict, change.effect), findings
    bench.feed()
    after = run(bench, change.new, place)
    assert (after.error is not None) == (change.effect is ChangeEffect.FAILS), after.error
    if change.condition is not None:
        predicted = {finding.condition for finding in findings if finding.effect is ChangeEffect.FAILS}
        assert {explain(after.error).condition} == {change.condition} == predicted
    if change.results is not None:
        whole = run(bench, change.new, f"{place}-whole").batches[-1]
        assert (after.batches[-1] == whole) == (change.results == "same"), (after.batches, whole)


def test_an_append_without_a_watermark_is_predicted_and_refused_at_start(bench: Bench) -> None:
    old = checkpoint_of(bench, COUNT, "append")
    findings = compare_shapes(shape(old), shape_from({**(old.shape or {}), "outputMode": "append"}))
    (refused,) = [finding for finding in findings if finding.verdict is NO]
    assert refused.when is When.START
    after = run(bench, Query(counted, "append"), "append")
    assert after.shape is None  # start() itself raised
    assert (
        explain(after.error).condition == refused.condition == "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"
    )


def test_files_in_another_directory_are_predicted_to_be_unreadable(bench: Bench) -> None:
    old = shape(checkpoint_of(bench, FILES, "moved"))
    new = shape(run(bench, Query(display_root, sink="other"), "moved-elsewhere"))
    (finding,) = compare_shapes(old, new)
    assert (finding.rule, finding.effect) == ("sink.path", ChangeEffect.HARMS)
    shutil.rmtree(bench.directory / "other-output")
    bench.feed()
    assert run(bench, Query(display_root, sink="other"), "moved").error is None
    with pytest.raises(Exception, match=r"BATCH_METADATA_NOT_FOUND|doesn't exist"):
        bench.spark.read.parquet(str(bench.directory / "other-output")).collect()


def test_settings_pinned_by_the_checkpoint_are_distinguished_from_those_of_the_program(bench: Bench) -> None:
    checkpoint_of(bench, COUNT, "pinned")
    found = shape(run(bench, Query(counted, "complete", conf={PARTITIONS: "4", PROVIDER: ROCKSDB}), "pinned"))
    assert (found.setting(PARTITIONS), found.in_force(PARTITIONS)) == ("4", "2")
    assert found.setting(PROVIDER) == ROCKSDB
    assert found.in_force(PROVIDER).endswith("HDFSBackedStateStoreProvider")


# -- shapes ----------------------------------------------------------------------------------------


def operators(bench: Bench, query: Query, place: str) -> list[dict[str, Any]]:
    return list((run(bench, query, place).shape or {})["operators"])


def test_the_shape_of_an_aggregation_has_keys_aggregates_and_state_schema(bench: Bench) -> None:
    found = run(
        bench, Query(lambda b: counted(b, keys=("upper(k) as key",)).select("key", "n"), "complete"), "s1"
    ).shape
    (operator,) = found["operators"]
    assert operator["keys"] == [{"name": "upper(k)", "type": "string", "of": "upper(k)"}]
    assert operator["values"] == [["count(1)", "long"], ["sum(v)", "long"]]
    assert operator["state"] == [["count(1)", "long"]]  # the sum is not read
    assert (found["outputMode"], found["trigger"]["kind"]) == ("complete", "available_now")
    assert found["outputSchema"] == [["key", "string"], ["n", "long"]]
    (source,) = found["sources"]
    assert (source["type"], source["format"]) == ("FileStreamSource", "json")
    assert source["options"] == {"path": str(bench.directory / "a")}


def test_the_shape_of_a_join_has_both_sides(bench: Bench) -> None:
    (operator,) = operators(bench, JOIN, "s2")
    assert (operator["kind"], operator["joinType"]) == ("join", "Inner")
    assert [key["name"] for key in operator["keys"] + operator["rightKeys"]] == ["k", "k"]
    assert operator["state"] == [["string", "timestamp"], ["string", "long", "timestamp"]]


def test_operators_are_listed_in_the_order_in_which_spark_numbers_them(bench: Bench) -> None:
    def build(b: Bench) -> Any:
        from pyspark.sql import functions as F

        return b.late().dropDuplicates(["k", "ts"]).groupBy(F.window("ts", "1 minute").alias("w")).count()

    query = Query(build, sink="noop")
    assert [each["kind"] for each in operators(bench, query, "s3")] == ["aggregate", "deduplicate"]
    listed = (bench.directory / "s3" / "state").glob("*/_metadata/metadata")
    names = {path.parts[-3]: json.loads(path.read_text().splitlines()[1]) for path in listed}
    assert [names[n]["operatorInfo"]["operatorName"] for n in sorted(names)] == ["stateStoreSave", "dedupe"]


def test_session_windows_and_deduplication_within_the_watermark_have_kinds_of_their_own(bench: Bench) -> None:
    def sessions(b: Bench) -> Any:
        from pyspark.sql import functions as F

        return b.late().groupBy(F.session_window("ts", "5 minutes"), "k").count()

    assert operators(bench, Query(sessions, sink="noop"), "s4")[0]["kind"] == "session_aggregate"
    within = Query(lambda b: b.late().dropDuplicatesWithinWatermark(["k"]), sink="noop")
    found = run(bench, within, "s5").shape
    assert found["operators"][0]["kind"] == "deduplicate_within_watermark"
    assert found["watermarks"] == [{"column": "ts", "delay": "10 minutes"}]


def test_a_batch_side_is_no_stateful_operator(bench: Bench) -> None:
    static = bench.spark.createDataFrame([("x", 1)], "k string, z int").groupBy("k").count()
    query = Query(lambda b: b.read().join(static, "k"), sink="noop")
    assert operators(bench, query, "s6") == []


def test_neither_secrets_nor_other_options_leave_with_a_shape(bench: Bench) -> None:
    def build(b: Bench) -> Any:
        from pyspark.sql import functions as F

        return (
            b.read(timestampFormat="yyyy", dateFormat="hunter2")
            .groupBy(F.expr("concat('password=hunter2', k)").alias("k"))
            .count()
        )

    found = run(bench, Query(build, "complete"), "s7").shape
    assert found["operators"][0]["keys"]
    assert "hunter2" not in json.dumps(found)


def test_the_agent_reports_the_shape_of_each_run_once(
    bench: Bench, attached: Any, recorder: RecordingServer
) -> None:
    def reported(run_id: str) -> list[dict[str, Any]]:
        entries = [
            q for status in recorder.of_type("status") for q in status["queries"] if q["runId"] == run_id
        ]
        return [q["facts"]["shape"] for q in entries if "shape" in q.get("facts", {})]

    def retold(how: str) -> bool:
        found = [q.get("facts", {}) for status in recorder.of_type("status") for q in status["queries"]]
        return any(facts.get("restart") == how for facts in found)

    writer = bench.read().writeStream.format("noop").queryName("shaped")
    query = writer.option("checkpointLocation", str(bench.directory / "s8")).start()
    (first,) = recorder.wait_for(lambda: reported(query.runId))
    assert first == shape_of(query)
    attached.registry.register_factory("shaped", lambda: query)  # facts are sent again
    attached.agent.request_probe()
    assert recorder.wait_for(lambda: retold("factory"))
    assert reported(query.runId) == [first]
    query.stop()


def test_an_ended_or_unknown_query_gives_what_is_known(bench: Bench) -> None:
    assert shape_of(object())["sources"] is None
    assert shape_of(None)["operators"] is None
