"""Shapes without Spark: never an error, and no private value."""

import json
from types import SimpleNamespace

from listeners.protocol import redaction
from listeners.spark.shape import shape_of
from tests.unit.listeners.fake_spark import JavaQuery, Query, Text

SECRET = redaction.compile_regex("(?i)password|token")


def masked(text: str) -> str:
    return redaction.redact(text, SECRET)


def sink(description: str, options: str) -> SimpleNamespace:
    """A query that reports only its sink."""
    kind = SimpleNamespace(getName=lambda: "org.apache.spark.sql.x.KafkaTable$")
    plan = SimpleNamespace(writeOptions=lambda: SimpleNamespace(mkString=lambda separator: options))
    execution = SimpleNamespace(
        sink=lambda: SimpleNamespace(toString=lambda: description, getClass=lambda: kind),
        logicalPlan=lambda: plan,
        outputMode=lambda: Text("Update"),
    )
    return SimpleNamespace(streamingQuery=lambda: execution, name=lambda: "orders")


def test_query_without_answers_has_a_shape_of_unknowns() -> None:
    for query in (None, object(), Query(JavaQuery("q", "r"))):
        found = shape_of(query)
        assert (found["v"], found["sources"], found["operators"], found["sink"]) == (1, None, None, None)
        assert json.dumps(found)


def test_only_allowed_options_leave_the_driver_without_their_secrets() -> None:
    options = "topic -> orders\x1fkafka.sasl.jaas.config -> hunter2\x1fpath -> s3a://key:hunter2@bucket/p?token=hunter2"
    found = shape_of(sink("KafkaTable@1a2b3c4d", options), masked)["sink"]
    assert found["options"] == {"path": "s3a://bucket/p", "topic": "orders"}
    assert (found["type"], found["description"]) == ("KafkaTable", "KafkaTable")


def test_value_of_the_sessions_secret_key_is_masked() -> None:
    hidden = redaction.compile_regex("(?i)topic")
    found = shape_of(sink("x", "topic -> orders"), lambda text: redaction.redact(text, hidden))
    assert found["sink"]["options"] == {"topic": redaction.REDACTED}
    assert found["outputMode"] == "update"
