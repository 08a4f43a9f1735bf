"""Tests of the tables of applications."""

from __future__ import annotations

import pytest

from tests.ui.app_factories import app
from ui.applications import frames


@pytest.mark.parametrize(
    ("state", "desired", "differs"),
    [
        ("running", "running", False),
        ("unknown", "running", False),
        ("ended", "running", True),
        ("none", "stopped", False),
        ("starting", "stopped", True),
    ],
)
def test_desired_beside_actual(state: str, desired: str, differs: bool) -> None:
    assert frames.differs({"state": state, "desired": desired}) == differs


def test_facts_leave_out_what_is_not_known() -> None:
    action = {"action": "stop", "actor": "bob", "state": "failed", "reason": "No master answers."}
    found = dict(frames.facts(app(labels={}, env=[], action=action)))
    assert set(found) == {"State", "Desired", "Version", "Last action"}
    assert found["Last action"] == "stop by bob failed: No master answers."


def test_a_state_of_a_newer_server_has_its_own_name() -> None:
    assert frames.style("paused").label == "paused"
    assert frames.applications([]).empty
