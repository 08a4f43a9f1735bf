"""The Sparks of the matrix: their interpreters, and driver programs that run on them with the agent's zip alone.

An older Spark has an environment of its own in `.matrix/`, made by `make test-matrix`; the newest is `.venv`'s.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.paths import ROOT

PROGRAMS = Path(__file__).parent / "programs"
NEWEST = "4.3"
VERSIONS = os.environ.get("CONTROLPLANE_MATRIX", f"3.4 3.5 4.0 {NEWEST}").split()


def interpreter(version: str) -> str:
    """The Python of one Spark; skips, or fails where all is required, while there is none."""
    if version == NEWEST:
        return sys.executable
    python = ROOT / ".matrix" / version / "bin/python"
    if python.exists():
        return str(python)
    reason = f"no PySpark {version}: `make test-matrix MATRIX={version}` fetches it into .matrix/"
    if os.environ.get("CONTROLPLANE_REQUIRE_ALL") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def environment(python: str, url: str | None, directory: Path, *path: Path) -> dict[str, str]:
    """Nothing of ours but what is named: `path` is the whole PYTHONPATH."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME", "TMPDIR") if name in os.environ}
    output = {"CONTROLPLANE_URL": url, "CONTROLPLANE_TOKEN": "t"} if url else {}
    return {
        **kept,
        **output,
        "PYSPARK_PYTHON": python,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "CONTROLPLANE_SPOOL_DIR": str(directory / "spool"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


class Console:
    """A driver that executes one piece of code after another; `log` is its whole output."""

    def __init__(self, directory: Path, python: str, environ: dict[str, str], *flags: str):
        self.log = directory / "driver.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [python, *flags, str(PROGRAMS / "console.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=directory,
                env=environ,
            )
        self._answers: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._answers.put(line)
        self._answers.put(b"")

    def do(self, code: str, timeout: float = 300.0) -> Any:
        """Run the code in the driver; what it assigned to `answer`."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(textwrap.dedent(code)).encode() + b"\n")
        self.process.stdin.flush()
        line = self._answers.get(timeout=timeout)
        assert line, f"the driver is gone: {self.log.read_text()[-3000:]}"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["value"]

    def tell(self, expression: str) -> Any:
        """The value of an expression in the driver."""
        return self.do(f"answer = {expression}")

    def leave(self, timeout: float = 240.0) -> int:
        """Let the program come to its end; its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(timeout)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


SESSION = """
    from pyspark.sql import SparkSession
    def make():
        made = (SparkSession.builder.master("local[2]").appName("guest").config("spark.ui.enabled", "false")
                .config("spark.sql.shuffle.partitions", "1").config("spark.driver.memory", "700m").getOrCreate())
        made.sparkContext.setLogLevel("OFF")
        return made
    spark = make()
"""
