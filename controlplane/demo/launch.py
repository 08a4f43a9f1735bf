"""Commands and environments of the demo's processes.

Called by `controlplane.demo.fleet`. Server, dashboard and drivers are started as users start them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane.demo import processes, scenarios

HOST = "127.0.0.1"
#: Fast start instead of peak performance: C1 compiler and serial collector.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: Windows and `for` durations of the shipped rules at a fiftieth: two and a half hours become three minutes.
#: The series step is one second accordingly.
RULES = {"CONTROLPLANE_RULES_SCALE": "0.02", "CONTROLPLANE_SERIES_STEP": "1"}


@dataclass(frozen=True)
class Options:
    """Options of `controlplane demo`. `minutes` None: until Ctrl-C. `webhook` receives the notifications."""

    data_dir: Path
    port: int
    ui_port: int
    troubles: tuple[scenarios.Trouble, ...]
    minutes: float | None = None
    webhook: str | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def ui_url(self) -> str:
        return f"http://{HOST}:{self.ui_port}"

    @property
    def logs(self) -> Path:
        return self.data_dir / "logs"

    @property
    def admin_token(self) -> Path:
        return self.data_dir / "admin.token"

    @property
    def agent_token(self) -> Path:
        return self.data_dir / "agent.token"


def environment(options: Options, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of every child, without settings of the user's own control plane."""
    kept = {name: value for name, value in environ.items() if not name.startswith("CONTROLPLANE_")}
    return {
        **kept,
        "CONTROLPLANE_HOST": HOST,
        "CONTROLPLANE_PORT": str(options.port),
        "CONTROLPLANE_UI_PORT": str(options.ui_port),
        "CONTROLPLANE_DATA_DIR": str(options.data_dir),
        "CONTROLPLANE_URL": options.url,
        "PYTHONUNBUFFERED": "1",
    }


def controlplane(*arguments: str) -> list[str]:
    """The command line, run by this interpreter wherever its script is installed."""
    return [sys.executable, "-c", "from controlplane.cli.main import main; main()", *arguments]


def server(options: Options, environ: Mapping[str, str]) -> processes.Child:
    address = ("--host", HOST, "--port", str(options.port))
    place = str(options.data_dir)
    checkpoints = ("--checkpoint-root", place, "--checkpoint-changes")
    command = controlplane("serve", *address, "--data-dir", place, *checkpoints)
    webhook = {"CONTROLPLANE_WEBHOOK": options.webhook} if options.webhook else {}
    return processes.start("server", command, {**environ, **RULES, **webhook}, options.logs / "server.log")


def dashboard(options: Options, environ: Mapping[str, str]) -> processes.Child:
    token = {"CONTROLPLANE_TOKEN_FILE": str(options.admin_token)}
    command = controlplane("ui", "--server", options.url)
    return processes.start("dashboard", command, {**environ, **token}, options.logs / "ui.log")


def feeder(options: Options, place: Path, environ: Mapping[str, str]) -> processes.Child:
    code = "from controlplane.demo.feeder import main; main()"
    command = [sys.executable, "-c", code, str(place / "input")]
    return processes.start("feeder", command, environ, options.logs / "feeder.log")


def driver(
    wanted: scenarios.Driver, options: Options, place: Path, environ: Mapping[str, str]
) -> processes.Child:
    """A Spark driver under `python -m listeners.run`; the program itself is unmodified."""
    added = {
        "CONTROLPLANE_TOKEN_FILE": str(options.agent_token),
        "CONTROLPLANE_APP": wanted.app,
        "CONTROLPLANE_LABELS": "team=demo,env=local",
        "CONTROLPLANE_SPOOL_DIR": str(place / "spool" / wanted.app),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # Spark would look up this host's name, which is slow or wrong on many laptops.
        "SPARK_LOCAL_IP": HOST,
        "JDK_JAVA_OPTIONS": f"{QUICK_JAVA} {environ.get('JDK_JAVA_OPTIONS', '')}".strip(),
    }
    command = [sys.executable, "-m", "listeners.run", str(wanted.program), str(place), *wanted.queries]
    # Python turns SIGINT into KeyboardInterrupt, so that the agent can report the end; SIGTERM ends at once.
    log = options.logs / f"{wanted.app}.log"
    return processes.start(wanted.app, command, {**environ, **added}, log, signal.SIGINT)
