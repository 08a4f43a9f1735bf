"""The wire format: round trips, and errors that name the field."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from listeners.protocol import wire
from listeners.protocol.errors import WireError

AGENT = "3f2c8f5e-6f0a-4a7e-9d6e-0b9e2f6d1c11"


def line(**changes):
    document = {
        "v": 1,
        "agent": AGENT,
        "seq": 7,
        "at": "2026-11-20T05:30:00.250Z",
        "app": {"name": "orders", "id": "local-1"},
        "labels": {"team": "payments"},
        "type": "progress",
        "data": {"batchId": 3},
    }
    document.update(changes)
    return json.dumps({k: v for k, v in document.items() if v != "absent"})


def test_event_round_trip():
    event = wire.decode_event(line())
    assert event.at == 1795152600.25 and event.app.name == "orders" and event.labels == {"team": "payments"}
    assert wire.decode_event(wire.encode_event(event)) == event


def test_unix_seconds_are_accepted_as_times():
    assert wire.decode_event(line(at=1795152600.25)).at == 1795152600.25


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"v": 2}, "v must be 1"),
        ({"agent": "x"}, "agent must be a UUID"),
        ({"agent": 5}, "agent must be a UUID"),
        ({"seq": 0}, "seq must be"),
        ({"seq": True}, "seq must be"),
        ({"seq": 2**70}, "seq must be"),
        ({"seq": 1.5}, "seq must be"),
        ({"at": "yesterday"}, "not RFC 3339"),
        ({"at": None}, "time must be"),
        ({"at": 1e300}, "years 1970"),
        ({"app": "orders"}, "app must be"),
        ({"app": {"name": ""}}, "app.name"),
        ({"app": {"name": "o", "ui_url": 3}}, "app.ui_url"),
        ({"type": ""}, "type must be"),
        ({"type": ["progress"]}, "type must be"),
        ({"data": []}, "data must be"),
        ({"data": "absent"}, "data must be"),
        ({"labels": {"a b": "c"}}, "label name"),
        ({"labels": {"team": 5}}, "label team"),
        ({"labels": {f"l{i}": "x" for i in range(11)}}, "at most 10"),
    ],
)
def test_wrong_field_is_named_in_the_error(changes, message):
    with pytest.raises(WireError, match=message):
        wire.decode_event(line(**changes))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        ("[1]", "JSON object"),
        ("[" * 100_000, "nested too deep"),
        ("1" * 10_000, "number is too long"),
    ],
)
def test_invalid_json_is_refused_with_a_reason(text, message):
    with pytest.raises(WireError, match=message):
        wire.decode_event(text)


def test_nan_and_infinity_become_null_both_ways():
    event = wire.decode_event(
        line().replace('{"batchId": 3}', '{"a": NaN, "b": -Infinity, "c": 1e999, "d": 1.5}')
    )
    assert event.data == {"a": None, "b": None, "c": None, "d": 1.5}
    assert json.loads(wire.dumps({"x": [float("nan"), {"y": float("inf")}]})) == {"x": [None, {"y": None}]}


@given(st.text() | st.binary())
def test_decoding_raises_only_wire_errors(text):
    with pytest.raises(WireError):
        wire.decode_event(text)


def test_command_and_result_round_trip():
    command = wire.Command("c1", "restart", AGENT, drain=True, overrides={"a": 1})
    assert wire.decode_command(wire.encode_command(command)) == command
    result = wire.CommandResult("failed", "no", "start_failed", {"exception": "x"})
    assert wire.decode_result(json.loads(wire.dumps(wire.encode_result(result)))) == result


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"id": "c"},
        {"id": "c", "action": "explode", "query_id": "q"},
        {"id": 4, "action": "stop", "query_id": "q"},
        {"id": "c", "action": "stop", "query_id": "q", "timeout_seconds": -1},
        {"id": "c", "action": "stop", "query_id": "q", "overrides": [1]},
    ],
)
def test_malformed_command_is_refused(document):
    with pytest.raises(WireError):
        wire.decode_command(document)


@pytest.mark.parametrize("within", ["[%s]", '{"a":%s}', '[1,{"b":[2,%s]}]'])
def test_evidence_nested_too_deep_is_refused(within):
    text = "1"
    while not wire.is_nested_too_deep(json.loads(text)):
        text = within % text
    with pytest.raises(WireError, match="nested deeper than 32"):
        wire.decode_result({"state": "failed", "evidence": {"a": json.loads(text)}})
    assert text.count("[") + text.count("{") in range(wire.MAX_NESTED + 1, wire.MAX_NESTED + 4)
    assert not wire.is_nested_too_deep(json.loads("[" * 32 + "]" * 32)) and wire.is_nested_too_deep(
        json.loads("[" * 33 + "]" * 33)
    )
