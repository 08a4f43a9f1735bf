"""Where the agent is, and the agent as one file."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from listeners import packaging
from tests.paths import ROOT


def test_the_directory_for_the_path_holds_the_sitecustomize(capsys: pytest.CaptureFixture[str]) -> None:
    assert packaging.main([]) == 0
    assert Path(capsys.readouterr().out.strip(), "sitecustomize.py").is_file()


def test_the_zip_holds_the_agent_and_at_its_top_what_attaches_it(tmp_path: Path) -> None:
    assert packaging.main(["--zip", str(tmp_path / "agent.zip")]) == 0
    with zipfile.ZipFile(tmp_path / "agent.zip") as archive:
        inside = set(archive.namelist())
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "listeners").rglob("*.py")}
    assert inside == {*modules, "sitecustomize.py"}


def test_a_zip_writes_itself_again_the_same(tmp_path: Path) -> None:
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"
    packaging.write_zip(str(first))
    command = [sys.executable, "-S", "-m", "listeners.packaging", "--zip", str(second)]
    subprocess.run(command, cwd="/", env={"PYTHONPATH": str(first)}, check=True)
    assert first.read_bytes() == second.read_bytes()


def test_a_place_that_cannot_be_written_is_one_clear_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / "missing/agent.zip"
    assert packaging.main(["--zip", str(there)]) == 2
    assert f"cannot write {there}: No such file" in capsys.readouterr().err
