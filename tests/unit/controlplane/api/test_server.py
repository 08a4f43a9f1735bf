"""The end of the server's process."""

from __future__ import annotations

import subprocess
import sys

from tests.paths import ROOT


def test_a_shutdown_that_does_not_end_ends_the_process() -> None:
    program = "import threading; from controlplane.api.server import end_after; end_after(0.1); threading.Event().wait()"
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0
    assert "the shutdown took longer than 0.1 s" in ended.stderr
