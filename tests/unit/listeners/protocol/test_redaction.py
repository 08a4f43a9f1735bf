"""Redaction: secrets stay in the driver."""

import json
import re

import pytest

from listeners.protocol.redaction import (
    MAX_TEXT_CHARS,
    REDACTED,
    compile_regex,
    mask,
    may_hold_secret,
    redact,
    redact_json,
    redact_values,
)
from tests.drivers import REPORTS
from tests.paths import DATA

KEYS = compile_regex(None)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("now password=hunter2 next", "now password=*********(redacted) next"),
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


#: Read in quadratic time, one of these would take minutes.
PIECES = [
    "a",
    "a:",
    "a ",
    "://a:",
    'token="',
    "token='\\",
    "\\",
    "token=\\\"x\\'",
    "://a:b/",
    "%3A%2F%2F",
    "oracle:a:b/",
]
PIECES += [
    "eyJ-",
    "--aa",
    "PWD=/",
    "jdbc:a/",
    "a/b@",
    "cookie:a=",
    "cookie: a=b;",
    "passphrase ",
    "sqlplus -a ",
    "eyJaaaaaaaa.",
    "curl -b a",
    "cookie=[a:",
    "cookies a=b;",
    "a/b@A.",
]


@pytest.mark.parametrize("piece", PIECES)
def test_adversarial_text_is_processed_in_linear_time(piece):
    """The server masks texts of any length, so an agent could stop it."""
    assert mask("password a" + piece * (100_000 // len(piece)))


def test_sessions_regex_applies_and_an_invalid_one_falls_back():
    masked = "pin=*********(redacted) password=*********(redacted)"
    assert redact("pin=1234 password=x", compile_regex("(?i)pin")) == masked
    assert redact("password=x", compile_regex("(")) == "password=*********(redacted)"


def test_long_text_keeps_both_ends():
    text = "head" + "x" * 2 * MAX_TEXT_CHARS + "Caused by: tail"
    short = redact(text, KEYS)
    assert (
        short.startswith("head") and short.endswith("Caused by: tail") and len(short) < MAX_TEXT_CHARS + 100
    )


def corpus(name):
    """One form a line; `\\n` is a line end."""
    lines = (DATA / f"redaction/{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line if "{" in line else line.replace("\\n", "\n") for line in lines]


def test_the_corpus_is_large():
    assert len(corpus("secrets")) >= 60
    assert len(corpus("harmless")) >= 60


@pytest.mark.parametrize("form", corpus("secrets"))
def test_no_form_of_a_secret_remains_and_masking_again_changes_nothing(form):
    """The secret stands between ⟦ and ⟧."""
    secret = re.search("⟦(.*)⟧", form, re.DOTALL)[1]
    masked = redact(re.sub("[⟦⟧]", "", form))
    for word in re.split(r"[\s/]+", secret):
        assert word not in masked, masked
    assert redact(masked) == masked
    document = {"sources": [{"description": re.sub("[⟦⟧]", "", form)}]}
    assert json.loads(redact_json(json.dumps(document))) == {"sources": [{"description": masked}]}


@pytest.mark.parametrize("text", corpus("harmless"))
def test_a_harmless_look_alike_is_unchanged(text):
    assert redact(text) == text


def test_texts_of_secret_keys_are_masked_whole_in_json():
    document = {
        "fs.azure.account.key.acme": "Zm9v, Ym Fy",
        "passwords": ["a", "b"],
        "token-events": {"0": 5},
        "numTokens": "7",
        "password": None,
        "secretCount": 3,
    }
    assert redact_values(document, mask) == {
        **document,
        "fs.azure.account.key.acme": REDACTED,
        "passwords": [REDACTED, REDACTED],
    }


def test_real_reports_are_unchanged_and_are_not_read_closely():
    for line in REPORTS.read_text(encoding="utf-8").splitlines():
        assert not may_hold_secret(line)
        assert redact_json(line) is line
