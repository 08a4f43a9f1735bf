"""The configuration: where values come from, and that mistakes are named all at once."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from controlplane.errors import SettingsError
from controlplane.settings import Settings, load


def test_defaults_are_local_and_embedded() -> None:
    settings = load({})
    assert (settings.host, settings.port, settings.ui_port) == ("127.0.0.1", 8420, 8501)
    assert settings.server_url == "http://127.0.0.1:8420"
    assert settings.admin_token_file == Path("controlplane-data/admin.token")


def test_the_environment_is_read_and_the_command_line_wins() -> None:
    environ = {"CONTROLPLANE_PORT": "9000", "CONTROLPLANE_DATA_DIR": "/var/lib/cp", "CONTROLPLANE_HOST": ""}
    settings = load(environ, {"port": 9001, "data_dir": None})
    assert (settings.port, settings.data_dir, settings.host) == (9001, Path("/var/lib/cp"), "127.0.0.1")


def test_all_mistakes_are_named_at_once() -> None:
    environ = {
        "CONTROLPLANE_PORT": "eighty",
        "CONTROLPLANE_RETENTION_DAYS": "-1",
        "CONTROLPLANE_METRICS_NEED_TOKEN": "perhaps",
        "CONTROLPLANE_EXTERNAL_URL": "ftp://x",
        "CONTROLPLANE_UI_PORT": "70000",
        "CONTROLPLANE_WINDOW_LENGTH": "nan",
    }
    with pytest.raises(SettingsError) as caught:
        load(environ)
    assert sorted(line.split(":")[0] for line in caught.value.detail["mistakes"]) == sorted(environ)


def test_host_names_are_the_local_ones_and_those_given() -> None:
    assert Settings().host_names == ("localhost", "127.0.0.1", "::1")
    assert not Settings().listens_beyond_loopback
    public = load(
        {
            "CONTROLPLANE_ALLOWED_HOSTS": "Plane.example., *.svc",
            "CONTROLPLANE_EXTERNAL_URL": "https://ops.example/x",
        },
        {"host": "10.1.2.3"},
    )
    assert public.host_names[3:] == ("plane.example", "*.svc", "10.1.2.3", "ops.example")
    assert Settings(host="0.0.0.0").host_names[3:] == (socket.gethostname().lower(),)


@pytest.mark.parametrize(
    ("host", "setting", "expected"),
    [
        ("127.0.0.1", None, True),
        ("::1", None, True),
        ("0.0.0.0", None, False),
        ("0.0.0.0", "false", True),
        ("127.0.0.1", "true", False),
    ],
)
def test_metrics_need_a_token_beyond_loopback_unless_set_otherwise(
    host: str, setting: str | None, expected: bool
) -> None:
    environ = {"CONTROLPLANE_METRICS_NEED_TOKEN": setting} if setting else {}
    assert load(environ, {"host": host}).metrics_are_open is expected


@pytest.mark.parametrize("name", ["http://plane", "plane:8420", "a b", "*plane", "plane/x"])
def test_an_allowed_host_is_a_name_or_a_pattern(name: str) -> None:
    with pytest.raises(SettingsError, match="ALLOWED_HOSTS"):
        load({"CONTROLPLANE_ALLOWED_HOSTS": name})


@pytest.mark.parametrize(
    ("text", "expected"), [("2097152", 2 * 2**20), ("512 MiB", 2**29), ("1.5GiB", 3 * 2**29)]
)
def test_sizes_may_have_units(text: str, expected: int) -> None:
    assert load({"CONTROLPLANE_RETENTION_BYTES": text}).retention_bytes == expected


@pytest.mark.parametrize("text", ["", "inf", "1e400", "ten GiB"])
def test_a_size_that_is_none_is_a_mistake_or_the_default(text: str) -> None:
    environ = {"CONTROLPLANE_RETENTION_BYTES": text}
    if not text:
        assert load(environ).retention_bytes == Settings().retention_bytes
        return
    with pytest.raises(SettingsError, match="RETENTION_BYTES"):
        load(environ)


def test_a_secret_may_come_from_a_file_and_never_shows(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text("postgresql://u:hunter2@db/cp\n")
    settings = load({"CONTROLPLANE_DATABASE_URL_FILE": str(file), "CONTROLPLANE_TOKEN": "cp_admin_hunter2"})
    assert settings.database_url == "postgresql://u:hunter2@db/cp"
    assert "hunter2" not in repr(settings)


def test_a_missing_secret_file_is_named() -> None:
    with pytest.raises(SettingsError, match="DATABASE_URL"):
        load({"CONTROLPLANE_DATABASE_URL_FILE": "/nowhere/at/all"})


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:8420"),
        ("::", "http://[::1]:8420"),
        ("cp.example", "http://cp.example:8420"),
    ],
)
def test_a_client_finds_the_server_of_its_own_settings(host: str, url: str) -> None:
    assert load({"CONTROLPLANE_HOST": host}).server_url == url


def test_a_named_server_wins() -> None:
    assert load({"CONTROLPLANE_URL": "https://cp.example/"}).server_url == "https://cp.example"


def test_with_a_lake_events_stay_for_the_hot_days_and_no_longer_than_all_else() -> None:
    assert load({}).store_days == 14.0
    lake = {"CONTROLPLANE_LAKE": "s3://bucket/lake"}
    assert load(lake).store_days == 3.0
    with pytest.raises(SettingsError, match=r"HOT_DAYS: must be at most retention_days \(2\)"):
        load({**lake, "CONTROLPLANE_RETENTION_DAYS": "2"})
    assert load({"CONTROLPLANE_RETENTION_DAYS": "2"}).store_days == 2.0
    with pytest.raises(SettingsError, match="OFFLOAD_HOURS: must be above 0"):
        load({**lake, "CONTROLPLANE_OFFLOAD_HOURS": "0"})
