"""A table of changes, by the rules of Spark's guide and by what Spark did where it was tried."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.health.failures import explain
from controlplane.shapes.comparison import CHECKS, compare_shapes
from controlplane.shapes.findings import ChangeEffect, ShapeVerdict, effect_of, verdict_of
from tests.unit.controlplane.shapes.shapes import (
    CONF,
    ROCKSDB,
    STREAMING,
    WATERMARK,
    aggregate,
    configured,
    deduplicate,
    files,
    functional,
    join,
    key,
    processor,
    shape,
    sink,
    source,
    topics,
)

OK, CARE, NO = ShapeVerdict.ALLOWED, ShapeVerdict.CONSEQUENCES, ShapeVerdict.NOT_ALLOWED
RUNS, IGNORED, HARMS, FAILS, OPEN = (
    ChangeEffect.RUNS,
    ChangeEffect.IGNORED,
    ChangeEffect.HARMS,
    ChangeEffect.FAILS,
    ChangeEffect.UNKNOWN,
)
KEYS = "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE"
VALUES = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"
OTHER = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
COUNT, MAX, SUM = ["count(1)", "long"], ["max(v)", "long"], ["sum(v)", "long"]
EVOLVING = {
    STREAMING + "queryEvolution.enableSourceEvolution": "true",
    STREAMING + "offsetLog.formatVersion": "2",
}
ASYNC = "asyncprogresstrackingenabled"


def on(version: str, *operators, **more):
    return shape(*operators, spark=version, **more)


def kafka(**options: str):
    return shape(sources=[topics("a", **options)])


def named(*names: str):
    return shape(sources=[source(name, name=name) for name in names], conf={**CONF, **EVOLVING})


def writes(kind: str = "KafkaTable", **options: str):
    return shape(sink=sink(kind, options=options))


TWO = shape(sources=[source(), source("returns")])
CASES = {
    # sources
    "a source more": (shape(), TWO, "sources.count", NO, FAILS, None),
    "a source less": (TWO, shape(), "sources.count", NO, FAILS, None),
    "sources in another order": (
        TWO, shape(sources=[source("returns"), source()]), "sources.order", NO, FAILS, None
    ),
    "sources of Kafka in another order": (
        shape(sources=[topics("a"), topics("b")]), shape(sources=[topics("b"), topics("a")]),
        "sources.order", NO, HARMS, None,
    ),
    "another kind of source": (shape(), kafka(), "sources.type", NO, FAILS, None),
    "another format of files": (shape(), shape(sources=[source(format="csv")]), "sources.type", CARE, HARMS, None),
    "another directory": (shape(), shape(sources=[source("elsewhere")]), "sources.input", NO, FAILS, None),
    "a rate limit": (
        shape(), shape(sources=[source(options={"path": "/in/orders", "maxfilespertrigger": "5"})]),
        "sources.pace", OK, RUNS, None,
    ),
    "a rate limit of Kafka": (kafka(), kafka(maxoffsetspertrigger="9"), "sources.pace", OK, RUNS, None),
    "other starting offsets": (kafka(), kafka(startingoffsets="latest"), "sources.beginning", OK, IGNORED, None),
    "a topic more": (kafka(), shape(sources=[topics("a,b")]), "sources.input", CARE, RUNS, None),
    "a topic less": (shape(sources=[topics("a,b")]), kafka(), "sources.input", NO, FAILS, "KAFKA_DATA_LOSS"),
    "another cluster": (kafka(), kafka(**{"kafka.bootstrap.servers": "b:1"}), "sources.input", CARE, OPEN, None),
    "failOnDataLoss": (kafka(), kafka(failondataloss="false"), "sources.option", CARE, RUNS, None),
    "a source less in the offset log of version 2": (
        shape(sources=[source(), source("b")], conf={**CONF, STREAMING + "offsetLog.formatVersion": "2"}),
        shape(conf={**CONF, STREAMING + "offsetLog.formatVersion": "2"}),
        "sources.count", NO, HARMS, None,
    ),
    "named sources in another order": (named("a", "b"), named("b", "a"), None, OK, RUNS, None),
    "a named source more": (named("a"), named("a", "b"), "sources.name", CARE, RUNS, None),
    "a named source renamed": (named("a"), named("b"), "sources.name", NO, HARMS, None),
    # sink
    "files to Kafka": (
        shape(sink=files(), outputMode="append"), shape(sink=sink("KafkaTable"), outputMode="append"),
        "sink.type", CARE, RUNS, None,
    ),
    "Kafka to files": (
        shape(outputMode="append"), shape(sink=files(), outputMode="append"), "sink.type", NO, HARMS, None
    ),
    "Kafka to foreach": (writes(), writes("ForeachWriterTable"), "sink.type", CARE, RUNS, None),
    "files to foreachBatch": (
        shape(sink=files(), outputMode="append"), shape(outputMode="append"), "sink.type", CARE, RUNS, None
    ),
    "another output directory": (
        shape(sink=files(), outputMode="append"), shape(sink=files("o2"), outputMode="append"),
        "sink.path", NO, HARMS, None,
    ),
    "the same directory under another scheme": (
        shape(sink=files(), outputMode="append"),
        shape(sink=sink("FileStreamSink", description="FileSink[/out]", format="Parquet"), outputMode="append"),
        None, OK, RUNS, None,
    ),
    "another format of output": (
        shape(sink=files(), outputMode="append"), shape(sink=files(format="JSON"), outputMode="append"),
        "sink.format", CARE, HARMS, None,
    ),
    "another output topic": (writes(topic="a"), writes(topic="b"), "sink.parameters", CARE, RUNS, None),
    # what goes into it
    "complete to update": (
        shape(aggregate(), outputMode="complete"), shape(aggregate()), "outputMode", CARE, RUNS, None
    ),
    "append without a watermark": (
        shape(aggregate()), shape(aggregate(), outputMode="append"), "outputMode", NO, FAILS,
        "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION",
    ),
    "complete without an aggregation": (
        shape(), shape(outputMode="complete"), "outputMode", NO, FAILS,
        "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION",
    ),
    "complete into files": (
        shape(aggregate(), sink=files(), outputMode="append", watermarks=[WATERMARK]),
        shape(aggregate(), sink=files(), outputMode="complete", watermarks=[WATERMARK]),
        "outputMode", NO, FAILS, "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE",
    ),
    "a filter": (shape(), shape(filters=["0123456789ab"]), "filters", OK, RUNS, None),
    "a column more into files": (
        shape(sink=files(), outputMode="append"),
        shape(sink=files(), outputMode="append", outputSchema=[["k", "string"], ["n", "long"], ["m", "long"]]),
        "projection", CARE, RUNS, None,
    ),
    "a column of another type into files": (
        shape(sink=files(), outputMode="append"),
        shape(sink=files(), outputMode="append", outputSchema=[["k", "string"], ["n", "double"]]),
        "projection", CARE, HARMS, None,
    ),
    "a column more for a function": (
        shape(), shape(outputSchema=[["k", "string"]]), "projection", CARE, OPEN, None
    ),
    # operators
    "a stateful operator in a stateless query": (
        shape(), shape(aggregate()), "operators", NO, FAILS, "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
    ),
    "a stateful operator less": (shape(aggregate()), shape(), "operators", NO, FAILS, OTHER),
    "a stateful operator replaced": (shape(aggregate()), shape(deduplicate(key("k"))), "operators", NO, FAILS, OTHER),
    "a stateful operator upstream": (
        shape(aggregate()), shape(aggregate(), deduplicate(key("k"))), "operators", NO, FAILS, OTHER
    ),
    "a stateful operator less on Spark 3": (
        on("3.5.9", aggregate()), on("3.5.9"), "operators", NO, HARMS, None
    ),
    "a stateful operator more on Spark 3": (
        on("3.5.9"), on("3.5.9", aggregate()), "operators", NO, FAILS, None
    ),
    "another kind of deduplication": (
        shape(deduplicate(key("k"))),
        shape(deduplicate(key("k"), kind="deduplicate_within_watermark")), "operators", NO, FAILS, OTHER,
    ),
    # aggregations
    "a grouping key more": (
        shape(aggregate()), shape(aggregate(keys=[key("k"), key("b")])), "aggregation.keys", NO, FAILS, KEYS
    ),
    "a grouping key of another type": (
        shape(aggregate()), shape(aggregate(keys=[key("k", "long")])), "aggregation.keys", NO, FAILS, KEYS
    ),
    "a grouping key of another type on Spark 3": (
        on("3.5.9", aggregate()), on("3.5.9", aggregate(keys=[key("k", "long")])), "aggregation.keys", NO, FAILS, None
    ),
    "a grouping key renamed": (
        shape(aggregate()), shape(aggregate(keys=[key("name", of="k")])), "aggregation.keys", OK, RUNS, None
    ),
    "a grouping key made in another way": (
        shape(aggregate()), shape(aggregate(keys=[key("k", of="upper(k)")])), "aggregation.keys", NO, HARMS, None
    ),
    "another window": (
        shape(aggregate(keys=[key("window", of="w(1)")]), watermarks=[WATERMARK]),
        shape(aggregate(keys=[key("window", of="w(2)")]), watermarks=[WATERMARK]),
        "aggregation.window", CARE, HARMS, None,
    ),
    "an aggregate more": (
        shape(aggregate(COUNT, SUM)), shape(aggregate(COUNT, SUM, MAX)), "aggregation.values", NO, FAILS, VALUES
    ),
    "sum to max": (
        shape(aggregate(COUNT, SUM)), shape(aggregate(COUNT, MAX)), "aggregation.values", NO, HARMS, None
    ),
    "sum to max on Spark 3": (
        on("3.5.9", aggregate(COUNT, SUM)), on("3.5.9", aggregate(COUNT, MAX)), "aggregation.values", NO, HARMS, None
    ),
    "aggregates reordered": (
        shape(aggregate(COUNT, SUM)), shape(aggregate(SUM, COUNT)), "aggregation.values", NO, HARMS, None
    ),
    "aggregates reordered on Spark 3, which compares what may be null": (
        on("3.5.9", aggregate(COUNT, SUM)), on("3.5.9", aggregate(SUM, COUNT)), "aggregation.values", NO, FAILS, None
    ),
    "an aggregate to avg": (
        shape(aggregate(COUNT, SUM)), shape(aggregate(["avg(v)", "double"])), "aggregation.values", NO, FAILS, VALUES
    ),
    "an aggregate that nobody knows": (
        shape(aggregate(COUNT)), shape(aggregate(["my_sketch(v)", "long"])), "aggregation.values", NO, FAILS, VALUES
    ),
    "a result that is dropped further on": (
        shape(aggregate(COUNT, SUM, state=[COUNT])), shape(aggregate(COUNT, MAX, state=[COUNT])),
        "aggregation.values", OK, RUNS, None,
    ),
    "a result that is used further on": (
        shape(aggregate(COUNT, SUM, state=[COUNT])), shape(aggregate(COUNT, SUM)),
        "aggregation.values", NO, FAILS, VALUES,
    ),
    # deduplication, joins, arbitrary state
    "deduplication by more columns": (
        shape(deduplicate(key("k"))), shape(deduplicate(key("k"), key("v", "long"))),
        "deduplication.keys", NO, FAILS, KEYS,
    ),
    "deduplication by another column": (
        shape(deduplicate(key("k"))), shape(deduplicate(key("c"))), "deduplication.keys", NO, HARMS, None
    ),
    "inner to outer join": (
        shape(join()), shape(join(joinType="LeftOuter")), "join.type", NO, HARMS, None
    ),
    "inner to outer join on Spark 3": (
        on("3.5.9", join()), on("3.5.9", join(joinType="LeftOuter")), "join.type", NO, FAILS, None
    ),
    "another join key of another type": (
        shape(join()), shape(join(keys=[key("id", "long")], rightKeys=[key("id", "long")])),
        "join.keys", NO, FAILS, KEYS,
    ),
    "another join key of the same type": (
        shape(join()), shape(join(keys=[key("v")], rightKeys=[key("v")])), "join.keys", NO, HARMS, None
    ),
    "a column more in a join's state": (
        shape(join()), shape(join(state=[["string", "timestamp", "long"], ["string", "long", "timestamp"]])),
        "join.schema", NO, FAILS, VALUES,
    ),
    "another time bound of a join": (
        shape(join()), shape(join(condition="((k = k) AND (ts >= (ts + 1)))")), "join.condition", CARE, OPEN, None
    ),
    "another state of a function": (
        shape(functional()), shape(functional(state=["struct<string>"])), "state.schema", NO, FAILS, VALUES
    ),
    "a timeout where there was none": (
        shape(functional()), shape(functional(timeout="EventTimeTimeout")), "state.timeout", NO, FAILS, VALUES
    ),
    "another timeout": (
        shape(functional(timeout="ProcessingTimeTimeout")), shape(functional(timeout="EventTimeTimeout")),
        "state.timeout", NO, HARMS, None,
    ),
    "another time mode of a processor": (
        shape(processor()), shape(processor(timeMode="EventTime")), "state", NO, FAILS,
        "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
    ),
    # watermarks and settings
    "another delay": (
        shape(aggregate(), watermarks=[WATERMARK]),
        shape(aggregate(), watermarks=[{"column": "ts", "delay": "1 hours"}]),
        "watermark", OK, RUNS, None,
    ),
    "a watermark": (shape(aggregate()), shape(aggregate(), watermarks=[WATERMARK]), "watermark", OK, RUNS, None),
    "no watermark any more": (
        shape(aggregate(), watermarks=[WATERMARK]), shape(aggregate()), "watermark", CARE, HARMS, None
    ),
    "partitions": (
        configured(aggregate()), configured(aggregate(), partitions="10"),
        "settings.shufflePartitions", CARE, IGNORED, None,
    ),
    "partitions of a stateless query": (
        shape(), configured(partitions="10"), "settings.shufflePartitions", OK, IGNORED, None
    ),
    "provider": (
        configured(aggregate()), configured(aggregate(), provider=ROCKSDB),
        "settings.providerClass", CARE, IGNORED, None,
    ),
    "policy of watermarks": (
        configured(join()), configured(join(), multipleWatermarkPolicy="max"),
        "settings.multipleWatermarkPolicy", CARE, IGNORED, None,
    ),
    "changelog checkpointing": (
        shape(aggregate()),
        configured(aggregate(), stateStore__rocksdb__changelogCheckpointing__enabled="true"),
        "settings.free", OK, RUNS, None,
    ),
    "no check of the state's schema": (
        shape(aggregate()), configured(aggregate(), stateStore__stateSchemaCheck="false"),
        "settings.stateSchemaCheck", CARE, OPEN, None,
    ),
    "source evolution on": (
        shape(), configured(queryEvolution__enableSourceEvolution="true"), "settings.sourceEvolution", NO, FAILS,
        "STREAMING_QUERY_EVOLUTION_ERROR.CANNOT_ENABLE_ON_EXISTING_CHECKPOINT",
    ),
    "source evolution off": (
        named("a"), shape(sources=[source("a")], conf={**CONF, STREAMING + "offsetLog.formatVersion": "2"}),
        "settings.sourceEvolution", NO, FAILS, None,
    ),
    # trigger, progress, version, name
    "trigger": (shape(), shape(trigger={"kind": "available_now", "seconds": None}), "trigger", OK, RUNS, None),
    "interval": (shape(), shape(trigger={"kind": "processing_time", "seconds": 60.0}), None, OK, RUNS, None),
    "continuous over files": (shape(), shape(trigger={"kind": "continuous"}), "trigger", NO, FAILS, None),
    "continuous over Kafka": (
        kafka(), shape(sources=[topics("a")], trigger={"kind": "continuous"}), "trigger", CARE, RUNS, None
    ),
    "real-time mode": (shape(), shape(trigger={"kind": "real_time"}), "trigger", CARE, OPEN, None),
    "asynchronous progress off": (writes(**{ASYNC: "true"}), writes(), "progressTracking", NO, FAILS, None),
    "asynchronous progress off after batches without gaps": (
        writes(**{ASYNC: "true", "asyncprogresstrackingcheckpointintervalms": "0"}), writes(),
        "progressTracking", OK, RUNS, None,
    ),
    "asynchronous progress on": (writes(), writes(**{ASYNC: "true"}), "progressTracking", CARE, RUNS, None),
    "a newer Spark": (on("3.5.9", aggregate()), shape(aggregate()), "spark", OK, RUNS, None),
    "a join on its way to Spark 4": (on("3.5.9", join()), shape(join()), "spark", NO, FAILS, VALUES),
    "an older Spark": (shape(), on("3.5.9"), "spark", CARE, OPEN, None),
    "an older Spark that cannot read the logs": (
        shape(conf={**CONF, STREAMING + "offsetLog.formatVersion": "2"}), on("3.5.9", conf={}),
        "spark", NO, FAILS, "INVALID_LOG_VERSION",
    ),
    "name": (shape(), shape(name="other"), "name", OK, RUNS, None),
    "operators that are not told": (shape(aggregate()), shape(operators=None), "unknown", CARE, OPEN, None),
    "nothing": (shape(aggregate(), join()), shape(aggregate(), join()), None, OK, RUNS, None),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_change_falls_under_its_rule(case: str) -> None:
    old, new, rule, verdict, effect, condition = CASES[case]
    findings = compare_shapes(old, new)
    assert (verdict_of(findings), effect_of(findings)) == (verdict, effect), findings
    assert (findings[0].rule if findings else None) == rule
    assert next((f.condition for f in findings if f.condition), None) == condition


@pytest.mark.parametrize("case", CASES)
def test_a_query_without_a_change_has_no_finding(case: str) -> None:
    old = CASES[case][0]
    assert compare_shapes(old, old) == []


def test_what_fails_comes_first_and_counts_for_all() -> None:
    old = shape(aggregate(), sources=[source()])
    new = shape(aggregate(COUNT), sources=[source(), source("b")], name="other", filters=["x"])
    findings = compare_shapes(old, new)
    assert [finding.verdict for finding in findings] == [NO, NO, OK, OK]
    assert (verdict_of(findings), effect_of(findings)) == (NO, FAILS)


def test_without_the_schema_check_what_would_fail_does_harm() -> None:
    unchecked = configured(aggregate(keys=[key("k", "long")]), stateStore__stateSchemaCheck="false")
    (keys, *_) = compare_shapes(shape(aggregate()), unchecked)
    assert (keys.rule, keys.effect, keys.condition) == ("aggregation.keys", HARMS, None)


def test_what_the_checkpoint_pinned_counts_and_not_what_the_old_program_asked_for() -> None:
    old = replace(configured(aggregate(), partitions="10"), pinned={"spark.sql.shuffle.partitions": "200"})
    assert compare_shapes(old, shape(aggregate())) == []


def test_findings_with_consequences_have_effect_and_remedy() -> None:
    for old, new, *_ in CASES.values():
        for finding in compare_shapes(old, new):
            assert finding.spark.endswith("."), finding
            assert finding.verdict is not NO or finding.remedy.endswith("."), finding


def test_every_condition_that_is_predicted_is_one_that_we_explain() -> None:
    predicted = {
        f.condition for old, new, *_ in CASES.values() for f in compare_shapes(old, new) if f.condition
    }
    assert len(predicted) > 8
    assert {name for name in predicted if explain(f"[{name}] x").retry != "never"} == set()


@given(st.sampled_from(sorted(CASES)), st.sampled_from(sorted(CASES)))
def test_any_two_shapes_can_be_compared(item: str, other: str) -> None:
    findings = compare_shapes(CASES[item][0], CASES[other][1])
    assert verdict_of(findings) in ShapeVerdict
    assert len({check.__name__ for check in CHECKS}) == len(CHECKS)
