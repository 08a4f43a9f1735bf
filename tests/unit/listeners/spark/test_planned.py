"""The planned query, as far as no JVM is needed; the rest is in tests/spark/test_inventory.py."""

from types import SimpleNamespace

import pytest

from listeners.spark.planned import Planned
from tests.unit.listeners.fake_spark import Text


def writer(options="", **fields):
    """A writer whose Java side has these private fields."""
    found = {
        "source": "parquet",
        "extraOptions": SimpleNamespace(mkString=lambda separator: options),
        "outputMode": Text("Append"),
        **fields,
    }

    def field(name):
        if name not in found:
            raise AttributeError(name)
        return SimpleNamespace(setAccessible=lambda yes: None, get=lambda java: found[name])

    java = SimpleNamespace(getClass=lambda: SimpleNamespace(getDeclaredField=field))
    below = SimpleNamespace(isDefined=lambda: True, get=lambda: "/all")
    session = SimpleNamespace(conf=lambda: SimpleNamespace(getOption=lambda name: below))
    frame = SimpleNamespace(_jdf=SimpleNamespace(sparkSession=lambda: session))
    return SimpleNamespace(_df=frame, _jwrite=java)


def planned(options="", method="start", args=(), fields=None, **kwargs):
    return Planned(writer(options, **(fields or {})), method, args, kwargs)


def test_arguments_of_the_start_override_earlier_options():
    found = planned(
        "path -> /old\x1fcheckpointLocation -> /ck\x1fqueryName -> old",
        args=("/new", "JSON", "update"),
        queryName="new",
        checkpointLocation="/ck2",
    )
    assert (found.name(), found.checkpoint()) == ("new", "/ck2")
    assert found.outputMode().toString() == "update"
    sink = found.sink()
    assert (sink["type"], sink["format"], sink["description"]) == ("FileStreamSink", "JSON", "FileSink[/new]")
    assert sink["options"]["path"] == "/new"


def test_earlier_options_apply_without_arguments():
    found = planned("path -> /old\x1fcheckpointlocation -> /ck\x1fqueryname -> old")
    assert (found.name(), found.checkpoint(), found.outputMode().toString()) == ("old", "/ck", "Append")
    assert found.sink()["description"] == "FileSink[/old]"


def test_checkpoint_is_below_the_common_location_by_name():
    assert planned(queryName="orders").checkpoint() == "/all/orders"
    assert planned().checkpoint() is None


@pytest.mark.parametrize(
    ("source", "type"),
    [
        ("noop", "NoopTable"),
        ("foreachBatch", "ForeachBatchSink"),
        ("kafka", "KafkaTable"),
        ("delta", None),
        ("parquet", None),
    ],
)
def test_sink_is_known_only_for_known_classes(source, type):
    sink = planned(fields={"source": source}).sink()
    assert (sink and sink["type"]) == type


def test_sink_of_a_table_is_unknown():
    found = planned(method="toTable", args=("orders",), path="/somewhere", format="parquet")
    assert found.sink() is None


def test_secret_options_are_left_out():
    sink = planned("topic -> t\x1fkafka.sasl.jaas.config -> hunter2", fields={"source": "kafka"}).sink()
    assert sink["options"] == {"topic": "t"}
