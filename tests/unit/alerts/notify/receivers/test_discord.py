"""Discord's webhooks."""

from __future__ import annotations

import pytest

from alerts.errors import ReceiverError
from alerts.notify.receivers.discord import GREEN, RED
from tests.unit.alerts.notify.messages import RESOLVED, message
from tests.unit.alerts.notify.receivers.fakes import Answer, Request, receiver, serving


def webhooks(request: Request) -> Answer:
    """Limits of embeds and content are checked; success has no content."""
    document = request.json
    (embed,) = document["embeds"]
    fits = (
        len(embed["title"]) <= 256
        and len(embed["description"]) <= 4096
        and len(document.get("content", "")) <= 2000
    )
    return Answer(204) if fits and isinstance(embed["color"], int) else Answer(400, {"embeds": ["0"]})


def test_an_embed_is_red_while_an_alert_fires_and_then_green() -> None:
    with serving(webhooks) as api:
        discord = receiver("discord", f"{{webhook_url: '{api.url}/api/webhooks/1/t', username: control}}")
        discord.send(message())
        discord.send(message(RESOLVED))
    documents = [request.json for request in api.requests]
    assert [document["embeds"][0]["color"] for document in documents] == [RED, GREEN]
    assert documents[0]["username"] == "control"
    assert "Runbook: http" in documents[0]["embeds"][0]["description"]


def test_long_texts_are_cut() -> None:
    with serving(webhooks) as api:
        long = "x" * 5000
        settings = f"{{webhook_url: '{api.url}', title: {long}, message: {long}, content: {long}}}"
        receiver("discord", settings).send(message())
    assert api.requests[0].json["content"].endswith("…")


def test_a_limit_states_how_long_to_wait() -> None:
    with serving(webhooks) as api:
        api.failures = [
            Answer(429, {"message": "You are being rate limited.", "retry_after": 1.5}, {"Retry-After": "2"})
        ]
        with pytest.raises(ReceiverError) as caught:
            receiver("discord", f"{{webhook_url: '{api.url}'}}").send(message())
    assert (caught.value.retryable, caught.value.retry_after) == (True, 2.0)
