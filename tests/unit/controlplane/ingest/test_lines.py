"""Decoding a line fast gives what the exact way gives."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy.dialects import sqlite

from controlplane.ingest import lines
from controlplane.store import blobs
from controlplane.store.tables import Json, storable
from listeners.protocol import redaction, wire
from listeners.protocol.errors import WireError
from tests.drivers import Driver, real_reports

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(-(2**70), 2**70) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
NUMBERS = [
    "1e400",
    "-1e400",
    "-0",
    "-0.0",
    "1E-400",
    "18446744073709551616",
    "-9223372036854775809",
    "0" * 19,
    "9" * 5000,
]
TEXTS = [
    *(b'{"n":%s}' % number.encode() for number in NUMBERS),
    b'{"a":1,"b":2,"a":3}',
    b'"\\ud800"',
    b'"\\ud83d\\ude00"',
    b"\xef\xbb\xbf{}",
    b'"\xff"',
    b'"\xed\xa0\x80"',
    b'"\x00"',
    b'"\x7f"',
    b"[NaN,Infinity,-Infinity]",
    b"[1,]",
    b"01",
    b"",
    b"[" * 2000 + b"]" * 2000,
]


def outcome(decode: Any, line: bytes) -> Any:
    """The value with its types, or the error's text."""
    try:
        value = decode(line)
    except WireError as error:
        return f"error: {error}"
    except RecursionError:
        return "error: the JSON is nested too deep"
    return repr(value)


@pytest.mark.parametrize("line", TEXTS, ids=lambda line: repr(line[:30]))
def test_what_decoders_differ_in_is_decoded_as_the_wire_format_states(line: bytes) -> None:
    assert outcome(lines.loads, line) == outcome(wire.loads, line)


@given(JSON, st.booleans())
def test_every_json_value_is_decoded_and_packed_as_before(value: Any, ascii: bool) -> None:
    line = json.dumps(value, ensure_ascii=ascii).encode("utf-8", "surrogatepass")
    assert outcome(lines.loads, line) == outcome(wire.loads, line)
    packed = wire.loads(blobs.pack_json(value))
    assert packed == wire.loads(wire.dumps(value).encode("utf-8", "replace"))
    if value is not None:
        column = Json().process_bind_param(value, sqlite.dialect())
        assert json.loads(column or "") == json.loads(storable(wire.dumps(value)))


@given(st.binary(max_size=40))
def test_every_line_is_decoded_or_refused_as_before(line: bytes) -> None:
    assert outcome(lines.loads, line) == outcome(wire.loads, line)


@given(st.integers(0, 2**66), st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_survive_decoding_and_packing(whole: int, real: float) -> None:
    found = wire.loads(blobs.pack_json(lines.loads(wire.dumps([whole, -whole, real]).encode())))
    assert found == [whole, -whole, real]
    assert [type(number) for number in found] == [int, int, float]
    assert math.copysign(1, found[2]) == math.copysign(1, real)


PIECES = [
    *redaction.HINTS,
    "api",
    "access",
    "-",
    ".",
    "_",
    "key",
    "?key=",
    "&key=",
    "//",
    "a/b",
    '/"',
    "\\",
    "%2F%2f",
    "@",
    "%40",
    "K",
    "\n",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=6), st.booleans())
@example(["@", "\n", "//"], False)
@example(["//", "\n", "%40"], False)
def test_a_line_may_hold_a_secret_where_the_searches_one_by_one_find_a_hint(
    pieces: list[str], upper: bool
) -> None:
    text = "".join(pieces)
    line = (text.upper() if upper else text).encode("utf-8", "replace")
    assert lines.may_hold_secret(line) == redaction.may_hold_secret(line)


def test_reports_of_spark_are_read_as_before() -> None:
    driver = Driver(labels={"team": "shop"})
    for report in real_reports():
        line = driver.line("progress", report)
        assert lines.read_line(line) == wire.decode_event(line)
        assert lines.may_hold_secret(line) == redaction.may_hold_secret(line)
