"""Redaction: secrets stay in the driver."""

import pytest

from listeners.protocol.redaction import MAX_TEXT_CHARS, compile_regex, redact

KEYS = compile_regex(None)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("password=hunter2 next", "password=*********(redacted) next"),
        ("fs.s3a.access.key: AKIA123, more", "fs.s3a.access.key: *********(redacted), more"),
        ('{"sasl.jaas.token":"abc def"}', '{"sasl.jaas.token":*********(redacted)}'),
        ("batch=5 took 3 s", "batch=5 took 3 s"),
        ("at org.apache.spark.Foo(Foo.scala:12)", "at org.apache.spark.Foo(Foo.scala:12)"),
    ],
)
def test_only_values_of_secret_keys_are_masked(text, kept):
    assert redact(text, KEYS) == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (
            "java.sql.SQLException: password=hunter2 no",
            "java.sql.SQLException: password=*********(redacted) no",
        ),
        (
            "url=jdbc:postgresql://h/db?password=hunter2&user=a",
            "url=jdbc:postgresql://h/db?password=*********(redacted)&user=a",
        ),
        ("RuntimeError: token: x", "RuntimeError: token: *********(redacted)"),
        ("{'opts': 'token=x'}", "{'opts': 'token=*********(redacted)}"),
        (r"{\"password\":\"hunter2 x\",", r"{\"password\":*********(redacted),"),
        (r'password="a\"b c" d', "password=*********(redacted) d"),
        ("a='x y' password='hunter2 b'", "a='x y' password=*********(redacted)"),
        ("mongodb://u:pw@h/x failed", "mongodb://h/x failed"),
        ("s3a://key:se/cret@bucket/a", "s3a://bucket/a"),
        ("abfss://box@account/x and hdfs://n:8020/a@b", "abfss://box@account/x and hdfs://n:8020/a@b"),
    ],
)
def test_secret_inside_the_value_of_another_key_is_masked(text, kept):
    assert redact(text, KEYS) == kept


@pytest.mark.parametrize(
    "piece", ["a", "a:", "a ", "://a:", 'token="', "token='\\", "\\", "token=\\\"x\\'", "://a:b/"]
)
def test_adversarial_text_is_processed_in_linear_time(piece):
    assert len(redact("a" + piece * MAX_TEXT_CHARS, KEYS)) > 0


def test_sessions_regex_applies_and_an_invalid_one_falls_back():
    assert redact("pin=1234 password=x", compile_regex("(?i)pin")) == "pin=*********(redacted) password=x"
    assert redact("password=x", compile_regex("(")) == "password=*********(redacted)"


def test_long_text_keeps_both_ends():
    text = "head" + "x" * 2 * MAX_TEXT_CHARS + "Caused by: tail"
    short = redact(text, KEYS)
    assert (
        short.startswith("head") and short.endswith("Caused by: tail") and len(short) < MAX_TEXT_CHARS + 100
    )
