"""Tests of applying a file: a person's word outlives it, and no living driver is forgotten."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.apps.declaration import plan
from controlplane.apps.model import AppSpec, DesiredAppState, StartedDriver
from controlplane.errors import Conflict
from controlplane.store.supervision.apps import AppRow

SPEC = AppSpec("billing", "process", {"command": ["x"], "cwd": None})
DRIVER = StartedDriver("billing", "l1", "process", {}, "1", 1.0, "ada")


def row(**changes: object) -> AppRow:
    (made,) = plan([], [SPEC], "ada", 1.0).stored
    return replace(made, **changes)  # type: ignore[arg-type]


def test_the_same_file_changes_nothing() -> None:
    planned = plan([row()], [SPEC], "bob", 2.0)
    assert (planned.stored, planned.removed, planned.changes) == ([], [], {"billing": "unchanged"})


def test_a_persons_stop_outlives_a_new_version() -> None:
    stopped = row(desired="stopped", desired_by="ada")
    (changed,) = plan([stopped], [replace(SPEC, version="2")], "bob", 2.0).stored
    assert (changed.desired, changed.desired_by, changed.declared_by) == ("stopped", "ada", "bob")


def test_a_change_of_the_desired_state_in_the_file_holds() -> None:
    wanted = replace(SPEC, desired=DesiredAppState.STOPPED)
    (changed,) = plan([row()], [wanted], "bob", 2.0).stored
    assert (changed.desired, changed.desired_by, changed.desired_at) == ("stopped", "bob", 2.0)


def test_a_missing_application_is_removed_once_its_driver_has_ended() -> None:
    with pytest.raises(Conflict, match="billing"):
        plan([row(driver=DRIVER.to_json())], [], "bob", 2.0)
    ended = replace(DRIVER, ended_at=2.0)
    assert plan([row(driver=ended.to_json())], [], "bob", 2.0).changes == {"billing": "removed"}
