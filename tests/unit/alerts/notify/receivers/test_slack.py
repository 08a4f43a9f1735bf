"""Slack: incoming webhooks and the Web API."""

from __future__ import annotations

import pytest

from alerts.errors import ReceiverError
from tests.unit.alerts.notify.messages import RESOLVED, message
from tests.unit.alerts.notify.receivers.fakes import Answer, Request, problems, receiver, serving


def hook(request: Request) -> Answer:
    """An incoming webhook wants text or attachments."""
    document = request.json
    return (
        Answer(200, "ok") if document.get("text") or document.get("attachments") else Answer(400, "no_text")
    )


def chat(request: Request) -> Answer:
    """chat.postMessage and chat.update want a token and a channel, and answer 200 to everything."""
    if request.headers.get("authorization") != "Bearer xoxb-1":
        return Answer(200, {"ok": False, "error": "not_authed"})
    document = request.json
    if document.get("channel") == "#gone":
        return Answer(200, {"ok": False, "error": "channel_not_found"})
    if request.path.endswith("chat.update") and not document.get("ts"):
        return Answer(200, {"ok": False, "error": "message_not_found"})
    return Answer(200, {"ok": True, "channel": "C1", "ts": "1700000000.000100"})


def test_a_webhook_gets_an_attachment() -> None:
    with serving(hook) as api:
        settings = f"""{{api_url: '{api.url}/services/T/B/x', channel: '#{{{{ .GroupLabels.app }}}}',
            fields: [{{title: t, value: '{{{{ .Status }}}}'}}]}}"""
        receiver("slack", settings).send(message())
    (request,) = api.requests
    document = request.json
    (attachment,) = document["attachments"]
    assert (request.path, document["channel"], document["username"]) == (
        "/services/T/B/x",
        "#shop",
        "Spark control plane",
    )
    assert attachment["title"] == "[FIRING:1] orders (shop) has failed."
    assert attachment["color"] == "danger"
    assert "Silence: http" in attachment["text"]
    assert attachment["fields"] == [{"title": "t", "value": "firing", "short": False}]
    assert attachment["mrkdwn_in"] == ["fallback", "pretext", "text"]


def test_the_end_is_green() -> None:
    with serving(hook) as api:
        receiver("slack", f"{{api_url: '{api.url}', send_resolved: true}}").send(message(RESOLVED))
    assert api.requests[0].json["attachments"][0]["color"] == "good"


def test_a_bot_token_posts_to_the_web_api() -> None:
    with serving(chat) as api:
        general = f"{{slack_app_token: xoxb-1, slack_app_url: '{api.url}/api/chat.postMessage'}}"
        receiver("slack", "{channel: '#a'}", general).send(message())
        assert api.requests[0].json["channel"] == "#a"
        with pytest.raises(ReceiverError, match="channel_not_found") as caught:
            receiver("slack", "{channel: '#gone'}", general).send(message())
        assert not caught.value.retryable


@pytest.mark.parametrize(
    ("settings", "path", "field"),
    [("update_message", "/chat.update", "ts"), ("thread_replies", "/chat.postMessage", "thread_ts")],
)
def test_later_messages_replace_the_first_or_follow_it(settings: str, path: str, field: str) -> None:
    with serving(chat) as api:
        given = (
            f"{{channel: '#a', app_token: xoxb-1, app_url: '{api.url}/chat.postMessage', {settings}: true}}"
        )
        slack = receiver("slack", given)
        slack.send(message())
        slack.send(message())
        slack.send(message(RESOLVED))
        slack.send(message())
    first, second, end, anew = api.requests
    assert (second.path, second.json[field], second.json["channel"]) == (path, "1700000000.000100", "C1")
    assert (end.path, end.json[field]) == (path, "1700000000.000100")
    assert field not in first.json and field not in anew.json


def test_errors_with_status_200_and_limits_pass_by_themselves() -> None:
    with serving(hook) as api:
        slack = receiver("slack", f"{{api_url: '{api.url}'}}")
        api.failures = [
            Answer(200, {"ok": False, "error": "ratelimited"}),
            Answer(429, "", {"Retry-After": "30"}),
            Answer(404, "no_service"),
        ]
        caught = []
        for _ in range(3):
            with pytest.raises(ReceiverError) as info:
                slack.send(message())
            caught.append((info.value.retryable, info.value.retry_after))
    assert caught == [(True, None), (True, 30.0), (False, None)]


def test_a_setting_of_its_own_replaces_the_other_way_of_global() -> None:
    general = "{slack_app_token: t, slack_api_url: 'http://hook.example/'}"
    own = receiver("slack", "{channel: a, app_token: mine}", general).integration.settings  # type: ignore[attr-defined]
    assert (own["app_token"], own["api_url"]) == ("mine", "")
    hooked = receiver("slack", "{channel: a, api_url: 'http://own.example/'}", general).integration.settings  # type: ignore[attr-defined]
    assert (hooked["app_token"], hooked["api_url"]) == ("", "http://own.example/")


def test_what_is_missing_is_named() -> None:
    assert "api_url is not set" in problems("slack", "{channel: a}")[0]
    assert "need app_token" in problems("slack", "{api_url: 'http://h.example/', update_message: true}")[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("fields: [{title: a}]", "value is not set"), ("actions: [{type: button}]", "text is not set")],
)
def test_an_incomplete_field_or_action_is_refused(text: str, expected: str) -> None:
    assert expected in problems("slack", f"{{api_url: 'http://a/', {text}}}")[0]
