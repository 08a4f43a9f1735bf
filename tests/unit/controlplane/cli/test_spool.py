"""`controlplane spool send` in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from listeners.delivery.spool import Spool
from tests.paths import ROOT
from tests.recording_server import RecordingServer


def test_spool_send_delivers_what_an_ended_driver_left(recorder: RecordingServer, tmp_path: Path) -> None:
    agent = "11111111-1111-1111-1111-111111111111"
    left = Spool(tmp_path / agent, {"app": "orders", "server": "http://127.0.0.1:9"})
    left.append([(1, b'{"agent":"%s","seq":1,"type":"app_ended","data":{"reason":"exit"}}' % agent.encode())])
    left.close()
    done = subprocess.run(
        [sys.executable, "-m", "controlplane", "spool", "send", str(tmp_path), "--server", recorder.url],
        env={**os.environ, "PYTHONPATH": str(ROOT), "CONTROLPLANE_TOKEN": "t"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "orders (agent 11111111): 1 events delivered\n"), done.stderr
    assert recorder.of_type("app_ended") == [{"reason": "exit"}]
