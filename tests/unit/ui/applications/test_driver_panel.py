"""The facts of a driver, and what each deploy changed."""

import pytest

from tests.ui.app_factories import agent
from ui.applications import driver_panel


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "Nothing known."),
        ({"labels": {}}, "version 7 → none"),
        ({"labels": {"version": "8", "team": "web"}}, "version 7 → 8; team none → web"),
        ({"spark_version": "4.4.0", "master": "yarn"}, "Spark 4.3.0 → 4.4.0; master none → yarn"),
    ],
)
def test_a_deploy_is_what_differs_from_the_driver_before(changes: dict[str, object], sentence: str) -> None:
    assert driver_panel.changed(agent(**changes), agent()) == sentence  # type: ignore[arg-type]
    assert driver_panel.changed(agent(), None) == ""


def test_facts_leave_out_what_is_unknown_and_an_address_that_is_gone() -> None:
    shown = dict(driver_panel.facts(agent(ui_url="http://driver:4040", dropped={"spool full": 1200}), 0.0))
    assert shown["Spark UI"] == "http://driver:4040"
    assert shown["Events dropped"] == "1.2k spool full"
    assert "Master" not in shown
    assert "Spark UI" not in dict(driver_panel.facts(agent(state="ended", ui_url="http://driver:4040"), 0.0))
