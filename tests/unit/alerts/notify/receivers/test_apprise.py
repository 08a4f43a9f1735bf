"""The optional package apprise, through its own JSON service."""

from __future__ import annotations

import sys

import pytest

from alerts.errors import ReceiverError
from tests.unit.alerts.notify.messages import message
from tests.unit.alerts.notify.receivers.fakes import Answer, receiver, serving


def test_a_message_is_sent_by_url() -> None:
    with serving(lambda request: Answer(200)) as api:
        receiver("apprise", f"{{url: '{api.url.replace('http', 'json')}/x'}}").send(message())
        document = api.requests[0].json
        assert document["title"] == "[FIRING:1] orders (shop) has failed."
        assert "Runbook: http" in document["message"]
        assert document["type"] == "failure"
        api.failures = [Answer(500)] * 5
        with pytest.raises(ReceiverError, match="apprise could not deliver") as caught:
            receiver("apprise", f"{{url: '{api.url.replace('http', 'json')}/x'}}").send(message())
    assert caught.value.retryable


def test_an_unknown_url_is_reported_when_the_configuration_is_loaded() -> None:
    with pytest.raises(ValueError, match=r"a/apprise\[0\]: apprise does not know this URL"):
        receiver("apprise", "{url: 'nosuch://x'}")


def test_without_the_package_the_way_to_install_it_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(ValueError, match="pip install apprise"):
        receiver("apprise", "{url: 'json://x'}")
