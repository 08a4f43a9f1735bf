"""The extent of an incident as a sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.incidents.sentences import sentence
from tests.unit.controlplane.actions.views import NOW
from tests.unit.controlplane.incidents.failures import cause, failure

MEMBERS = [replace(failure(f"q{i}", driver="x", after=i * 60.0).member, app="orders") for i in range(4)]


@pytest.mark.parametrize(
    ("of", "status", "text"),
    [
        ("driver:d", "failed", "The driver of orders died; 4 queries with it."),
        ("driver:d", "unreachable", "The driver of orders does not answer; 4 queries with it."),
        ("host:h1", "lost", "Drivers on host h1 went down within 3 min; 4 queries of orders with them."),
        ("condition:network", "failed", "4 queries of orders failed within 3 min with network."),
        ("source:topic t", "failed", "4 queries of orders that read topic t failed within 3 min."),
        ("catalog:prod", "failed", "4 queries of orders that use catalog prod failed within 3 min."),
    ],
)
def test_a_sentence_names_cause_and_extent(of: str, status: str, text: str) -> None:
    assert sentence(cause(of), [replace(m, status=status) for m in MEMBERS]) == text


def test_it_counts_the_queries_that_run_again() -> None:
    up = [replace(m, until=NOW) for m in MEMBERS]
    assert sentence(cause("driver:d"), [*up[:1], *MEMBERS[1:]]).endswith("with it. 1 of them run again.")
    assert sentence(cause("driver:d"), up).endswith("with it. All run again.")
