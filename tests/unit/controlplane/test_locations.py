"""Tests of `controlplane.locations`."""

from __future__ import annotations

import pytest

from controlplane.locations import is_root


@pytest.mark.parametrize(
    ("text", "good"),
    [("/lake", True), ("s3a://b", True), ("lake", False), ("file:lake", False), ("s3:", False)],
)
def test_a_root_is_absolute(text: str, good: bool) -> None:
    assert is_root(text) is good
