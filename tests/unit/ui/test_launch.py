"""Launch of the dashboard: command line, environment, configuration."""

import tomllib
from pathlib import Path

import pytest

from ui import launch
from ui.launch import LogIn


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


def test_a_public_address_accepts_the_listed_hosts_and_never_every_host_by_default() -> None:
    public = [option for option in launch.command(host="0.0.0.0") if "allowedHosts" in option]
    assert public == [
        f"--server.allowedHosts={name}" for name in ("127.0.0.1", "localhost", "::1", "0.0.0.0")
    ]
    listed = launch.command(host="0.0.0.0", allowed_hosts=["plane.example"])
    assert [option for option in listed if "allowedHosts" in option] == [
        "--server.allowedHosts=plane.example"
    ]


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


AUTH = """[auth]
redirect_uri = "https://plane.example/oauth2callback"
cookie_secret = "0123456789012345678901234567890123"
client_id = "x"
client_secret = "x"
server_metadata_url = "https://idp.example/.well-known/openid-configuration"
"""


def test_a_log_in_comes_from_the_settings_and_not_from_the_environment(tmp_path: Path) -> None:
    auth = tmp_path / "auth.toml"
    log_in = LogIn(auth_file=auth)
    base = {"CONTROLPLANE_TRUSTED_PROXIES": "0.0.0.0/0", "HOME": "/h"}
    values = launch.environment("http://plane:8420", base=base, log_in=log_in)
    assert values["CONTROLPLANE_AUTH_FILE"] == str(auth)
    assert "CONTROLPLANE_TRUSTED_PROXIES" not in values
    assert f"--secrets.files={auth}" in launch.command(log_in=log_in)
    proxy = launch.environment("http://plane:8420", base={}, log_in=LogIn(trusted_proxies=["10.0.0.1"]))
    assert (proxy["CONTROLPLANE_TRUSTED_PROXIES"], proxy["FORWARDED_ALLOW_IPS"]) == ("10.0.0.1", "")


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("[auth]", "[other]", "no section"),
        ("0123456789012345678901234567890123", "short", "at least 32"),
        ("/oauth2callback", "/", "oauth2callback"),
        ('client_id = "x"\n', "", "client_id"),
        ("[auth]", "[auth.google]\nclient_id = 'g'\n[auth]", "one provider"),
        ("[auth]", "[auth", "auth.toml"),
    ],
)
def test_a_secrets_file_that_cannot_work_is_refused_before_the_start(
    tmp_path: Path, old: str, new: str, part: str
) -> None:
    auth = tmp_path / "auth.toml"
    auth.write_text(AUTH)
    LogIn(auth_file=auth).check()
    auth.write_text(AUTH.replace(old, new))
    with pytest.raises(ValueError, match=part):
        LogIn(auth_file=auth).check()


@pytest.mark.parametrize(
    ("log_in", "part"),
    [
        (LogIn(auth_file=Path("a"), trusted_proxies=["::1"]), "two ways"),
        (LogIn(role_map=Path("r")), "needs a log-in"),
        (LogIn(trusted_proxies=["proxy.example"]), "proxy.example"),
        (LogIn(trusted_proxies=["::1"], role_map=Path("/nowhere")), "/nowhere"),
    ],
)
def test_log_ins_that_contradict_themselves_are_refused(log_in: LogIn, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        log_in.check()
