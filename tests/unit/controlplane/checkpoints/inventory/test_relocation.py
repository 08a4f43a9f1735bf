"""Paths inside the logs, and where they are now."""

from __future__ import annotations

import pytest

from controlplane.checkpoints.inventory.relocation import below, plain_path, relocated


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("file:///a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("/a/b/", "/a/b"),
        ("s3a://bucket/a", "s3a://bucket/a"),
        ("/", "/"),
    ],
)
def test_one_place_has_one_spelling(path: str, plain: str) -> None:
    assert plain_path(path) == plain


@pytest.mark.parametrize(
    ("path", "now"),
    [
        ("file:///old/place/in/f.json", "/here/in/f.json"),
        ("file:/old/place", "/here"),
        ("/old/places/f", "/old/places/f"),
        ("s3://bucket/x/y", "/mnt/x/y"),
        ("hdfs://other/x", "hdfs://other/x"),
    ],
)
def test_the_first_pair_that_holds_the_path_moves_it(path: str, now: str) -> None:
    assert relocated(path, [("/old/place", "/here/"), ("s3://bucket", "file:///mnt")]) == now


def test_a_path_elsewhere_is_not_below() -> None:
    assert below("/a/b/c", "/a/b") == "c"
    assert below("/a/bc", "/a/b") is None
