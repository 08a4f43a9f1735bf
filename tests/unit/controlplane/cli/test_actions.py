"""Actions on the command line: overrides, their mistakes, and the warning before a stop that is final."""

from types import SimpleNamespace

import pytest
from click.exceptions import Abort
from click.testing import CliRunner

from controlplane.cli import actions, main
from controlplane.console.errors import Unreachable


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

    client = SimpleNamespace(get=lambda path: {"query_id": "q", "restart": {"how": "reuse"}})
    monkeypatch.setattr(actions, "open_client", lambda settings: client)
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


def test_a_stop_rejects_options_of_other_actions(asked):
    assert CliRunner().invoke(actions.stop, ["q", "--set", "trigger=10s"]).exit_code == 2


@pytest.mark.parametrize("command", [actions.stop, actions.start, actions.restart])
def test_a_dry_run_of_one_query_shows_the_plan_and_requests_nothing(asked, monkeypatch, command):
    """It carried the action out."""
    planned = []
    monkeypatch.setattr(actions.bulk_actions, "carry_out", lambda *given: planned.append(given) or 0)
    assert CliRunner().invoke(command, ["q", "--dry-run"]).exit_code == 0
    assert [given[1] for given in planned] == [("q",)] and planned[0][3].dry_run and not asked


FACTORY = {"restart": {"how": "needs_factory", "reason": "the writer has been used for another query"}}


@pytest.mark.parametrize(
    ("query", "warned"),
    [
        (FACTORY, "cannot be started again from here: the writer has been used for another query"),
        ({"restart": {"how": "needs_factory", "reason": None}}, "it needs a factory"),
        ({"actions_allowed": "stop", "restart": {"how": "reuse"}}, "CONTROLPLANE_ACTIONS=stop"),
        ({"actions_allowed": "all", "restart": {"how": "reuse"}}, None),
        (Unreachable("no answer"), None),
    ],
)
def test_stop_without_a_way_back_is_announced_before_it_is_sent(asked, monkeypatch, query, warned):
    def get(path):
        assert not asked, "the warning comes first"
        if isinstance(query, Exception):
            raise query
        return {"query_id": "q", "app": "shop", "name": "orders", **query}

    monkeypatch.setattr(actions, "open_client", lambda settings: SimpleNamespace(get=get))
    done = CliRunner().invoke(actions.stop, ["q"])
    assert (done.exit_code, len(asked)) == (0, 1)
    assert ("cannot be started again from here" in done.stderr) is (warned is not None)
    assert warned is None or warned in done.stderr


def test_person_at_a_terminal_confirms_a_stop_without_a_way_back(monkeypatch):
    client = SimpleNamespace(get=lambda path: {"query_id": "q", "app": "shop", "name": "orders", **FACTORY})
    monkeypatch.setattr(actions.sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(actions.click, "confirm", lambda text, abort, err: (_ for _ in ()).throw(Abort()))
    with pytest.raises(Abort):
        actions.confirm_final_stop(client, "q")


@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf", "0", "-1", "soon"])
def test_a_wait_is_a_finite_positive_number(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["stop", "orders", "--wait", seconds]) == 2
    assert "'--wait'" in capsys.readouterr().err
