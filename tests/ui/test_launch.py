"""How the UI is started, and the headers it answers with."""

import os
import tomllib
from pathlib import Path

from ui import launch, security_headers
from ui.kit import statuses


def test_the_hardening_options_stand_on_the_command_line() -> None:
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


def test_a_public_address_accepts_the_hosts_it_is_told() -> None:
    everyone = launch.command(host="0.0.0.0")
    assert not [option for option in everyone if "allowedHosts" in option]
    told = launch.command(host="0.0.0.0", allowed_hosts=["plane.example"])
    assert "--server.allowedHosts=plane.example" in told


def test_the_token_goes_by_the_environment_and_never_by_the_command_line() -> None:
    values = launch.environment("http://plane:8420", token="secret", base={"HOME": "/h"})
    assert values == {"HOME": "/h", "CONTROLPLANE_URL": "http://plane:8420", "CONTROLPLANE_TOKEN": "secret"}
    by_file = launch.environment(
        "http://plane:8420", token_file=Path("t"), base={"CONTROLPLANE_TOKEN": "old"}
    )
    assert by_file == {"CONTROLPLANE_URL": "http://plane:8420", "CONTROLPLANE_TOKEN_FILE": "t"}
    assert "secret" not in " ".join(launch.command())


def test_the_entry_is_a_file_beside_its_config() -> None:
    assert launch.ENTRY.is_file()
    assert (launch.ENTRY.parent / ".streamlit" / "config.toml").is_file()


def test_both_themes_are_defined_and_name_the_same_settings() -> None:
    config = tomllib.loads((launch.ENTRY.parent / ".streamlit" / "config.toml").read_text())
    light, dark = config["theme"]["light"], config["theme"]["dark"]
    assert light.keys() == dark.keys()
    assert config["browser"]["gatherUsageStats"] is False
    assert config["client"]["showErrorDetails"] == "none"


def test_the_policy_lets_in_only_what_streamlits_own_page_carries() -> None:
    policy = security_headers.policy(
        "<html><script>\n  window.x = 1\n</script><script src='a.js'></script></html>"
    )
    assert policy.count("sha256-") == 1
    assert "unsafe-inline" not in policy.split("style-src")[0]
    assert "img-src 'self' data: blob:;" in policy


def test_every_status_of_the_contract_has_its_look() -> None:
    words = (
        "starting running idle busy lagging stuck failed restarting backing_off stopped finished lost retired"
    )
    assert set(statuses.STATUSES) == set(words.split())
    assert statuses.status("brand_new<b>").word == "Brand newb"
    assert statuses.status(None).word == "Unknown"
    assert os.path.basename(launch.ENTRY) == "security_headers.py"


def test_the_page_names_early_the_large_scripts_that_a_table_needs(tmp_path: Path) -> None:
    large = "x" * security_headers.WORTH_NAMING
    (tmp_path / "DataFrame.a1.js").write_text(f'import{{a}}from"./arrow.b2.js";import"./tiny.c3.js";{large}')
    (tmp_path / "arrow.b2.js").write_text(f"import {{x}} from './first.d4.js';{large}")
    (tmp_path / "tiny.c3.js").write_text("import'./gone.js'")
    (tmp_path / "first.d4.js").write_text(large)
    index = '<link rel="modulepreload" href="./static/js/first.d4.js">'
    assert security_headers.preloads(tmp_path, index) == (
        "<./static/js/DataFrame.a1.js>; rel=modulepreload, <./static/js/arrow.b2.js>; rel=modulepreload"
    )


def test_streamlit_as_it_is_installed_has_scripts_to_name_and_the_header_stays_small() -> None:
    named = security_headers.preloads(
        security_headers.SCRIPTS, security_headers.INDEX.read_text(encoding="utf-8")
    )
    assert "DataFrame" in named
    assert len(named) < 2000  # proxies give all headers together four kilobytes
