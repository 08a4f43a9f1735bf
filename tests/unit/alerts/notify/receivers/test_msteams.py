"""Microsoft Teams: workflows and connectors."""

from __future__ import annotations

import pytest

from alerts.errors import ReceiverError
from tests.unit.alerts.notify.messages import RESOLVED, message
from tests.unit.alerts.notify.receivers.fakes import Answer, Request, receiver, serving


def workflow(request: Request) -> Answer:
    """A workflow that posts a card: the trigger checks the message, and at most 28 KB."""
    document = request.json
    (attachment,) = document["attachments"]
    card = attachment["content"]
    valid = (
        document["type"] == "message"
        and attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
        and card["type"] == "AdaptiveCard"
        and all(block["type"] == "TextBlock" and isinstance(block["text"], str) for block in card["body"])
    )
    return Answer(202) if valid and len(request.body) <= 28_000 else Answer(400, "BadRequest")


def test_a_workflow_gets_an_adaptive_card() -> None:
    with serving(workflow) as api:
        teams = receiver("msteamsv2", f"{{webhook_url: '{api.url}/workflows/1/triggers/manual?sig=s'}}")
        teams.send(message())
        teams.send(message(RESOLVED))
    blocks = [request.json["attachments"][0]["content"]["body"] for request in api.requests]
    assert [block[0]["color"] for block in blocks] == ["Attention", "Good"]
    assert blocks[0][0]["text"] == "[FIRING:1] orders (shop) has failed."
    assert "\n\nProbable cause: out of memory\n\n" in blocks[0][1]["text"]


def test_a_card_keeps_the_limit_of_its_size() -> None:
    with serving(workflow) as api:
        receiver(
            "msteamsv2", f"{{webhook_url: '{api.url}', text: '{'é' * 40_000}', title: '{'é' * 4000}'}}"
        ).send(message())
    assert len(api.requests[0].body) <= 28_000


def test_a_connector_gets_a_message_card_and_reports_failures_with_status_200() -> None:
    with serving(lambda request: Answer(200, "1")) as api:
        teams = receiver("msteams", f"{{webhook_url: '{api.url}'}}")
        teams.send(message())
        card = api.requests[0].json
        assert (card["@type"], card["title"]) == ("MessageCard", "[FIRING:1] orders (shop) has failed.")
        assert card["summary"] and card["text"]
        api.failures = [
            Answer(
                200,
                "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 429",
            ),
            Answer(
                200,
                "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 403",
            ),
        ]
        for retryable in (True, False):
            with pytest.raises(ReceiverError, match="delivery failed") as caught:
                teams.send(message())
            assert caught.value.retryable is retryable
