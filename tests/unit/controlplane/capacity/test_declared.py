"""Limits in labels."""

from __future__ import annotations

import pytest

from controlplane.capacity import declared


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5000000", 5e6),
        ("4GiB", 4 * 2**30),
        ("1.5 TB", 1.5e12),
        ("2k", None),
        ("", None),
        ("0", None),
        ("-1", None),
    ],
)
def test_sizes(text: str, value: float | None) -> None:
    assert declared.size(text) == value


def test_labels_state_limits() -> None:
    labels = {"state_limit_rows": "100", "state_limit_bytes": "1kB", "retention": "1d12h", "team": "data"}
    found = [(limit.unit, limit.value, limit.origin) for limit in declared.state_limits(labels)]
    assert found == [("rows", 100, "label state_limit_rows"), ("bytes", 1000, "label state_limit_bytes")]
    assert declared.retention(labels) == 129_600
    assert list(declared.state_limits({"state_limit_rows": "many"})) == []
