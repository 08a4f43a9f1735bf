"""Reading the request that starts a query on Connect."""

import pyspark.sql.connect.proto as proto
import pytest

from listeners.spark.connect.plan import facts, leaves, seconds_of, watermark_of


def request(**fields):
    return proto.WriteStreamOperationStart(**fields)


def reading(format, streaming, **options):
    source = proto.Read.DataSource(format=format, options=options)
    return proto.Relation(read=proto.Read(data_source=source, is_streaming=streaming))


def joined(left, right):
    return proto.Relation(join=proto.Join(left=left, right=right))


@pytest.mark.parametrize(
    ("interval", "seconds"),
    [
        ("2 seconds", 2.0),
        ("interval 1 minute 30 seconds", 90.0),
        ("500 milliseconds", 0.5),
        ("1 day 2 hours", 93600.0),
        ("0 seconds", 0.0),
        ("3 fortnights", None),
        ("soon", None),
    ],
)
def test_interval_is_parsed_as_in_spark(interval, seconds):
    assert seconds_of(interval) == seconds


@pytest.mark.parametrize(
    ("fields", "trigger"),
    [
        ({}, ("processing_time", 0.0)),
        ({"processing_time_interval": "2 seconds"}, ("processing_time", 2.0)),
        ({"available_now": True}, ("available_now", None)),
        ({"once": True}, ("once", None)),
        ({"continuous_checkpoint_interval": "1 second"}, ("continuous", 1.0)),
        ({"real_time_batch_duration": "5 minutes"}, ("real_time", 300.0)),
    ],
)
def test_trigger_has_the_names_of_a_classic_session(fields, trigger):
    found = facts(request(**fields))
    assert (found["trigger"], found["triggerInterval"]) == trigger


def test_option_names_are_case_insensitive():
    assert facts(request(options={"CheckpointLocation": "/c"}))["checkpoint"] == "/c"
    assert facts(request())["checkpoint"] is None


@pytest.mark.parametrize(
    ("fields", "sink"),
    [
        ({"format": "parquet", "path": "/out"}, "parquet[/out]"),
        ({"format": "json", "options": {"PATH": "/out"}}, "json[/out]"),
        ({"table_name": "sales"}, "table sales"),
        ({"format": "console"}, "console"),
        ({}, "default"),
        ({"foreach_batch": proto.StreamingForeachFunction()}, "ForeachBatchSink"),
        ({"foreach_writer": proto.StreamingForeachFunction()}, "ForeachSink"),
    ],
)
def test_sink_names_its_target(fields, sink):
    assert facts(request(**fields))["sink"] == sink


def test_longest_watermark_delay_counts():
    plan = reading("rate", True)
    for delay in ("10 seconds", "1 minute", "5 seconds"):
        plan = proto.Relation(with_watermark=proto.WithWatermark(input=plan, delay_threshold=delay))
    assert watermark_of(plan) == 60.0
    assert watermark_of(reading("rate", True)) is None


def test_inputs_are_stream_fixed_or_static():
    fixed = proto.Relation(local_relation=proto.LocalRelation(data=b"x"))
    table = proto.Relation(
        read=proto.Read(named_table=proto.Read.NamedTable(unparsed_identifier="dims"), is_streaming=False)
    )
    sql = proto.Relation(sql=proto.SQL(query="SELECT 1"))
    plan = joined(
        joined(reading("kafka", True, topic="t"), fixed), joined(joined(table, sql), reading("csv", False))
    )
    assert [(leaf.kind, leaf.name) for leaf in leaves(plan)] == [
        ("stream", "kafka"),
        ("fixed", "local_relation"),
        ("static", "table dims"),
        ("static", "sql"),
        ("static", "csv"),
    ]


def test_static_data_in_a_subquery_is_found():
    plan = proto.Relation(
        with_relations=proto.WithRelations(root=reading("rate", True), references=[reading("parquet", False)])
    )
    assert [leaf.name for leaf in leaves(plan) if leaf.kind == "static"] == ["parquet"]


def test_inputs_of_a_long_plan_are_found():
    plan = reading("rate", True)
    for _ in range(40):
        plan = proto.Relation(subquery_alias=proto.SubqueryAlias(input=plan))
    assert [leaf.kind for leaf in leaves(plan)] == ["stream"]
