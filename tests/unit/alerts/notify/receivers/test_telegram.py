"""Telegram's bots."""

from __future__ import annotations

import pytest

from alerts.errors import ReceiverError
from tests.unit.alerts.notify.messages import message
from tests.unit.alerts.notify.receivers.fakes import Answer, Request, problems, receiver, serving


def bots(request: Request) -> Answer:
    """sendMessage: path, chat, length and markup are checked."""
    if request.path != "/bot123:abc/sendMessage":
        return Answer(404, {"ok": False, "error_code": 404, "description": "Not Found"})
    document = request.json
    text = document["text"]
    if not isinstance(document["chat_id"], int) or not 0 < len(text) <= 4096:
        return Answer(
            400, {"ok": False, "error_code": 400, "description": "Bad Request: message is too long"}
        )
    if document.get("parse_mode") == "HTML" and text.count("<") != text.count(">"):
        return Answer(
            400, {"ok": False, "error_code": 400, "description": "Bad Request: can't parse entities"}
        )
    return Answer(200, {"ok": True, "result": {"message_id": 1}})


def telegram(url: str, settings: str = "") -> str:
    return f"{{bot_token: '123:abc', chat_id: -1001, api_url: '{url}'{settings}}}"


def test_a_message_is_html_with_escaped_values() -> None:
    with serving(bots) as api:
        receiver("telegram", telegram(api.url, ", message_thread_id: 7")).send(message())
    document = api.requests[0].json
    assert (document["chat_id"], document["message_thread_id"], document["parse_mode"]) == (-1001, 7, "HTML")
    assert document["text"].startswith("[FIRING:1] orders (shop) has failed.")
    assert "&lt;b&gt;an&lt;/b&gt;" in document["text"]


def test_a_text_that_is_too_long_is_sent_as_plain_text() -> None:
    with serving(bots) as api:
        text = "x" * 4090 + "<b>bold</b>"
        receiver("telegram", telegram(api.url, f", message: '{text}'")).send(message())
    (request,) = api.requests
    assert request.json["text"] == "x" * 4090 + "<b>bo…"
    assert "parse_mode" not in request.json


def test_refused_markup_is_sent_as_plain_text() -> None:
    with serving(bots) as api:
        receiver("telegram", telegram(api.url, ", message: 'a < b'")).send(message())
    first, second = api.requests
    assert first.json["parse_mode"] == "HTML"
    assert "parse_mode" not in second.json and second.json["text"] == "a < b"


def test_a_limit_states_how_long_to_wait() -> None:
    answer = {
        "ok": False,
        "error_code": 429,
        "description": "Too Many Requests",
        "parameters": {"retry_after": 17},
    }
    with serving(bots) as api:
        api.failures = [Answer(429, answer)]
        with pytest.raises(ReceiverError, match="Too Many") as caught:
            receiver("telegram", telegram(api.url)).send(message())
    assert (caught.value.retryable, caught.value.retry_after) == (True, 17.0)


def test_a_wrong_token_is_permanent_and_not_shown() -> None:
    with serving(bots) as api, pytest.raises(ReceiverError) as caught:
        receiver("telegram", f"{{bot_token: 'wrong', chat_id: 1, api_url: '{api.url}'}}").send(message())
    assert not caught.value.retryable
    assert "wrong" not in str(caught.value)


def test_what_is_missing_is_named() -> None:
    assert problems("telegram", "{bot_token: t}") == ["telegram: chat_id is not set"]
    assert "known modes" in problems("telegram", "{bot_token: t, chat_id: 1, parse_mode: Word}")[0]
