"""What `controlplane notify test` prints."""

from __future__ import annotations

from controlplane.cli.notify import listed


def test_each_integration_is_listed_with_its_outcome() -> None:
    results = [
        {"name": "team/slack[0]", "delivered": True, "error": None},
        {"name": "team/email[0]", "delivered": False, "error": "the mail server answered 550"},
    ]
    lines = listed(results).splitlines()
    assert lines[1].split() == ["team/slack[0]", "delivered"]
    assert "failed: the mail server answered 550" in lines[2]
