"""Texts of the Query page."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ui import factories
from ui.query import panels

HOST = factories.detail()["agent_info"]["host"]


@pytest.mark.parametrize(
    ("host", "text"),
    [
        (None, ""),
        ({}, ""),
        ({"cpus": 2.0, "load": None, "memory_total": None}, ""),
        (
            HOST,
            "Driver host: load 2.53 on 8 CPUs, limit 1.5 CPUs, throttled in 4 % of the time, "
            "3.4 GB of 8 GB memory available.",
        ),
        (
            {"of_client": True, "load": 40.2, "cpus": 2.0, "overload": "load 40 on 2 CPUs"},
            "Host of the Connect client: load 40.2 on 2 CPUs. Overloaded: load 40 on 2 CPUs.",
        ),
        (
            {"load": 3.0, "cpus": 2.0, "memory_pressure": 0.5, "memory_total": None},
            "Driver host: load 3 on 2 CPUs, all tasks waited for memory in 50 % of the time.",
        ),
    ],
)
def test_the_load_of_the_host_is_a_sentence(host: Any, text: str) -> None:
    assert panels.host_text(host) == text


@pytest.mark.parametrize(
    ("figures", "value", "note"),
    [
        ({"lag_rows": 1300, "lag_offsets": 1300}, "1.3k rows", "not read yet"),
        ({"lag_rows": 0, "lag_offsets": 0}, "0 rows", "not read yet"),
        ({"lag_rows": None, "lag_offsets": 0}, "none", "not read yet"),
        (
            {
                "lag_rows": None,
                "lag_offsets": 54,
                "lag_batches": 18,
                "lag_unknown": "offsets do not count rows",
            },
            "18 batches",
            "54 offsets; offsets do not count rows",
        ),
        (
            {"lag_rows": None, "lag_offsets": 54, "lag_batches": None, "lag_unknown": "x"},
            "54 offsets",
            "x",
        ),
        ({"lag_rows": None, "lag_offsets": None, "lag_unknown": "batch 5 repeats"}, "–", "batch 5 repeats"),
        ({"lag_rows": None}, "–", "no latest offset reported"),
    ],
)
def test_a_backlog_is_in_rows_only_where_offsets_count_them(
    figures: dict[str, Any], value: str, note: str
) -> None:
    ((_, *backlog), *_) = panels.numbers({"status": "running", **figures}, 0.0)
    assert backlog == [value, note]
