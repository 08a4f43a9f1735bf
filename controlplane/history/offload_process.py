"""The child process that moves events to the lake: one at a time, ended with the server, its words in a log file.

Held by `controlplane.history.service`, which says when it is due. The server itself never imports Spark.
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
#: Threads of the job: it runs beside the server, and has time.
MASTER = "local[2]"
STOP_SECONDS = 5.0
#: Of the log's end, looked through for what went wrong.
TAIL_BYTES = 4_000


def missing_requirement(environ: Mapping[str, str] = os.environ) -> str | None:
    """Why this machine cannot run the job; None where it can."""
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark is missing: pip install 'spark-controlplane[pipeline]'"
    if java_environment(environ) is None:
        return "Java 17 or newer is missing"
    return None


def command(settings: Settings, cutoff: float) -> list[str]:
    """What is run; the database's URL is not among it, for everybody may read a command line."""
    arguments = ["--lake", str(settings.lake), "--data-dir", str(settings.data_dir.absolute())]
    program = [sys.executable, "-m", "controlplane.cli.main", "history", "offload"]
    return [*program, *arguments, "--before", f"{cutoff:.3f}", "--master", MASTER, "--json"]


def environment(settings: Settings, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    # The command line checks all settings again: those of the server's own command line must not be missed.
    told = {**environ, **(java_environment(environ) or {})}
    told |= {
        f"{PREFIX}HOT_DAYS": str(settings.hot_days),
        f"{PREFIX}RETENTION_DAYS": str(settings.retention_days),
    }
    if settings.database_url is not None:
        told[f"{PREFIX}DATABASE_URL"] = settings.database_url
    return told


@dataclass(frozen=True)
class OffloadExit:
    """How a job ended. `error`: its last words, where it failed."""

    began: float
    error: str | None = None


class OffloadProcess:
    """Starts the job and looks after it; from any thread."""

    def __init__(self, log: Path):
        self.log = log
        self._child: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self._stopped = False
        self._lock = threading.Lock()

    @property
    def runs(self) -> bool:
        with self._lock:
            return self._child is not None and self._child.poll() is None

    def start(self, arguments: Sequence[str], told: Mapping[str, str], now: float) -> bool:
        """Start the job, unless one runs or has not been asked for its end; whether it was started."""
        with self._lock:
            if self._child is not None or self._stopped:
                return False
            # The wrapper has itself ended with us: between fork and exec no code of ours may run beside our threads.
            wrapped = [
                sys.executable,
                "-m",
                "controlplane.runtime.child_processes",
                str(os.getpid()),
                *arguments,
            ]
            with self.log.open("wb") as file:
                self._child = subprocess.Popen(
                    wrapped, env=dict(told), stdin=subprocess.DEVNULL, stdout=file, stderr=file
                )
            self._began = now
            return True

    def ended(self) -> OffloadExit | None:
        """How the job ended, told once; None while it runs, and where there is none."""
        with self._lock:
            child = self._child
            if child is None or child.poll() is None:
                return None
            self._child = None
            return OffloadExit(self._began, None if child.returncode == 0 else self._words(child.returncode))

    def _words(self, code: int) -> str:
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - TAIL_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            lines = []
        said = [line.strip() for line in lines if line.strip().startswith("controlplane")]
        return said[-1] if said else f"it ended with {code}; {self.log} says more"

    def stop(self) -> None:
        """End the job, if one runs, and start none any more: what it has not committed is done again next time."""
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
