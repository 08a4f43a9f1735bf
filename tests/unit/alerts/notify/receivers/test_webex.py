"""Webex' messages API."""

from __future__ import annotations

import pytest

from alerts.errors import ReceiverError
from tests.unit.alerts.notify.messages import message
from tests.unit.alerts.notify.receivers.fakes import Answer, Request, problems, receiver, serving


def messages_api(request: Request) -> Answer:
    if request.headers.get("authorization") != "Bearer bot":
        return Answer(401, {"message": "The request requires a valid access token"})
    document = request.json
    if not document.get("roomId") or not 0 < len(document["markdown"].encode()) <= 7439:
        return Answer(400, {"message": "POST failed: HTTP/1.1 400"})
    return Answer(200, {"id": "m"})


def test_a_message_is_posted_with_the_bots_token() -> None:
    with serving(messages_api) as api:
        settings = "{{room_id: r, message: '{}', http_config: {{authorization: {{credentials: {}}}}}}}"
        general = f"{{webex_api_url: '{api.url}/v1/messages'}}"
        receiver("webex", settings.format("é" * 5000, "bot"), general).send(message())
        assert (api.requests[0].path, api.requests[0].json["roomId"]) == ("/v1/messages", "r")
        with pytest.raises(ReceiverError, match="access token") as caught:
            receiver("webex", settings.format("a", "other"), general).send(message())
    assert not caught.value.retryable


def test_the_token_is_needed() -> None:
    assert "bot's token" in problems("webex", "{room_id: r}")[0]
