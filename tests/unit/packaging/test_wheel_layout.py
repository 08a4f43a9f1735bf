"""Both wheels, built as a release builds them, hold what they must and nothing else."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from functools import partial
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
    names = [
        "alerts",
        "controlplane",
        "listeners",
        "ui",
        "packaging",
        "pyproject.toml",
        "README.md",
        "LICENSE",
    ]
    subprocess.run(["cp", "-r", *names, str(source)], cwd=ROOT, check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--no-index", "-w", str(target), str(source)], check=True)
    return zipfile.ZipFile(next(target.glob("spark_controlplane-*.whl")))


def metadata(wheel: zipfile.ZipFile) -> str:
    return wheel.read(next(name for name in wheel.namelist() if name.endswith("METADATA"))).decode()


def test_the_agent_wheel_holds_one_package_and_depends_on_nothing(agent_wheel: Path) -> None:
    with zipfile.ZipFile(agent_wheel) as wheel:
        tops = {name.split("/")[0] for name in wheel.namelist()}
        about = metadata(wheel)
    assert {top for top in tops if not top.endswith(".dist-info")} == {"spark_controlplane"}
    assert "Requires-Dist" not in about
    assert "Requires-Python: >=3.9" in about


def test_the_agent_wheel_carries_every_module_and_the_hook_that_attaches_it(agent_wheel: Path) -> None:
    with zipfile.ZipFile(agent_wheel) as wheel:
        inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    modules = {
        f"spark_controlplane/{path.relative_to(ROOT / 'listeners').as_posix()}"
        for path in (ROOT / "listeners").rglob("*.py")
    }
    assert inside == modules and "spark_controlplane/site/sitecustomize.py" in inside


def test_the_agent_is_imported_from_the_wheel_as_a_zip_without_site_packages(agent_wheel: Path) -> None:
    code = "from spark_controlplane.protocol import errors, wire; print(wire.__file__)"
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


PLACES = {
    "alerts": "spark_controlplane_server/alerts",
    "controlplane": "spark_controlplane_server",
    "listeners": "spark_controlplane",
    "ui": "spark_controlplane_server/ui",
}


def test_the_server_wheel_carries_every_file_of_its_packages(server_wheel: zipfile.ZipFile) -> None:
    inside = set(server_wheel.namelist())
    wanted = {
        f"{place}/{path.relative_to(ROOT / package).as_posix()}"
        for package, place in PLACES.items()
        for path in (ROOT / package).rglob("*")
        if path.is_file()
        and not any("cache" in part for part in path.relative_to(ROOT).parts[:-1])
        and path.name != "ruff.toml"
    }
    assert wanted - inside == set()


def test_no_package_of_a_wheel_has_a_name_that_a_program_may_have(server_wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in server_wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "spark_controlplane",
        "spark_controlplane_server",
    }


def test_no_module_of_the_server_wheel_imports_a_name_of_the_repository(
    server_wheel: zipfile.ZipFile,
) -> None:
    for name in server_wheel.namelist():
        if name.endswith(".py"):
            for node in ast.walk(ast.parse(server_wheel.read(name))):
                modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                assert not {module.split(".")[0] for module in modules} & set(PLACES), name


def test_the_server_wheel_installs_the_console_script(server_wheel: zipfile.ZipFile) -> None:
    points = next(name for name in server_wheel.namelist() if name.endswith("entry_points.txt"))
    assert "controlplane = spark_controlplane_server.cli.main:main" in server_wheel.read(points).decode()


@pytest.fixture(scope="module")
def installed(server_wheel: zipfile.ZipFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's wheel unpacked, as pip would install it."""
    target = tmp_path_factory.mktemp("installed")
    server_wheel.extractall(target)
    return target


def run_beside_own_packages(installed: Path, directory: Path, *arguments: str) -> str:
    """Run Python where the program has packages named like the repository's: it must not meet them."""
    for name in PLACES:
        (directory / name).mkdir()
        (directory / name / "__init__.py").write_text('raise ImportError("the program\'s own package")')
    environ = {"PYTHONPATH": f"{directory}{os.pathsep}{installed}", "PATH": os.environ["PATH"]}
    answer = subprocess.run(
        [sys.executable, *arguments], cwd=directory, env=environ, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_the_installed_agent_packs_itself_as_a_zip(installed: Path, tmp_path: Path) -> None:
    target = tmp_path / "agent.zip"
    run_beside_own_packages(installed, tmp_path, "-m", "spark_controlplane.packaging", "--zip", str(target))
    with zipfile.ZipFile(target) as archive:
        names = archive.namelist()
    assert {"sitecustomize.py", "spark_controlplane/attach.py"} <= set(names)
    assert {name.split("/")[0] for name in names} == {"sitecustomize.py", "spark_controlplane"}


def test_an_sdist_carries_what_a_build_needs(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    names = [
        "alerts",
        "controlplane",
        "listeners",
        "ui",
        "packaging",
        "pyproject.toml",
        "README.md",
        "LICENSE",
    ]
    subprocess.run(["cp", "-r", *names, "MANIFEST.in", str(source)], cwd=ROOT, check=True)
    code = "import sys; sys.path.insert(0, 'packaging'); import wheel_backend; print(wheel_backend.build_sdist('.'))"
    subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, check=True)
    with tarfile.open(next(source.glob("*.tar.gz"))) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "packaging/wheel_backend.py",
        "alerts/rules/streaming.yaml.tmpl",
        "controlplane/health/failures.toml",
    }
    assert wanted <= inside and "ui/.streamlit/config.toml" in inside


@pytest.mark.parametrize("command", [["--help"], ["demo", "--list", "--json"], ["rules", "check", "--help"]])
def test_the_installed_command_line_works_beside_packages_of_the_same_names(
    installed: Path, tmp_path: Path, command: list[str]
) -> None:
    code = "import sys; from spark_controlplane_server.cli.main import main; main()"
    assert run_beside_own_packages(installed, tmp_path, "-c", code, *command)


def test_the_installed_server_starts_its_pages_beside_packages_of_the_same_names(
    installed: Path, tmp_path: Path
) -> None:
    code = (
        "from spark_controlplane_server import app; from spark_controlplane_server.ui import launch\n"
        "from spark_controlplane_server.alerts.rules import pack; print(launch.ENTRY, pack.runbook('Stuck')[:5])"
    )
    assert "spark_controlplane_server" in run_beside_own_packages(installed, tmp_path, "-c", code)


def test_the_name_of_the_agent_in_the_documentation_works_in_a_checkout() -> None:
    code = (
        "from spark_controlplane import attach; from spark_controlplane.queries import registry\n"
        "import listeners.attach, listeners.queries.registry\n"
        "assert attach is listeners.attach and registry is listeners.queries.registry\n"
        "assert listeners.attach.__spec__.name == 'listeners.attach'"
    )
    environ = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'packaging/checkout'}", "PATH": os.environ["PATH"]}
    run = partial(subprocess.run, cwd="/", env=environ, capture_output=True, text=True, check=False)
    answer = run([sys.executable, "-c", code])
    assert answer.returncode == 0, answer.stderr
    answer = run([sys.executable, "-m", "spark_controlplane.run"])
    assert answer.returncode == 2 and answer.stderr.startswith("controlplane run: no program named")
