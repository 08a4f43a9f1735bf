"""The table of troubles and what is chosen from it."""

from __future__ import annotations

import ast

import pytest

from controlplane.cli.errors import UnknownTrouble
from controlplane.demo import scenarios


def test_all_troubles_are_chosen_where_none_is_named() -> None:
    assert scenarios.chosen([]) == scenarios.TROUBLES


def test_an_unknown_trouble_is_answered_with_those_there_are() -> None:
    with pytest.raises(UnknownTrouble, match=r"nonsense; there are: steady_copy, .*poison_record"):
        scenarios.chosen(["nonsense"])


def test_every_query_and_every_trouble_has_a_name_of_its_own() -> None:
    assert len({t.name for t in scenarios.TROUBLES}) == len({t.query for t in scenarios.TROUBLES}) == 4


def test_there_is_one_driver_for_each_app_with_its_wanted_queries_only() -> None:
    assert [(d.app, d.queries) for d in scenarios.drivers(scenarios.TROUBLES)] == [
        ("demo-clicks", ("clicks_slow", "payments_poison")),
        ("demo-orders", ("orders_copy", "orders_by_minute")),
    ]
    alone = scenarios.drivers(scenarios.chosen(["poison_record"]))
    assert [(d.app, d.queries) for d in alone] == [("demo-clicks", ("payments_poison",))]


def test_the_listing_has_the_four_fields_that_scripts_read() -> None:
    fields = [set(entry) for entry in scenarios.listing(scenarios.TROUBLES)]
    assert fields == [{"query", "trouble", "expected_status", "expected_alert"}] * 4


@pytest.mark.parametrize("trouble", scenarios.TROUBLES, ids=lambda t: t.name)
def test_a_program_starts_its_query_by_that_name_and_imports_nothing_of_ours(
    trouble: scenarios.Trouble,
) -> None:
    text = (scenarios.PROGRAMS / trouble.program).read_text()
    assert f'.queryName("{trouble.query}")' in text
    assert ".awaitTermination()" in text
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
