"""Tests of the command launcher beyond the contract: what commands get, and commands that fail or hang."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.apps.launchers.command import CommandLauncher
from controlplane.apps.launchers.seam import Launch
from controlplane.apps.model import DriverPhase, LauncherError, StartedDriver

DRIVER = StartedDriver("billing", "l1", "command", {}, "1", 1.0, "ada", {"driver": "application_7"})


def launcher(state: str = "true", start: str = "true", timeout: float = 20.0) -> CommandLauncher:
    return CommandLauncher(("sh", "-c", start), ("false",), ("sh", "-c", state), (), None, timeout)


@pytest.mark.parametrize(
    ("script", "phase", "reason"),
    [
        (
            "echo running on $CONTROLPLANE_DRIVER of $CONTROLPLANE_APP",
            "running",
            "on application_7 of billing",
        ),
        ("echo ended", "ended", "The command printed ended."),
        ("echo RUNNING", "unknown", "state ended with exit code 0 and printed: RUNNING"),
        ("echo running; exit 1", "unknown", "state ended with exit code 1 and printed: running"),
        ("true", "unknown", "state ended with exit code 0 and printed: nothing"),
    ],
)
def test_the_state_is_the_first_word(script: str, phase: str, reason: str) -> None:
    found = launcher(script).state(DRIVER)
    assert (found.phase, found.reason) == (phase, reason)


def test_a_command_that_hangs_is_ended() -> None:
    found = launcher("sleep 60", timeout=0.2).state(DRIVER)
    assert (found.phase, found.reason) == (DriverPhase.UNKNOWN, "sh took longer than 0.2 s and was ended.")


def test_a_driver_left_behind_does_not_hold_the_start_up() -> None:
    handle = launcher(start="sleep 20 & echo application_$!").start(Launch(DRIVER, {}))
    assert handle["driver"].startswith("application_")


def test_a_failed_start_may_have_submitted() -> None:
    with pytest.raises(LauncherError, match="exit code 3: no queue") as error:
        launcher(start="echo no queue; exit 3").start(Launch(DRIVER, {}))
    assert error.value.may_live


def test_a_missing_command_is_named() -> None:
    missing = replace(launcher(), start_command=("no-such-command",))
    with pytest.raises(LauncherError, match="no-such-command cannot be run") as error:
        missing.start(Launch(DRIVER, {}))
    assert not error.value.may_live


def test_a_failed_stop_leaves_a_driver() -> None:
    with pytest.raises(LauncherError, match="stop failed") as error:
        launcher("echo running").stop(DRIVER, 0.1)
    assert error.value.may_live
