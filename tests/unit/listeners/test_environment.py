"""What the agent reads from its surroundings."""

from uuid import UUID

import pytest

from listeners import environment
from listeners.protocol import wire


def test_labels_come_from_text_and_bad_parts_are_left_out(caplog):
    assert environment.parse_labels(" team = payments ,env=prod,odd") == {"team": "payments", "env": "prod"}
    assert "'odd'" in caplog.text
    assert environment.parse_labels(None) == {}


def test_labels_that_the_wire_does_not_take_are_left_out(caplog):
    labels = {"team": "a", "bad name": "x", "long": "y" * 500, "number": 5}
    assert environment.checked_labels(labels) == {"team": "a", "number": "5"}
    assert "bad name" in caplog.text


@pytest.mark.parametrize(
    ("given", "own", "chosen"),
    [
        (None, "orders", "orders"),
        ("billing", "orders", "billing"),
        (None, "n" * 300, "n" * 256),
        ("m" * 300, "orders", "m" * 256),
        (" ", "orders", "orders"),
        (None, "", "local-1"),
    ],
)
def test_an_application_is_told_so_that_the_wire_takes_it(given, own, chosen, caplog):
    found = {"name": own, "id": "local-1", "master": " ", "ui_url": "u" * 2000, "spark_version": None}
    app = environment.checked_app(found, given)
    assert app == wire.App(chosen, "local-1", ui_url="u" * 1024)
    assert (
        wire.decode_event(wire.encode_event(wire.Event(str(UUID(int=1)), 1, 1.0, app, "idle", {}))).app == app
    )
    assert bool(caplog.text) == (chosen not in (own, given))


def test_an_application_of_which_nothing_is_known_has_a_name(caplog):
    assert environment.checked_app({"name": None, "id": None}, None) == wire.App("unnamed")


@pytest.mark.parametrize(
    ("text", "mode"), [(None, "all"), ("", "all"), ("stop", "stop"), ("none", "none"), ("al", "none")]
)
def test_an_unknown_word_for_actions_forbids_them(text, mode):
    assert environment.checked_mode(text) == mode


def test_the_token_is_found_in_the_environment_a_named_file_or_the_data_directory(tmp_path, monkeypatch):
    for name in ("CONTROLPLANE_TOKEN", "CONTROLPLANE_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CONTROLPLANE_DATA_DIR", str(tmp_path))
    assert environment.find_token() is None
    (tmp_path / "agent.token").write_text("local\n")
    assert environment.find_token() == "local"
    (tmp_path / "named").write_text("named\n")
    monkeypatch.setenv("CONTROLPLANE_TOKEN_FILE", str(tmp_path / "named"))
    assert environment.find_token() == "named"
    monkeypatch.setenv("CONTROLPLANE_TOKEN", "plain")
    assert environment.find_token() == "plain"
