"""Builds the agent's own wheel into a directory: `python packaging/agent_wheel.py dist`; prints its path.

The sources are copied beside their project file first, so that a build leaves nothing in the tree and
two builds at once do not meet.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def build(target: Path) -> Path:
    """Build the wheel into `target` with the setuptools of this interpreter; returns the wheel's path."""
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch, "packaging", "agent")
        shutil.copytree(ROOT / "packaging/agent", project)
        ignored = shutil.ignore_patterns("__pycache__", "*.toml")
        shutil.copytree(ROOT / "listeners", Path(scratch, "listeners"), ignore=ignored)
        command = [
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "wheel",
            "--quiet",
            "--no-deps",
        ]
        subprocess.run(
            [*command, "--no-build-isolation", "--no-index", "-w", str(target), str(project)], check=True
        )
    return max(target.glob("spark_controlplane_agent-*.whl"), key=lambda wheel: wheel.stat().st_mtime)


if __name__ == "__main__":
    print(build(Path(sys.argv[1] if len(sys.argv) > 1 else "dist")))
