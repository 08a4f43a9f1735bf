"""The table of troubles and what is chosen from it."""

from __future__ import annotations

import ast

import pytest

from alerts.rules import pack
from alerts.rules.loader import load
from controlplane.console.errors import UnknownTrouble
from controlplane.demo import scenarios


def test_all_troubles_are_chosen_where_none_is_named() -> None:
    assert scenarios.chosen([]) == scenarios.TROUBLES


def test_an_unknown_trouble_is_answered_with_those_there_are() -> None:
    with pytest.raises(
        UnknownTrouble, match=r"nonsense; the troubles are: steady_copy, .*poison_record.*dead_driver$"
    ):
        scenarios.chosen(["nonsense"])


def test_every_query_and_every_trouble_has_a_name_of_its_own() -> None:
    number = len(scenarios.TROUBLES)
    assert len({t.name for t in scenarios.TROUBLES}) == len({t.query for t in scenarios.TROUBLES}) == number


def test_every_expected_alert_is_one_of_the_shipped_rules() -> None:
    groups, mistakes = load(pack.render())
    shipped = {rule.name for group in groups for rule in group.rules}
    assert mistakes == ()
    assert {t.expected_alert for t in scenarios.TROUBLES if not t.is_healthy} <= shipped


def test_each_unhealthy_trouble_has_an_alert_of_its_own() -> None:
    alerts = [t.expected_alert for t in scenarios.TROUBLES if not t.is_healthy]
    assert len(set(alerts)) == len(alerts)


def test_the_healthy_driver_comes_first_and_each_has_its_wanted_queries_only() -> None:
    assert [d.app for d in scenarios.drivers(scenarios.TROUBLES)] == [
        "demo-orders",
        "demo-clicks",
        "demo-billing",
        "demo-couriers",
    ]
    wanted = scenarios.drivers(scenarios.chosen(["poison_record", "slow_consumer", "deduplication"]))
    assert [(d.app, d.queries) for d in wanted] == [
        ("demo-orders", ("orders_once",)),
        ("demo-clicks", ("clicks_slow", "payments_poison")),
    ]


def test_the_listing_has_the_four_fields_that_scripts_read() -> None:
    entries = scenarios.listing(scenarios.TROUBLES)
    assert {frozenset(entry) for entry in entries} == {
        frozenset({"query", "trouble", "expected_status", "expected_alert"})
    }


@pytest.mark.parametrize("trouble", scenarios.TROUBLES, ids=lambda t: t.name)
def test_a_program_starts_its_query_by_that_name_and_imports_nothing_of_ours(
    trouble: scenarios.Trouble,
) -> None:
    text = (scenarios.PROGRAMS / trouble.program).read_text()
    assert f'.queryName("{trouble.query}")' in text
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(text))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert not imported & {"alerts", "controlplane", "listeners", "ui"}
