"""The systemd units are valid, and start the commands of this version."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.cli.main import COMMANDS
from controlplane.settings import PREFIX, Settings
from tests.paths import ROOT
from tests.programs import required

UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
PROGRAM = "/opt/spark-controlplane/bin/controlplane"


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    verify = required("systemd-analyze", "systemd")
    for unit in UNITS:
        # systemd wants the program to exist.
        (tmp_path / unit.name).write_text(unit.read_text().replace(PROGRAM, sys.executable))
    answer = subprocess.run(
        [verify, "verify", "--man=no", *(str(tmp_path / unit.name) for unit in UNITS)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (answer.returncode, answer.stderr.strip()) == (0, "")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_a_command_as_a_user_with_known_settings(unit: Path) -> None:
    lines = [line.partition("=") for line in unit.read_text().splitlines() if "=" in line and line[0] != "#"]
    start = next(value for name, _, value in lines if name == "ExecStart")
    program, command = start.split()
    assert program == PROGRAM and command in COMMANDS
    assert ("User", "=", "spark-controlplane") in lines
    given = [
        word.partition("=")[0] for name, _, value in lines if name == "Environment" for word in value.split()
    ]
    known = {PREFIX + name.upper() for name in Settings.__dataclass_fields__} | {"PYTHONUNBUFFERED", "HOME"}
    assert set(given) <= known


def test_local_drivers_survive_a_restart_of_the_server() -> None:
    """By default systemd ends every process of the unit, also those in sessions of their own."""
    unit = (ROOT / "deploy" / "systemd" / "spark-controlplane.service").read_text()
    assert "KillMode=process" in unit.splitlines()
