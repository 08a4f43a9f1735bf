"""Launch of the dashboard: command line, environment, configuration."""

import tomllib
from pathlib import Path

from ui import launch


def test_the_hardening_options_are_on_the_command_line() -> None:
    command = launch.command(8600, "127.0.0.1")
    for option in (
        "--server.headless=true",
        "--server.address=127.0.0.1",
        "--server.port=8600",
        "--browser.gatherUsageStats=false",
        "--client.showErrorDetails=none",
        "--client.toolbarMode=viewer",
        "--server.enableCORS=true",
        "--server.enableAgentApi=false",
        "--server.enableStaticServing=false",
        "--server.allowedHosts=127.0.0.1",
    ):
        assert option in command


def test_a_public_address_accepts_the_listed_hosts() -> None:
    everyone = launch.command(host="0.0.0.0")
    assert not [option for option in everyone if "allowedHosts" in option]
    listed = launch.command(host="0.0.0.0", allowed_hosts=["plane.example"])
    assert "--server.allowedHosts=plane.example" in listed


def test_the_token_is_in_the_environment_and_never_on_the_command_line() -> None:
    values = launch.environment("http://plane:8420", token="secret", base={"HOME": "/h"})
    assert values == {"HOME": "/h", "CONTROLPLANE_URL": "http://plane:8420", "CONTROLPLANE_TOKEN": "secret"}
    by_file = launch.environment(
        "http://plane:8420", token_file=Path("t"), base={"CONTROLPLANE_TOKEN": "old"}
    )
    assert by_file == {"CONTROLPLANE_URL": "http://plane:8420", "CONTROLPLANE_TOKEN_FILE": "t"}
    assert "secret" not in " ".join(launch.command())


def test_the_entry_is_a_file_beside_its_config() -> None:
    assert launch.ENTRY.is_file()
    assert launch.ENTRY.name == "security_headers.py"
    assert (launch.ENTRY.parent / ".streamlit" / "config.toml").is_file()


def test_both_themes_are_defined_and_name_the_same_settings() -> None:
    config = tomllib.loads((launch.ENTRY.parent / ".streamlit" / "config.toml").read_text())
    light, dark = config["theme"]["light"], config["theme"]["dark"]
    assert light.keys() == dark.keys()
    assert config["browser"]["gatherUsageStats"] is False
    assert config["client"]["showErrorDetails"] == "none"
