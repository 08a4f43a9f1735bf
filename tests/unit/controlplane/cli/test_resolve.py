"""Which query a person means."""

from __future__ import annotations

import pytest

from controlplane.cli.resolve import resolve
from controlplane.console.errors import UsageProblem

A = {"query_id": "ae0c1111-0000-4000-8000-000000000001", "app": "orders", "name": "enrich"}
B = {"query_id": "ae0c2222-0000-4000-8000-000000000002", "app": "billing", "name": "enrich"}
C = {"query_id": "d00d3333-0000-4000-8000-000000000003", "app": "billing", "name": None}
D = {"query_id": "beef4444-0000-4000-8000-000000000004", "app": "billing", "name": "d00d"}
FLEET = [A, B, C, D]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders/enrich", A),
        ("billing/enrich", B),
        ("ae0c1", A),
        ("AE0C-2222", B),
        ("d00d", D),  # a name goes before a prefix
        ("d00d3", C),
        (C["query_id"], C),
    ],
)
def test_names_and_prefixes_find_their_query(text: str, expected: dict[str, str]) -> None:
    assert resolve(text, FLEET) == expected["query_id"]


def test_a_whole_id_need_not_be_in_the_fleet() -> None:
    assert resolve("FFFFFFFF-0000-4000-8000-000000000009", []) == "ffffffff-0000-4000-8000-000000000009"


@pytest.mark.parametrize("text", ["enrich", "ae0c"])
def test_what_is_ambiguous_lists_its_candidates(text: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        resolve(text, FLEET)
    assert "orders/enrich" in caught.value.message
    assert "billing/enrich" in caught.value.message


@pytest.mark.parametrize("text", ["", "ae0", "nothing", "zzzz", "\x1b[31mred"])
def test_what_is_unknown_states_so_without_control_characters(text: str) -> None:
    with pytest.raises(UsageProblem, match="no query matches") as caught:
        resolve(text, FLEET)
    assert caught.value.message.isprintable()


def test_a_crowd_of_candidates_is_cut() -> None:
    many = [
        {"query_id": f"ae0c{i:04d}-0000-4000-8000-000000000001", "app": "a", "name": "n"} for i in range(40)
    ]
    with pytest.raises(UsageProblem, match="and 30 more"):
        resolve("n", many)
