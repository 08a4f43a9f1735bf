"""The server's address and the token of the environment."""

from __future__ import annotations

from pathlib import Path

from ui.kit.environment import server_url, token


def test_the_servers_address_comes_from_the_environment() -> None:
    assert server_url({}) == "http://127.0.0.1:8420"
    assert server_url({"CONTROLPLANE_URL": "https://plane:1/ "}) == "https://plane:1"
    assert server_url({"CONTROLPLANE_URL": "http://a/, http://b/"}) == "http://a,http://b"


def test_the_token_comes_from_the_environment_else_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "admin.token"
    file.write_text("from-file\n")
    assert token({"CONTROLPLANE_TOKEN": "direct", "CONTROLPLANE_TOKEN_FILE": str(file)}) == "direct"
    assert token({"CONTROLPLANE_TOKEN_FILE": str(file)}) == "from-file"
    assert token({"CONTROLPLANE_TOKEN_FILE": str(tmp_path / "none")}) is None
    assert token({}) is None
