"""Build backend of the server's wheel: setuptools over a copy with the layout of `wheel_layout`.

An editable install takes the repository as it is. Named in pyproject.toml as `build-backend`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401 - hooks of the editable install and of the sdist
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
)
from wheel_layout import INSTALLED_NAMES, stage


def build_wheel(
    wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel from a staged copy; returns its file name."""
    target = os.path.abspath(wheel_directory)
    with staged(Path.cwd()):
        return str(build_meta.build_wheel(target, config_settings))


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Any = None) -> str:
    target = os.path.abspath(metadata_directory)
    with staged(Path.cwd()):
        return str(build_meta.prepare_metadata_for_build_wheel(target, config_settings))


@contextlib.contextmanager
def staged(root: Path) -> Iterator[None]:
    """Inside, the working directory is a project whose packages have their installed names."""
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch)
        stage(root, project)
        for name in ("README.md", "LICENSE"):
            shutil.copy(root / name, project)
        text = (root / "pyproject.toml").read_text(encoding="utf-8")
        (project / "pyproject.toml").write_text(installed_project(text), encoding="utf-8")
        os.chdir(project)
        try:
            yield
        finally:
            os.chdir(root)


def installed_project(text: str) -> str:
    """pyproject.toml of the staged copy: the installed packages and the console script of one of them."""
    before, _, rest = text.partition("[tool.setuptools.packages.find]")
    after = rest[rest.index("\n[tool.ruff]") :]
    tops = sorted({name.partition(".")[0] for name in INSTALLED_NAMES.values()})
    packages = ", ".join(f'"{top}*"' for top in tops)
    data = "\n".join(f'{top} = ["**/*", "**/.streamlit/*"]' for top in tops)
    script = '"controlplane.cli.main:main"'
    assert script in before, "pyproject.toml: the console script is not where the build expects it"
    before = before.replace(script, f'"{INSTALLED_NAMES["controlplane"]}.cli.main:main"')
    return (
        f"{before}[tool.setuptools.packages.find]\nnamespaces = true\ninclude = [{packages}]\n\n"
        f"[tool.setuptools.package-data]\n{data}\n{after}"
    )
