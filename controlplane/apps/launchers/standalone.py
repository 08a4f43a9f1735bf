"""Launcher of drivers on a Spark standalone cluster, by the REST API of its masters (port 6066).

The driver runs on a worker, in cluster mode: its main class is SparkSubmit, which runs Python programs as well as JARs.
A master that is the standby refuses, so each request goes to the masters in turn. The API has no users of its own: put
`spark.master.rest.filters` (Spark's JWSFilter) in front of it and name the token's file, since whoever reaches it can run
programs on the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from controlplane.apps.environment import with_agent
from controlplane.apps.launchers.seam import (
    CALL_SECONDS,
    Launch,
    LauncherKind,
    LauncherSettings,
    Section,
    wait_until,
)
from controlplane.apps.model import DriverPhase, DriverStatus, LauncherError, StartedDriver

SUBMISSIONS = "/v1/submissions"
SUBMIT_CLASS = "org.apache.spark.deploy.SparkSubmit"
DEFAULT_SPARK_VERSION = "4.3.0"
#: Spark's driver states; RELAUNCHING is a supervised driver between two processes.
PHASES = {
    "SUBMITTED": DriverPhase.STARTING,
    "RUNNING": DriverPhase.RUNNING,
    "RELAUNCHING": DriverPhase.STARTING,
    "UNKNOWN": DriverPhase.UNKNOWN,
    "FINISHED": DriverPhase.ENDED,
    "KILLED": DriverPhase.ENDED,
    "FAILED": DriverPhase.ENDED,
    "ERROR": DriverPhase.ENDED,
}


@dataclass(frozen=True)
class StandaloneLauncher:
    """Submits a program to a standalone cluster. `masters`: addresses of their REST API."""

    masters: tuple[str, ...]
    spark_master: str
    program: str
    arguments: tuple[str, ...]
    properties: Mapping[str, str]
    supervise: bool
    spark_version: str
    token_file: str | None
    agent: str | None

    def start(self, launch: Launch) -> Mapping[str, Any]:
        """Submit the program. A request without an answer may have started it."""
        answer = self._request("POST", "/create", self.submission(launch))
        if not answer.get("success") or not answer.get("submissionId"):
            raise LauncherError(f"the master refused the driver: {_message(answer)}")
        return {"submission": str(answer["submissionId"])}

    def submission(self, launch: Launch) -> dict[str, Any]:
        """The body of a submission."""
        app = launch.driver.app
        properties = {"spark.app.name": app, **self.properties}
        options = [item for name, value in properties.items() for item in ("--conf", f"{name}={value}")]
        submit = ["--master", self.spark_master, "--deploy-mode", "client", *options]
        # Without the agent's zip, its place is that of the server's own: the workers have the same files then.
        submit += ["--py-files", self.agent] if self.agent else []
        environment = dict(launch.environment) if self.agent else with_agent(launch.environment)
        return {
            "action": "CreateSubmissionRequest",
            "appResource": self.program,
            "mainClass": SUBMIT_CLASS,
            "clientSparkVersion": self.spark_version,
            "appArgs": [*submit, self.program, *self.arguments],
            "environmentVariables": {"SPARK_ENV_LOADED": "1", **environment},
            "sparkProperties": {
                **properties,
                "spark.master": self.spark_master,
                "spark.submit.deployMode": "cluster",
                "spark.driver.supervise": str(self.supervise).lower(),
            },
        }

    def stop(self, driver: StartedDriver, grace_seconds: float) -> None:
        """Kill the submission and wait for its end. Spark's worker sends SIGTERM, and SIGKILL 10 s later."""
        if self.state(driver).phase is DriverPhase.ENDED:
            return
        answer = self._request("POST", f"/kill/{_submission(driver)}")
        if not answer.get("success") and self.state(driver).may_live:
            raise LauncherError(f"the master did not kill the driver: {_message(answer)}", may_live=True)
        if not wait_until(lambda: self.state(driver).phase is DriverPhase.ENDED, grace_seconds):
            raise LauncherError(f"the driver did not end within {grace_seconds:.0f} s of the kill", True)

    def state(self, driver: StartedDriver) -> DriverStatus:
        """The master's state of the driver. A master that has forgotten it proves nothing."""
        if not driver.handle:
            reason = "The submission got no answer: see the master's page for a driver of this application."
            return DriverStatus(DriverPhase.UNKNOWN, reason)
        try:
            answer = self._request("GET", f"/status/{_submission(driver)}")
        except LauncherError as error:
            return DriverStatus(DriverPhase.UNKNOWN, f"No master answers: {error}.")
        state = str(answer.get("driverState") or "")
        if not answer.get("success") or state not in PHASES:
            reason = (
                f"The master does not know the driver {_submission(driver)}; it may still run on its worker."
            )
            return DriverStatus(DriverPhase.UNKNOWN, reason)
        where = f" on {answer['workerHostPort']}" if answer.get("workerHostPort") else ""
        why = f" ({_message(answer)})" if answer.get("message") and PHASES[state] is DriverPhase.ENDED else ""
        return DriverStatus(PHASES[state], f"{_submission(driver)} is {state}{where}{why}.")

    def logs(self, driver: StartedDriver, lines: int) -> str:
        """Where the output is: the REST API does not have it."""
        return (
            f"The REST API of the standalone master has no output. It is on the driver's worker, in the directory "
            f"{_submission(driver)} of SPARK_WORKER_DIR: stderr and stdout."
        )

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The first usable answer of a master; LauncherError with every master's problem."""
        problems, sent = [], False
        for master in self.masters:
            try:
                answer = httpx.request(
                    method,
                    f"{master}{SUBMISSIONS}{path}",
                    json=body,
                    headers=_headers(self.token_file),
                    timeout=CALL_SECONDS,
                    trust_env=False,
                )
                document = answer.json()
            except (httpx.HTTPError, ValueError) as error:
                # A body that was sent may have been carried out; another master must not get it too.
                sent = sent or not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                problems.append(f"{master}: {_error_text(error)}")
                if sent and method == "POST":
                    break
                continue
            if answer.status_code in (401, 403):
                problems.append(f"{master} refuses the token ({answer.status_code})")
            elif _is_standby(document):
                problems.append(f"{master} is not the active master")
            elif isinstance(document, dict):
                return document
        raise LauncherError("; ".join(problems), may_live=sent)


