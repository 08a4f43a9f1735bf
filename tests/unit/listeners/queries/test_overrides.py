"""Overrides: accepted values, and refusals before anything is stopped."""

import functools

import pytest

from listeners.protocol.errors import CommandError
from listeners.queries.overrides import check_parameters, interval_of, parse_interval
from listeners.spark.engine import spark_interval


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("10 seconds", 10.0),
        ("10s", 10.0),
        ("500 milliseconds", 0.5),
        ("500ms", 0.5),
        ("1 Minute", 60.0),
        ("1.5 hours", 5400.0),
        ("7 days", 604800.0),
        (2.5, 2.5),
        (0, 0.0),
        ("0 seconds", 0.0),
    ],
)
def test_interval_may_be_written_as_in_spark_or_shorter(value, seconds):
    assert parse_interval(value) == seconds


@pytest.mark.parametrize(
    "value",
    ["", "soon", "10", "-1 second", "8 days", "1 month", True, float("nan"), -1, None, ["10 s"], {"a": 1}],
)
def test_invalid_interval_is_refused_with_an_example(value):
    with pytest.raises(CommandError, match="such as 10 seconds") as caught:
        parse_interval(value)
    assert caught.value.refused and caught.value.code == "unsupported_override"


def test_spark_parses_the_written_interval():
    assert spark_interval(0.2) == "200 milliseconds" and spark_interval(60.0) == "60000 milliseconds"


def test_recorded_writer_accepts_only_a_trigger():
    assert interval_of({}, "once") is None
    assert interval_of({"trigger": "1 s"}, "processing_time") == 1.0
    with pytest.raises(CommandError, match="not rate; register a factory"):
        interval_of({"trigger": "1 s", "rate": 1}, "processing_time")
    with pytest.raises(CommandError, match="this query's is unknown"):
        interval_of({"trigger": "1 s"}, None)


def plain(rate=1, *, topic): ...


def anything(**values): ...


@pytest.mark.parametrize(
    ("factory", "values", "message"),
    [
        (plain, {"topic": "a"}, None),
        (plain, {"topic": "a", "rate": 2}, None),
        (plain, {}, "needs topic"),
        (plain, {"topic": "a", "speed": 2}, "no parameter speed; its parameters: rate, topic"),
        (anything, {"speed": 2}, None),
        (functools.partial(plain, topic="b"), {"rate": 3}, None),
        (lambda: None, {"speed": 2}, "its parameters: none"),
        (print, {}, None),
    ],
)
def test_factory_is_checked_by_its_signature(factory, values, message):
    if message is None:
        check_parameters(factory, "orders", values)
    else:
        with pytest.raises(CommandError, match=message):
            check_parameters(factory, "orders", values)
