"""Both wheels, built as a release builds them, hold what they must and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.paths import ROOT


@pytest.fixture(scope="module")
def agent_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("agent")
    command = [sys.executable, "packaging/agent_wheel.py", str(target)]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return Path(answer.stdout.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def server_wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    target = tmp_path_factory.mktemp("server")
    source = target / "source"
    source.mkdir()
    # A build from a copy: it must not leave build/ in the tree, nor find one there.
    names = ["alerts", "controlplane", "listeners", "ui", "pyproject.toml", "README.md", "LICENSE"]
    subprocess.run(["cp", "-r", *names, str(source)], cwd=ROOT, check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--no-index", "-w", str(target), str(source)], check=True)
    return zipfile.ZipFile(next(target.glob("spark_controlplane-*.whl")))


def metadata(wheel: zipfile.ZipFile) -> str:
    return wheel.read(next(name for name in wheel.namelist() if name.endswith("METADATA"))).decode()


def test_the_agent_wheel_holds_listeners_alone_and_depends_on_nothing(agent_wheel: Path) -> None:
    with zipfile.ZipFile(agent_wheel) as wheel:
        tops = {name.split("/")[0] for name in wheel.namelist()}
        about = metadata(wheel)
    assert {top for top in tops if not top.endswith(".dist-info")} == {"listeners"}
    assert "Requires-Dist" not in about
    assert "Requires-Python: >=3.9" in about


def test_the_agent_wheel_carries_every_module_and_the_hook_that_attaches_it(agent_wheel: Path) -> None:
    with zipfile.ZipFile(agent_wheel) as wheel:
        inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "listeners").rglob("*.py")}
    assert inside == modules and "listeners/site/sitecustomize.py" in inside


def test_the_agent_is_imported_from_the_wheel_as_a_zip_without_site_packages(agent_wheel: Path) -> None:
    code = (
        "import listeners.protocol.wire, listeners.protocol.errors; print(listeners.protocol.wire.__file__)"
    )
    environ = {"PYTHONPATH": str(agent_wheel), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-S", "-c", code]
    answer = subprocess.run(command, cwd="/", env=environ, capture_output=True, text=True, check=True)
    assert answer.stdout.startswith(str(agent_wheel))


def test_both_wheels_carry_the_same_version(agent_wheel: Path, server_wheel: zipfile.ZipFile) -> None:
    with zipfile.ZipFile(agent_wheel) as wheel:
        versions = {
            re.search(r"^Version: (.+)$", text, re.M)[1] for text in (metadata(wheel), metadata(server_wheel))
        }  # type: ignore[index]
    assert len(versions) == 1


def test_the_server_wheel_carries_every_file_of_its_packages(server_wheel: zipfile.ZipFile) -> None:
    inside = set(server_wheel.namelist())
    wanted = {
        path.relative_to(ROOT).as_posix()
        for room in ("alerts", "controlplane", "ui")
        for path in (ROOT / room).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted - inside == set()


def test_the_server_wheel_installs_the_console_script(server_wheel: zipfile.ZipFile) -> None:
    points = next(name for name in server_wheel.namelist() if name.endswith("entry_points.txt"))
    assert "controlplane = controlplane.cli.main:main" in server_wheel.read(points).decode()
