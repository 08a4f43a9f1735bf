"""Tests of the standalone launcher beyond the contract: what is submitted, masters in turn, and tokens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.apps.launchers.seam import Launch
from controlplane.apps.launchers.standalone import StandaloneLauncher
from controlplane.apps.model import DriverPhase, LauncherError, StartedDriver
from tests.launched_systems import FakeMaster
from tests.served import Answer, ReceivedRequest, served

DRIVER = StartedDriver("billing", "l1", "standalone", {}, "1", 1.0, "ada")
LAUNCH = Launch(DRIVER, {"CONTROLPLANE_APP": "billing"})


def launcher(*masters: str, **changes: Any) -> StandaloneLauncher:
    made = StandaloneLauncher(
        masters=masters,
        spark_master="spark://m1:7077",
        program="/srv/billing.py",
        arguments=("--fast",),
        properties={"spark.cores.max": "2"},
        supervise=False,
        spark_version="4.3.0",
        token_file=None,
        agent=None,
    )
    return replace(made, **changes)


@contextmanager
def state_of(state: str) -> Iterator[DriverPhase]:
    master = FakeMaster(drivers={"driver-1": state})
    with served(master.answer) as url:
        yield launcher(url).state(replace(DRIVER, handle={"submission": "driver-1"})).phase


def test_the_submission_is_a_spark_submit_on_a_worker() -> None:
    body = launcher("http://m1:6066", agent="/srv/agent.zip", supervise=True).submission(LAUNCH)
    assert body["mainClass"] == "org.apache.spark.deploy.SparkSubmit"
    options = (
        "--master spark://m1:7077 --deploy-mode client --conf spark.app.name=billing --conf spark.cores.max=2"
    )
    assert body["appArgs"] == [*options.split(), "--py-files", "/srv/agent.zip", "/srv/billing.py", "--fast"]
    assert body["sparkProperties"]["spark.driver.supervise"] == "true"
    assert body["environmentVariables"]["CONTROLPLANE_APP"] == "billing"
    assert "PYTHONPATH" not in body["environmentVariables"]


def test_without_the_agents_zip_the_servers_own_files_are_named() -> None:
    assert (
        launcher("http://m1:6066").submission(LAUNCH)["environmentVariables"]["PYTHONPATH"].endswith("site")
    )


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("SUBMITTED", DriverPhase.STARTING),
        ("RELAUNCHING", DriverPhase.STARTING),
        ("RUNNING", DriverPhase.RUNNING),
        ("FINISHED", DriverPhase.ENDED),
        ("FAILED", DriverPhase.ENDED),
        ("KILLED", DriverPhase.ENDED),
        ("ERROR", DriverPhase.ENDED),
        ("UNKNOWN", DriverPhase.UNKNOWN),
        ("NEW_IN_SPARK_5", DriverPhase.UNKNOWN),
    ],
)
def test_states_of_spark(state: str, phase: DriverPhase) -> None:
    with state_of(state) as found:
        assert found is phase


def test_a_master_that_forgot_the_driver_proves_nothing() -> None:
    with served(FakeMaster().answer) as url:
        found = launcher(url).state(replace(DRIVER, handle={"submission": "driver-1"}))
    assert found.phase is DriverPhase.UNKNOWN
    assert "may still run on its worker" in found.reason


def test_a_submission_that_may_have_arrived_goes_to_no_other_master() -> None:
    second = FakeMaster()

    def garbage(request: ReceivedRequest) -> Answer:
        return 200, "<html>"

    with served(garbage) as broken, served(second.answer) as url, pytest.raises(LauncherError) as error:
        launcher(broken, url).start(LAUNCH)
    assert error.value.may_live
    assert second.submissions == []


def test_a_master_that_is_down_gets_nothing() -> None:
    with pytest.raises(LauncherError, match=r"127\.0\.0\.1:1") as error:
        launcher("http://127.0.0.1:1").start(LAUNCH)
    assert not error.value.may_live


def test_the_token_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("jws\n")
    with served(FakeMaster(token="jws").answer) as url:
        with pytest.raises(LauncherError, match="refuses the token"):
            launcher(url).start(LAUNCH)
        assert launcher(url, token_file=str(tmp_path / "token")).start(LAUNCH)["submission"]
    with pytest.raises(LauncherError, match="cannot be read"):
        launcher(url, token_file="/no/token").start(LAUNCH)


def test_a_refusal_has_the_masters_first_line() -> None:
    def refuse(request: ReceivedRequest) -> Answer:
        return 400, {"action": "ErrorResponse", "message": "Malformed request: x\n\tat org.apache.spark"}

    with served(refuse) as url, pytest.raises(LauncherError, match=r"Malformed request: x$"):
        launcher(url).start(LAUNCH)
