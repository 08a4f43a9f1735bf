"""What of a shape needs no Spark: it is never in the way, and nothing private leaves with it."""

import json
from types import SimpleNamespace

from listeners.protocol import redaction
from listeners.spark.shape import shape_of
from tests.unit.listeners.fake_spark import JavaQuery, Query, Text

SECRET = redaction.compiled("(?i)password|token")


def masked(text: str) -> str:
    return redaction.redact(text, SECRET)


def sink(description: str, options: str) -> SimpleNamespace:
    """A query that tells nothing but its sink."""
    kind = SimpleNamespace(getName=lambda: "org.apache.spark.sql.x.KafkaTable$")
    plan = SimpleNamespace(writeOptions=lambda: SimpleNamespace(mkString=lambda separator: options))
    execution = SimpleNamespace(
        sink=lambda: SimpleNamespace(toString=lambda: description, getClass=lambda: kind),
        logicalPlan=lambda: plan,
        outputMode=lambda: Text("Update"),
    )
    return SimpleNamespace(streamingQuery=lambda: execution, name=lambda: "orders")


def test_what_tells_nothing_has_a_shape_of_unknowns() -> None:
    for query in (None, object(), Query(JavaQuery("q", "r"))):
        found = shape_of(query)
        assert (found["v"], found["sources"], found["operators"], found["sink"]) == (1, None, None, None)
        assert json.dumps(found)


def test_only_options_on_the_list_leave_and_secrets_in_them_do_not() -> None:
    options = "topic -> orders\x1fkafka.sasl.jaas.config -> hunter2\x1fpath -> s3a://key:hunter2@bucket/p?token=hunter2"
    found = shape_of(sink("KafkaTable@1a2b3c4d", options), masked)["sink"]
    assert found["options"] == {"path": "s3a://bucket/p", "topic": "orders"}
    assert (found["type"], found["description"]) == ("KafkaTable", "KafkaTable")


def test_a_key_that_the_session_calls_secret_loses_its_value() -> None:
    hidden = redaction.compiled("(?i)topic")
    found = shape_of(sink("x", "topic -> orders"), lambda text: redaction.redact(text, hidden))
    assert found["sink"]["options"] == {"topic": redaction.REDACTED}
    assert found["outputMode"] == "update"
