"""Pushover's messages API."""

from __future__ import annotations

from dataclasses import replace

import pytest

from alerts.errors import ReceiverError
from tests.unit.alerts.notify.messages import RESOLVED, message
from tests.unit.alerts.notify.receivers.fakes import Answer, Request, problems, receiver, serving


def messages_api(request: Request) -> Answer:
    form, errors = request.form, []
    if form.get("token") != "t" or form.get("user") != "u":
        errors.append("application token is invalid")
    if not 0 < len(form.get("message", "")) <= 1024 or len(form.get("title", "")) > 250:
        errors.append("message cannot be blank")
    if form.get("priority") == "2" and not (int(form["retry"]) >= 30 and int(form["expire"]) <= 10_800):
        errors.append("retry and expire must be supplied for priority=2")
    return (
        Answer(400, {"errors": errors, "status": 0}) if errors else Answer(200, {"status": 1, "request": "r"})
    )


def test_an_emergency_repeats_and_its_end_does_not() -> None:
    with serving(messages_api) as api:
        pushover = replace(
            receiver("pushover", "{token: t, user_key: u, retry: 5s, expire: 1d}"), api=api.url
        )  # type: ignore[type-var]
        pushover.send(message())
        pushover.send(message(RESOLVED))
    first, last = (request.form for request in api.requests)
    assert (first["priority"], first["retry"], first["expire"]) == ("2", "30", "10800")
    assert "Probable cause: out of memory" in first["message"]
    assert last["priority"] == "0" and "retry" not in last


def test_long_and_empty_texts_are_made_valid() -> None:
    with serving(messages_api) as api:
        settings = "{{token: t, user_key: u, title: {}, message: '{}', url: 'http://{}'}}"
        for text in ("x" * 2000, ""):
            replace(receiver("pushover", settings.format("x" * 300, text, "x" * 600)), api=api.url).send(
                message()
            )  # type: ignore[type-var]
    assert "url" not in api.requests[0].form
    assert api.requests[1].form["message"] == "(no details)"


def test_a_wrong_token_is_permanent() -> None:
    with serving(messages_api) as api, pytest.raises(ReceiverError, match="token is invalid") as caught:
        replace(receiver("pushover", "{token: x, user_key: u}"), api=api.url).send(message())  # type: ignore[type-var]
    assert not caught.value.retryable


def test_contradictions_are_named() -> None:
    assert (
        "exclude each other"
        in problems("pushover", "{token: t, user_key: u, html: true, monospace: true}")[0]
    )
