"""Which desired state a person's action means, and whom it binds."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.store.supervision import desired as rows
from controlplane.supervision.desired_states import refusal_of_policy
from controlplane.supervision_model import Desired, DesiredState
from tests.stores import sqlite_harness
from tests.unit.controlplane.actions.views import NOW, ask


@pytest.mark.parametrize(
    ("state", "actor", "refused"),
    [
        (DesiredState.STOPPED, "policy:payments", True),
        (DesiredState.SUSPENDED, "policy:payments", True),
        (DesiredState.RUNNING, "policy:payments", False),
        (DesiredState.STOPPED, "ada", False),
    ],
)
def test_a_policy_may_not_start_what_a_person_does_not_want(
    tmp_path: Path, state: DesiredState, actor: str, refused: bool
) -> None:
    with sqlite_harness(tmp_path) as harness:
        harness.write(rows.put, Desired("q1", state, "bob", NOW))
        found = harness.read(refusal_of_policy, ask("start", actor=actor), "q1", NOW)
        assert (found is not None) == refused
        assert found is None or (found.code, "bob" in found.reason) == ("desired_state", True)
