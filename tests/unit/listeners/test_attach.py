"""What `attach` reads from its surroundings, and that nothing it meets is raised at the user."""

import logging

import pytest

from listeners import attach


def test_labels_come_from_text_and_bad_parts_are_left_out(caplog):
    assert attach.parse_labels(" team = payments ,env=prod,odd") == {"team": "payments", "env": "prod"}
    assert "'odd'" in caplog.text
    assert attach.parse_labels(None) == {}


def test_labels_that_the_wire_does_not_take_are_left_out(caplog):
    labels = {"team": "a", "bad name": "x", "long": "y" * 500, "number": 5}
    assert attach.checked_labels(labels) == {"team": "a", "number": "5"}
    assert "bad name" in caplog.text


@pytest.mark.parametrize(
    ("text", "mode"), [(None, "all"), ("", "all"), ("stop", "stop"), ("none", "none"), ("al", "none")]
)
def test_an_unknown_word_for_actions_forbids_them(text, mode):
    assert attach.checked_mode(text) == mode


def test_the_token_is_found_in_the_environment_a_named_file_or_the_data_directory(tmp_path, monkeypatch):
    for name in ("CONTROLPLANE_TOKEN", "CONTROLPLANE_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CONTROLPLANE_DATA_DIR", str(tmp_path))
    assert attach.find_token() is None
    (tmp_path / "agent.token").write_text("local\n")
    assert attach.find_token() == "local"
    (tmp_path / "named").write_text("named\n")
    monkeypatch.setenv("CONTROLPLANE_TOKEN_FILE", str(tmp_path / "named"))
    assert attach.find_token() == "named"
    monkeypatch.setenv("CONTROLPLANE_TOKEN", "plain")
    assert attach.find_token() == "plain"


def test_a_session_that_cannot_be_attached_to_is_a_line_in_the_log(caplog):
    with caplog.at_level(logging.WARNING):
        assert attach.attach(object()) is None
    assert "not attached" in caplog.text and "Connect" in caplog.text
