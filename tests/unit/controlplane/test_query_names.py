"""Which query a person means."""

from __future__ import annotations

import pytest

from controlplane.console.tables import query_name
from controlplane.query_names import NamedQuery, candidates, matching, whole_id

A = NamedQuery("ae0c1111-0000-4000-8000-000000000001", "orders", "enrich")
B = NamedQuery("ae0c2222-0000-4000-8000-000000000002", "billing", "enrich")
C = NamedQuery("d00d3333-0000-4000-8000-000000000003", "billing", None)
D = NamedQuery("beef4444-0000-4000-8000-000000000004", "billing", "d00d")
E = NamedQuery("cafe5555-0000-4000-8000-000000000005", "a/b", "two\nlines")
FLEET = [A, B, C, D, E]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders/enrich", A),
        ("orders / enrich", A),  # as the dashboard's list prints it
        ("billing/enrich", B),
        ("ae0c1", A),
        ("AE0C-2222", B),
        ("orders/ae0c", A),
        ("billing/d00d", D),  # a name goes before a prefix
        ("d00d", D),
        ("d00d3", C),
        ("billing/d00d3333", C),
        (C.query_id.upper(), C),
    ],
)
def test_names_and_prefixes_find_their_query(text: str, expected: NamedQuery) -> None:
    assert matching(text, FLEET) == [expected]


@pytest.mark.parametrize("query", FLEET)
def test_every_form_that_a_table_prints_finds_its_query(query: NamedQuery) -> None:
    printed = query_name({"app": query.app, "name": query.name, "query_id": query.query_id})
    for text in (printed, query.query_id, query.query_id[:8]):
        assert matching(text, FLEET) == [query]


@pytest.mark.parametrize("text", ["enrich", "ae0c"])
def test_what_is_ambiguous_has_several_candidates(text: str) -> None:
    assert matching(text, FLEET) == [A, B]
    assert "orders/enrich (ae0c1111" in candidates([A, B])
    assert "billing/enrich (ae0c2222" in candidates([A, B])


@pytest.mark.parametrize("text", ["", "ae0", "orders/d00d3333", "orders/", "/", "zzzz", "\x1b[31mred"])
def test_what_is_unknown_finds_nothing(text: str) -> None:
    assert matching(text, FLEET) == []


def test_a_crowd_of_candidates_is_cut() -> None:
    assert "and 30 more" in candidates([A] * 40)


def test_only_a_whole_id_is_one() -> None:
    assert whole_id("FFFFFFFF-0000-4000-8000-000000000009") == "ffffffff-0000-4000-8000-000000000009"
    assert whole_id("{ffffffff000040008000000000000000009}") is None
    assert whole_id("ffffffff") is None
