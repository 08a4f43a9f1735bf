"""The table of drivers: which are shown, in which order, with which figures."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.ui.app_factories import AT, agent
from ui.applications import driver_table

NOW = datetime.fromisoformat(AT).astimezone(UTC).timestamp() + 120
HOUR = driver_table.RECENT_SECONDS


def names(agents: list[dict[str, object]], now: float = NOW) -> list[object]:
    return [each["agent"] for each in driver_table.shown(agents, now)]


def test_the_worst_come_first() -> None:
    states = ["running", "ended", "overloaded", "silent", "unreachable", "failed"]
    found = [agent(f"app-{state}", state, state) for state in states]
    assert names(found) == ["failed", "unreachable", "silent", "overloaded", "running", "ended"]
    assert driver_table.counts(found[:3] + found[:1]) == "4 drivers: 1 overloaded, 2 running, 1 ended"
    assert driver_table.counts([]) == ""


@pytest.mark.parametrize(
    ("state", "recent", "later", "recent_with_successor", "later_with_successor"),
    [
        ("running", True, True, True, True),
        ("failed", True, False, False, False),
        ("ended", True, False, False, False),
        ("silent", True, True, True, False),  # it may still write to its checkpoints
    ],
)
def test_what_has_ended_is_shown_for_an_hour_unless_its_application_runs_again(
    state: str, recent: bool, later: bool, recent_with_successor: bool, later_with_successor: bool
) -> None:
    old, successor = agent(state=state, name="old"), agent(name="new")
    shown = ["old" in names(agents, now) for agents in ([old], [old, successor]) for now in (NOW, NOW + HOUR)]
    assert shown == [recent, later, recent_with_successor, later_with_successor]
    elsewhere = {**successor, "server": "eu"}
    assert "old" in names([{**old, "server": "us"}, elsewhere])


def test_a_row_has_the_figures_of_the_last_heartbeat_and_dashes_for_unknown_ones() -> None:
    (row,) = driver_table.rows([agent(dropped={"spool_full": 3, "closed": 2})])
    assert row.cells[0] == {
        "text": "billing",
        "href": "applications?driver=0123456789abcdef",
        "note": "01234567",
    }
    assert row.cells[3:8] == ["2", "1.5", "40% of 1 GB", "2", "5"]
    bare = {"agent": "x", "app": "a b&c", "state": "new", "host": None}
    (row,) = driver_table.rows([bare])
    assert row.cells[0]["href"] == "applications?driver=x"
    assert row.cells[1] == {"text": "new", "pill": "gray"}
    assert row.cells[3:7] == ["–", "–", "–", "–"] and row.cells[10] == "–"


def test_an_older_server_reports_no_states() -> None:
    assert names([{"agent": "x", "app": "a"}]) == []


@pytest.mark.parametrize(
    ("address", "state", "linked"),
    [
        ("http://driver:4040", "running", True),
        ("https://driver:4040", "overloaded", True),
        ("http://driver:4040", "ended", False),
        ("http://driver:4040", "silent", False),
        ("javascript:alert(1)", "running", False),
        (None, "running", False),
    ],
)
def test_the_version_of_spark_leads_to_its_ui_while_the_driver_runs(
    address: str | None, state: str, linked: bool
) -> None:
    (row,) = driver_table.rows([agent(state=state, ui_url=address)])
    link = {"text": "4.3.0", "href": address, "note": "Spark UI"}
    assert row.cells[9] == (link if linked else "4.3.0")
