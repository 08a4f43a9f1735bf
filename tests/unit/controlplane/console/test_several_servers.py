"""Answers of several servers as one; the two forms, of the command line and of the dashboard, agree."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.console import several_servers
from ui.kit import several_servers as dashboard

EU = {
    "as_of": "1",
    "counts": {"failed": 1, "running": 2},
    "queries": [{"name": "a", "status": "failed"}, {"name": "b", "status": "idle"}],
}
US = {"as_of": "2", "counts": {"running": 1, "idle": 1}, "queries": [{"name": "c", "status": "lost"}]}


@pytest.mark.parametrize("merged", [several_servers.merged, dashboard.merged])
def test_lists_are_joined_worst_first_and_counts_are_added(merged: Any) -> None:
    found = merged({"eu": EU, "us": US})
    assert [(q["server"], q["name"]) for q in found["queries"]] == [("eu", "a"), ("us", "c"), ("eu", "b")]
    assert found["counts"] == {"failed": 1, "running": 3, "idle": 1}
    assert found["as_of"] == "1"


@pytest.mark.parametrize("merged", [several_servers.merged, dashboard.merged])
def test_an_answer_to_a_query_of_metrics_is_joined(merged: Any) -> None:
    answer = {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}}]}}
    found = merged({"eu": answer, "us": answer})
    assert (found["status"], len(found["data"]["result"])) == ("success", 2)


def test_both_read_the_same_names() -> None:
    text = "eu=http://a,http://b;us=http://c/"
    assert dashboard.named_servers(text) == several_servers.named_servers(text)
    assert dashboard.named_servers("http://a,http://b") == {}
    assert several_servers.token_variable("eu-west") == "CONTROLPLANE_TOKEN_EU_WEST"
