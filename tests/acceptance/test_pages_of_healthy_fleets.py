"""A day of fifty healthy queries pages nobody, and each trouble of the gallery is found by its alert."""

from __future__ import annotations

import pytest

from tests.healthy_fleets import TROUBLES, found_troubles, healthy


@pytest.mark.long
def test_a_day_of_fifty_healthy_queries_pages_nobody() -> None:
    simulation = healthy(queries=50, days=1.0, seed=20261122, step=180.0)
    assert simulation.pages() == []
    assert min(query.batch for query in simulation.queries) > 3
    assert sum(query.runs > 1 for query in simulation.queries) > 10


@pytest.mark.long
def test_each_trouble_is_found_by_its_alert() -> None:
    found = found_troubles()
    missed = {name: found[name] for name, item in TROUBLES.items() if item.alert not in found[name]}
    assert missed == {}
