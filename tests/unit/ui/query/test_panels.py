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
    ],
)
def test_the_load_of_the_host_is_a_sentence(host: Any, text: str) -> None:
    assert panels.host_text(host) == text
