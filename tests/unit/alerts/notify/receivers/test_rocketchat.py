"""Rocket.Chat's chat.postMessage."""

from __future__ import annotations

import pytest

from alerts.errors import ReceiverError
from tests.unit.alerts.notify.messages import RESOLVED, message
from tests.unit.alerts.notify.receivers.fakes import Answer, Request, receiver, serving


def post_message(request: Request) -> Answer:
    if (request.headers.get("x-auth-token"), request.headers.get("x-user-id")) != ("t", "i"):
        return Answer(401, {"status": "error", "message": "You must be logged in to do this."})
    assert request.path == "/api/v1/chat.postMessage"
    if request.json.get("channel") == "#gone":
        return Answer(200, {"success": False, "error": "error-invalid-channel"})
    return Answer(200, {"success": True, "message": {}})


def test_an_attachment_is_posted() -> None:
    general = "{{rocketchat_api_url: '{}/', rocketchat_token: t, rocketchat_token_id: i}}"
    with serving(post_message) as api:
        settings = "{channel: '#a', short_fields: true, fields: [{title: t, value: v}], actions: [{text: Open, url: u}]}"
        chat = receiver("rocketchat", settings, general.format(api.url))
        chat.send(message())
        chat.send(message(RESOLVED))
        attachments = [request.json["attachments"][0] for request in api.requests]
        assert [item["color"] for item in attachments] == ["red", "green"]
        assert attachments[0]["fields"] == [{"title": "t", "value": "v", "short": True}]
        assert attachments[0]["actions"] == [{"type": "button", "text": "Open", "url": "u"}]
        with pytest.raises(ReceiverError, match="invalid-channel") as caught:
            receiver("rocketchat", "{channel: '#gone'}", general.format(api.url)).send(message())
    assert not caught.value.retryable
