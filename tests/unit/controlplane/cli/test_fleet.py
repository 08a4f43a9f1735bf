"""Which query a command acts on, asked of the server's lists."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.cli.fleet import find_query
from controlplane.console.client import ApiClient
from controlplane.console.errors import UsageProblem

UNNAMED = {"query_id": "c1851953-0000-4000-8000-000000000001", "app": "WordCount", "name": None}
TWIN = {"query_id": "c1852222-0000-4000-8000-000000000002", "app": "WordCount", "name": "twin"}
RETIRED = {"query_id": "beef3333-0000-4000-8000-000000000003", "app": "old", "name": "orders"}


class Lists(ApiClient):
    """A server with two queries and a retired one."""

    def __init__(self) -> None:
        """Without a connection."""

    def get(self, path: str, **parameters: Any) -> Any:
        assert path == "/api/v1/queries"
        return {"queries": [RETIRED] if parameters.get("status") == "retired" else [UNNAMED, TWIN]}


@pytest.mark.parametrize(
    ("text", "query"),
    [("WordCount/c1851953", UNNAMED), ("twin", TWIN), ("old/orders", RETIRED), ("old/beef3333", RETIRED)],
)
def test_a_query_is_found_as_a_table_prints_it(text: str, query: dict[str, str]) -> None:
    assert find_query(Lists(), text) == query["query_id"]


def test_a_whole_id_need_not_be_listed() -> None:
    whole = "ffffffff-0000-4000-8000-000000000009"
    assert find_query(Lists(), whole.upper()) == whole


@pytest.mark.parametrize(
    ("text", "reason"),
    [("WordCount/c185", "matches WordCount/c1851953"), ("\x1b[31mx", "no query matches"), (" ", "is empty")],
)
def test_no_action_is_taken_on_a_guess(text: str, reason: str) -> None:
    with pytest.raises(UsageProblem, match=reason) as caught:
        find_query(Lists(), text)
    assert caught.value.message.isprintable()
