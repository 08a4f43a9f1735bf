"""Build the agent's own wheel into a directory: `python packaging/agent_wheel.py dist`; prints its path.

The build works on a copy, so that it leaves nothing in the tree and two builds at once do not meet.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from wheel_layout import stage

ROOT = Path(__file__).resolve().parent.parent


def build(target: Path) -> Path:
    """Build the wheel into `target` with the setuptools of this interpreter; returns the wheel's path."""
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch)
        shutil.copytree(ROOT / "packaging/agent", project, dirs_exist_ok=True)
        stage(ROOT, project, ["listeners"])
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
        options = ["--no-build-isolation", "--no-index", "-w", str(target), str(project)]
        subprocess.run([*pip, *options], check=True)
    return max(target.glob("spark_controlplane_agent-*.whl"), key=lambda wheel: wheel.stat().st_mtime)


if __name__ == "__main__":
    print(build(Path(sys.argv[1] if len(sys.argv) > 1 else "dist")))
