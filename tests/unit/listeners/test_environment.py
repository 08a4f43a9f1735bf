"""The agent's configuration from the environment."""

from uuid import UUID

import pytest

from listeners import environment
from listeners.protocol import wire


def test_labels_are_parsed_and_invalid_parts_ignored(caplog):
    assert environment.parse_labels(" team = payments ,env=prod,odd") == {"team": "payments", "env": "prod"}
    assert "'odd'" in caplog.text
    assert environment.parse_labels(None) == {}


def test_labels_refused_by_the_wire_format_are_ignored(caplog):
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
def test_application_is_cut_to_the_limits_of_the_wire_format(given, own, chosen, caplog):
    found = {"name": own, "id": "local-1", "master": " ", "ui_url": "u" * 2000, "spark_version": None}
    app = environment.checked_app(found, given)
    assert app == wire.App(chosen, "local-1", ui_url="u" * 1024)
    assert (
        wire.decode_event(wire.encode_event(wire.Event(str(UUID(int=1)), 1, 1.0, app, "idle", {}))).app == app
    )
    assert bool(caplog.text) == (chosen not in (own, given))


def test_unknown_application_has_a_name(caplog):
    assert environment.checked_app({"name": None, "id": None}, None) == wire.App("unnamed")


@pytest.mark.parametrize(
    ("text", "mode"), [(None, "all"), ("", "all"), ("stop", "stop"), ("none", "none"), ("al", "none")]
)
def test_unknown_actions_value_forbids_all_actions(text, mode):
    assert environment.checked_mode(text) == mode


def test_token_is_found_in_environment_file_or_data_directory(tmp_path, monkeypatch):
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
