"""Mattermost's incoming webhooks."""

from __future__ import annotations

import pytest

from alerts.errors import ReceiverError
from tests.unit.alerts.notify.messages import message
from tests.unit.alerts.notify.receivers.fakes import Answer, Request, problems, receiver, serving


def hook(request: Request) -> Answer:
    if request.path != "/hooks/x":
        return Answer(400, {"id": "web.incoming_webhook.invalid.app_error", "message": "Invalid webhook."})
    document = request.json
    filled = 0 < len(document.get("text", "")) <= 16_383 or document.get("attachments")
    return Answer(200, "ok") if filled else Answer(400, {"message": "No text."})


def test_a_message_is_posted_to_a_channel() -> None:
    with serving(hook) as api:
        settings = "{channel: alerts, priority: {priority: urgent}, attachments: [{title: '{{ .Status }}', text: t}]}"
        receiver("mattermost", settings, f"{{mattermost_webhook_url: '{api.url}/hooks/x'}}").send(message())
        document = api.requests[0].json
        assert (document["channel"], document["priority"]) == ("alerts", {"priority": "urgent"})
        assert document["text"].startswith("#### [FIRING:1] orders (shop) has failed.")
        assert document["attachments"] == [{"title": "firing", "text": "t"}]
        with pytest.raises(ReceiverError, match="Invalid webhook") as caught:
            receiver("mattermost", f"{{webhook_url: '{api.url}/hooks/other'}}").send(message())
    assert not caught.value.retryable


def test_the_url_is_needed() -> None:
    assert "mattermost_webhook_url" in problems("mattermost", "{}")[0]
