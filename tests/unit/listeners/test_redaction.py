"""Secrets stay in the driver."""

import pytest

from listeners.redaction import MAX_TEXT_CHARS, compiled, redact

KEYS = compiled(None)


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
def test_values_behind_secret_keys_are_masked_and_nothing_else(text, kept):
    assert redact(text, KEYS) == kept


def test_the_sessions_own_regex_counts_and_a_broken_one_falls_back():
    assert redact("pin=1234 password=x", compiled("(?i)pin")) == "pin=*********(redacted) password=x"
    assert redact("password=x", compiled("(")) == "password=*********(redacted)"


def test_an_overlong_text_keeps_both_ends():
    text = "head" + "x" * 2 * MAX_TEXT_CHARS + "Caused by: tail"
    short = redact(text, KEYS)
    assert (
        short.startswith("head") and short.endswith("Caused by: tail") and len(short) < MAX_TEXT_CHARS + 100
    )
