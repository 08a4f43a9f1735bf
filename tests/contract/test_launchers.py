"""What every launcher must do, whatever it launches."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.apps.launchers.catalogue import KINDS, launcher_of
from controlplane.apps.launchers.seam import Launch, Launcher
from controlplane.apps.model import DriverPhase, LauncherError, StartedDriver
from tests.launched_systems import FakeKubernetes, FakeMaster
from tests.served import served

#: A driver that prints what it was given and ends orderly on SIGTERM.
PROGRAM = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("app", os.environ["CONTROLPLANE_APP"], flush=True)
print("last line", flush=True)
time.sleep(600)
"""
#: A launcher of its own: the "cluster" is a directory with one file per driver.
SCRIPT = """
import os, pathlib, sys
folder, verb = pathlib.Path(sys.argv[1]), sys.argv[2]
name = os.environ.get("CONTROLPLANE_DRIVER") or os.environ["CONTROLPLANE_LAUNCH"]
file = folder / name
if verb == "start":
    file.write_text(os.environ["CONTROLPLANE_APP"])
    print("submitting\\n" + name)
elif verb == "stop":
    file.unlink(missing_ok=True)
elif verb == "state":
    print("running on the cluster" if file.exists() else "ended it is over")
else:
    print("first line\\nlast line")
"""


@dataclass
class LauncherForm:
    """A launcher with the system that it launches on. `lose`: from now on the system does not answer."""

    driver: StartedDriver
    directory: Path
    lose: Callable[[], None]
    has_logs: bool = True

    @property
    def launcher(self) -> Launcher:
        """A new launcher, as a restarted server makes."""
        return launcher_of(self.driver, self.directory)

    def start(self) -> StartedDriver:
        handle = self.launcher.start(Launch(self.driver, {"CONTROLPLANE_APP": self.driver.app}))
        return replace(self.driver, handle=handle)


def a_driver(kind: str, settings: dict[str, Any], launch_id: str = "launch-1") -> StartedDriver:
    return StartedDriver("billing", launch_id, kind, settings, "1", time.time(), "ada")


def process_form(tmp_path: Path, stack: ExitStack) -> LauncherForm:
    program = tmp_path / "billing.py"
    program.write_text(PROGRAM)
    driver = a_driver("process", {"command": [sys.executable, str(program)], "cwd": None})
    folder = tmp_path / "apps"

    def lose() -> None:
        (folder / "launch-1" / "driver.json").unlink()
        (folder / "launch-1").rename(folder / "elsewhere")

    return LauncherForm(driver, folder, lose)


def command_form(tmp_path: Path, stack: ExitStack) -> LauncherForm:
    script = tmp_path / "cluster.py"
    script.write_text(SCRIPT)
    (tmp_path / "cluster").mkdir()
    verbs = {
        verb: [sys.executable, str(script), str(tmp_path / "cluster"), verb]
        for verb in ("start", "stop", "state", "logs")
    }
    driver = a_driver("command", {**verbs, "cwd": None, "timeout": 30.0})
    return LauncherForm(
        driver, tmp_path / "apps", lambda: script.write_text("raise SystemExit('no cluster')")
    )


def standalone_form(tmp_path: Path, stack: ExitStack) -> LauncherForm:
    master = FakeMaster()
    standby, active = (stack.enter_context(served(m.answer)) for m in (FakeMaster(standby=True), master))
    settings = {
        "masters": [standby, active],
        "spark_master": "spark://m1:7077,m2:7077",
        "program": "file:/srv/billing.py",
        "arguments": ["--fast"],
        "properties": {"spark.cores.max": "2"},
        "supervise": False,
        "spark_version": "4.3.0",
        "token_file": None,
        "agent": None,
    }
    driver = a_driver("standalone", settings)

    def lose() -> None:
        master.standby = True

    return LauncherForm(driver, tmp_path / "apps", lose, has_logs=False)


def kubernetes_form(operator: str) -> Callable[[Path, ExitStack], LauncherForm]:
    def form(tmp_path: Path, stack: ExitStack) -> LauncherForm:
        cluster = FakeKubernetes(operator)
        (tmp_path / "token").write_text(cluster.token)
        settings = {
            "operator": operator,
            "namespace": "streams",
            "manifest": {"spec": {"sparkConf": {"spark.executor.instances": "2"}}},
            "api": stack.enter_context(served(cluster.answer)),
            "token_file": str(tmp_path / "token"),
            "ca_file": None,
            "token_secret": None,
            "agent": None,
        }

        def lose() -> None:
            cluster.token = "another"

        return LauncherForm(a_driver("kubernetes", settings), tmp_path / "apps", lose)

    return form


FORMS: dict[str, Callable[[Path, ExitStack], LauncherForm]] = {
    "process": process_form,
    "command": command_form,
    "standalone": standalone_form,
    "kubeflow": kubernetes_form("kubeflow"),
    "apache": kubernetes_form("apache"),
}


@pytest.fixture(params=list(FORMS))
def form(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LauncherForm]:
    with ExitStack() as stack:
        yield FORMS[request.param](tmp_path, stack)


def test_every_kind_has_a_form() -> None:
    assert {"process", "command", "standalone", "kubernetes"} == set(KINDS)


def test_a_started_driver_runs_until_it_is_stopped_also_for_a_new_server(form: LauncherForm) -> None:
    driver = form.start()
    assert form.launcher.state(driver).phase is DriverPhase.RUNNING
    form.launcher.stop(driver, 10.0)
    found = form.launcher.state(driver)
    assert found.phase is DriverPhase.ENDED
    assert found.reason.endswith((".", "over"))


def test_stopping_twice_is_stopping_once(form: LauncherForm) -> None:
    driver = form.start()
    form.launcher.stop(driver, 10.0)
    form.launcher.stop(driver, 10.0)
    assert form.launcher.state(driver).phase is DriverPhase.ENDED


def test_the_logs_end_with_the_last_line(form: LauncherForm) -> None:
    driver = form.start()
    until = time.monotonic() + 20
    while "last line" not in (text := form.launcher.logs(driver, 1)) and time.monotonic() < until:
        if not form.has_logs:
            assert "SPARK_WORKER_DIR" in text
            break
        time.sleep(0.05)
    else:
        assert text == "last line"
    form.launcher.stop(driver, 10.0)


def test_a_driver_that_cannot_be_asked_for_is_unknown_never_ended(form: LauncherForm) -> None:
    driver = form.start()
    form.lose()
    lost = replace(driver, handle=None) if driver.kind == "process" else driver
    found = form.launcher.state(lost)
    assert found.phase is DriverPhase.UNKNOWN
    assert found.reason
    if driver.kind == "process":  # nothing of the test stays behind
        form.launcher.stop(driver, 10.0)
    else:
        with pytest.raises(LauncherError):
            form.launcher.stop(driver, 0.2)
