"""Delivering the spools of ended drivers by hand."""

import json

import pytest

from listeners import send_spools
from listeners.delivery.spool import Spool
from listeners.delivery.transport import ServerAcknowledgement
from listeners.protocol.errors import NoAnswer

DEAD = "11111111-1111-1111-1111-111111111111"


def left_behind(root, server, agent=DEAD, app="orders"):
    spool = Spool(root / agent, {"app": app, "server": server})
    document = {"agent": agent, "seq": 1, "type": "app_ended", "data": {"reason": "exit"}}
    spool.append([(1, json.dumps(document).encode())])
    return spool


def test_spool_of_an_ended_driver_is_delivered_to_its_server_and_deleted(
    recorder, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("CONTROLPLANE_URL", recorder.url + "/")
    left_behind(tmp_path, recorder.url).close()
    assert send_spools.main([str(tmp_path)]) == 0
    assert recorder.of_type("app_ended") == [{"reason": "exit"}]
    assert "orders (agent 11111111): 1 events delivered" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    assert send_spools.main([str(tmp_path)]) == 0
    assert "no spool of an ended driver" in capsys.readouterr().out


def test_spool_goes_to_another_server_where_one_is_named(recorder, tmp_path):
    left_behind(tmp_path, "http://127.0.0.1:9").close()
    assert send_spools.main([str(tmp_path), "--server", recorder.url]) == 0
    assert recorder.of_type("app_ended")


def test_malformed_event_is_dropped_and_counted(tmp_path, capsys, monkeypatch):
    class Rejecting:
        def send(self, lines, timeout):
            return ServerAcknowledgement(1, 1, "not an event")

    monkeypatch.setattr(send_spools, "HttpTransport", lambda *arguments: Rejecting())
    spool = left_behind(tmp_path, send_spools.environment.DEFAULT_SERVER)
    spool.save_losses({"rejected": 5})
    spool.close()
    assert send_spools.main([str(tmp_path)]) == 0
    assert "0 events delivered, 1 dropped that the server rejects" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("folder", [False, True])
def test_token_never_goes_to_a_server_that_only_the_spool_names(recorder, tmp_path, capsys, folder):
    named = f"file://{tmp_path / 'landing'}" if folder else recorder.url
    (tmp_path / "landing").mkdir()
    left_behind(tmp_path, named).close()
    assert send_spools.main([str(tmp_path)]) == 1
    assert f"1 events kept: the driver reported to {named}" in (printed := capsys.readouterr().err)
    assert f"pass --server {named}" in printed
    assert recorder.of_type("app_ended") == [] and not list((tmp_path / "landing").iterdir())


def test_spool_that_cannot_be_delivered_is_kept(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CONTROLPLANE_URL", "http://127.0.0.1:9")
    left_behind(tmp_path, "http://127.0.0.1:9").close()
    assert send_spools.main([str(tmp_path)]) == 1
    assert "1 events kept: no answer from http://127.0.0.1:9" in capsys.readouterr().err
    assert list(tmp_path.rglob("*.events"))


def test_server_that_is_away_is_tried_once(tmp_path, capsys, monkeypatch):
    tried = []

    class Away:
        def send(self, lines, timeout):
            tried.append(timeout)
            raise NoAnswer("no answer")

    monkeypatch.setattr(send_spools, "HttpTransport", lambda *arguments: Away())
    for agent in (DEAD, DEAD.replace("1", "2"), DEAD.replace("1", "3")):
        left_behind(tmp_path, send_spools.environment.DEFAULT_SERVER, agent).close()
    assert send_spools.main([str(tmp_path)]) == 1
    assert len(tried) == 1 and capsys.readouterr().err.count("1 events kept: no answer") == 3
    assert len(list(tmp_path.rglob("*.events"))) == 3


def test_spool_of_a_living_driver_is_not_touched(recorder, tmp_path, capsys):
    living = left_behind(tmp_path, recorder.url)
    assert send_spools.main([str(tmp_path)]) == 0
    assert "1 spools belong to drivers that run" in capsys.readouterr().out
    assert living.events == 1 and recorder.of_type("app_ended") == []
    living.close()


def test_missing_directory_is_an_error_of_the_user(tmp_path, capsys):
    assert send_spools.main([str(tmp_path / "nowhere")]) == 2
    assert "there is no directory" in capsys.readouterr().err


@pytest.fixture(autouse=True)
def token(monkeypatch):
    monkeypatch.setenv("CONTROLPLANE_TOKEN", "t")
    monkeypatch.delenv("CONTROLPLANE_URL", raising=False)
