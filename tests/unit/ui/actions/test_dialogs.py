"""What the confirmation of an action sends."""

import pytest

from ui.actions import dialogs


@pytest.mark.parametrize(
    ("asked", "action", "body"),
    [
        ("stop", "stop", {"action": "stop", "drain": True, "overrides": {}}),
        ("suspend", "stop", {"state": "suspended", "drain": True, "act": True}),
        ("suspend", None, {"state": "suspended", "drain": True, "act": False}),
        ("resume", "start", {"action": "start", "drain": True, "overrides": {}}),
        ("resume", None, {"state": "running", "drain": True, "act": False}),
    ],
)
def test_the_body_sets_a_state_or_requests_an_action(asked, action, body):
    assert dialogs._request_body(asked, action, drain=True) == body
