"""Overrides on the command line: what `--set` understands, and what it states of a mistake."""

import pytest
from click.testing import CliRunner

from controlplane.cli import actions


@pytest.fixture
def asked(monkeypatch):
    """What the command asks the server for, without a server."""
    wishes = []

    def request(client, query_id, wish):
        wishes.append(wish)
        return {
            "state": "succeeded",
            "reason": "",
            "action": "restart",
            "evidence": {},
            "name": "q",
            "query_id": "q",
        }

    monkeypatch.setattr(actions, "open_client", lambda settings: None)
    monkeypatch.setattr(actions, "find_query", lambda client, query: query)
    monkeypatch.setattr(actions, "request", request)
    return wishes


@pytest.mark.parametrize(
    ("pairs", "overrides"),
    [
        ([], {}),
        (["trigger=10s"], {"trigger": "10s"}),
        (["trigger=1 minute", "rate=5"], {"trigger": "1 minute", "rate": 5}),
        (['topic="5"', "live=true", "path=/a=b"], {"topic": "5", "live": True, "path": "/a=b"}),
    ],
)
def test_values_are_json_or_else_text(asked, pairs, overrides):
    options = [word for pair in pairs for word in ("--set", pair)]
    done = CliRunner().invoke(actions.restart, ["q", *options])
    assert done.exit_code == 0, done.output
    assert asked[0]["overrides"] == overrides


@pytest.mark.parametrize("pair", ["trigger", "=5", ""])
def test_what_is_no_pair_is_a_mistake_with_an_example(asked, pair):
    done = CliRunner().invoke(actions.start, ["q", "--set", pair])
    assert done.exit_code == 2 and "trigger=10s" in done.output and not asked


def test_a_stop_knows_no_such_option(asked):
    assert CliRunner().invoke(actions.stop, ["q", "--set", "trigger=10s"]).exit_code == 2
