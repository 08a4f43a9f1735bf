"""The child process that offloads events to the lake: at most one, ended with the server, its output in a log
file.

Owned by `controlplane.history.service`, which decides when it runs. The server itself never imports Spark.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from controlplane.runtime.java import java_environment
from controlplane.settings import PREFIX, Settings

LOG_FILE = "history-offload.log"
#: The job runs beside the server and has no deadline.
MASTER = "local[2]"
STOP_SECONDS = 5.0
#: Bytes at the end of the log that are searched for the error.
TAIL_BYTES = 4_000


def missing_requirement(environ: Mapping[str, str] = os.environ) -> str | None:
    """What this machine lacks to run the job; None where it can run."""
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark is missing: pip install 'spark-controlplane[pipeline]'"
    if java_environment(environ) is None:
        return "Java 17 or newer is missing"
    return None


def command(settings: Settings, cutoff: float) -> list[str]:
    """The command line of the job, without the database URL: other users can read command lines."""
    arguments = ["--lake", str(settings.lake), "--data-dir", str(settings.data_dir.absolute())]
    program = [sys.executable, "-m", "controlplane.cli.main", "history", "offload"]
    return [*program, *arguments, "--before", f"{cutoff:.3f}", "--master", MASTER, "--json"]


def environment(settings: Settings, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The job's environment."""
    # The job validates all settings again and must see those that the server got as options.
    environment = {**environ, **(java_environment(environ) or {})}
    environment |= {
        f"{PREFIX}HOT_DAYS": str(settings.hot_days),
        f"{PREFIX}RETENTION_DAYS": str(settings.retention_days),
    }
    if settings.database_url is not None:
        environment[f"{PREFIX}DATABASE_URL"] = settings.database_url
    return environment


@dataclass(frozen=True)
class OffloadExit:
    """How a job ended. `error`: its last error line where it failed."""

    started_at: float
    error: str | None = None


class OffloadProcess:
    """Starts and stops the job. Thread-safe."""

    def __init__(self, log: Path):
        self.log = log
        self._child: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._stopped = False
        self._lock = threading.Lock()

    @property
    def runs(self) -> bool:
        """Whether the job is running."""
        with self._lock:
            return self._child is not None and self._child.poll() is None

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], now: float) -> bool:
        """Start the job and return True; False while one runs or its exit has not been collected, and after
        `stop`.
        """
        with self._lock:
            if self._child is not None or self._stopped:
                return False
            # The wrapper ends itself with the server; a preexec function would run between fork and exec
            # beside other threads.
            wrapped = [
                sys.executable,
                "-m",
                "controlplane.runtime.child_processes",
                str(os.getpid()),
                *arguments,
            ]
            with self.log.open("wb") as file:
                self._child = subprocess.Popen(
                    wrapped, env=dict(environment), stdin=subprocess.DEVNULL, stdout=file, stderr=file
                )
            self._started_at = now
            return True

    def ended(self) -> OffloadExit | None:
        """Return once how the job ended; None while it runs and where there is none."""
        with self._lock:
            child = self._child
            if child is None or child.poll() is None:
                return None
            self._child = None
            return OffloadExit(
                self._started_at, None if child.returncode == 0 else self._last_error(child.returncode)
            )

    def _last_error(self, code: int) -> str:
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            lines = []
        own_lines = [line.strip() for line in lines if line.strip().startswith("controlplane")]
        return own_lines[-1] if own_lines else f"the job exited with code {code}; see {self.log}"

    def stop(self) -> None:
        """End a running job and start no more: uncommitted work is repeated by the next job."""
        with self._lock:
            self._stopped, child = True, self._child
        if child is None or child.poll() is not None:
            return
        child.terminate()
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