def _headers(token_file: str | None) -> dict[str, str]:
    if token_file is None:
        return {}
    try:
        return {"Authorization": f"Bearer {Path(token_file).read_text(encoding='utf-8').strip()}"}
    except OSError as error:
        raise LauncherError(f"the token file {token_file} cannot be read: {error.strerror}") from None


def _is_standby(document: Any) -> bool:
    text = str(document.get("message", "")) if isinstance(document, dict) else ""
    return "is not alive" in text or "STANDBY" in text


def _submission(driver: StartedDriver) -> str:
    return str((driver.handle or {}).get("submission") or "")


def _message(answer: Mapping[str, Any]) -> str:
    """The first line of a message, which may be a Java stack trace."""
    lines: Sequence[str] = str(answer.get("message") or "no reason given").strip().splitlines()
    return lines[0][:300].rstrip(".") if lines else "no reason given"


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__


def _fields(section: Section) -> LauncherSettings:
    return {
        "masters": section.urls("masters"),
        "spark_master": section.text("spark_master", needed=True),
        "program": section.text("program", needed=True),
        "arguments": section.texts("arguments"),
        "properties": section.pairs("properties"),
        "supervise": bool(section.reader.boolean(section.fields, "supervise")),
        "spark_version": section.text("spark_version") or DEFAULT_SPARK_VERSION,
        "token_file": section.path("token_file"),
        "agent": section.text("agent"),
    }


def _build(settings: LauncherSettings, directory: Path) -> StandaloneLauncher:
    lists = {name: tuple(settings[name]) for name in ("masters", "arguments")}
    return StandaloneLauncher(**{**settings, **lists})


KIND = LauncherKind(
    "standalone",
    (
        "masters",
        "spark_master",
        "program",
        "arguments",
        "properties",
        "supervise",
        "spark_version",
        "token_file",
        "agent",
    ),
    _fields,
    _build,
)
