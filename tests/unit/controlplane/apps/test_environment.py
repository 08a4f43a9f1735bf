"""Tests of the environment of a driver."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.apps.environment import SITE, driver_environment, with_agent
from controlplane.apps.model import AppSpec, LauncherError
from listeners.packaging import site_directory

SPEC = AppSpec("billing", "process", {}, version="7", labels={"team": "a"}, environment={"LEVEL": "debug"})


def test_the_agent_gets_server_name_labels_version_and_token(tmp_path: Path) -> None:
    assert driver_environment(SPEC, "http://plane:8420", tmp_path / "agent.token") == {
        "CONTROLPLANE_URL": "http://plane:8420",
        "CONTROLPLANE_APP": "billing",
        "CONTROLPLANE_LABELS": "team=a,version=7",
        "CONTROLPLANE_TOKEN_FILE": str(tmp_path / "agent.token"),
        "LEVEL": "debug",
    }


def test_the_file_has_the_last_word(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("cp_agent_x\n")
    spec = AppSpec(
        "billing",
        "process",
        {},
        environment={"CONTROLPLANE_URL": "http://proxy:1"},
        environment_files={"CONTROLPLANE_TOKEN": str(tmp_path / "secret")},
    )
    found = driver_environment(spec, "http://plane:8420", tmp_path / "agent.token")
    assert found["CONTROLPLANE_URL"] == "http://proxy:1"
    assert found["CONTROLPLANE_TOKEN"] == "cp_agent_x"
    assert "CONTROLPLANE_TOKEN_FILE" not in found


def test_a_missing_file_is_named() -> None:
    spec = AppSpec("billing", "process", {}, environment_files={"KEY": "/nowhere/key"})
    with pytest.raises(LauncherError, match="/nowhere/key"):
        driver_environment(spec, "http://plane:8420", None)


def test_python_finds_the_agents_hook(tmp_path: Path) -> None:
    assert str(SITE) == site_directory()
    environment = with_agent({"PYTHONPATH": str(tmp_path), "CONTROLPLANE_URL": "http://plane:8420"})
    code = (
        "import sys; print(any(getattr(finder, 'controlplane', False) for finder in sys.meta_path), sys.path)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("True")
    assert str(tmp_path) in shown.stdout
