"""Tests of `controlplane.locations`."""

from __future__ import annotations

import pytest

from controlplane.locations import checkpoint_key, is_root


@pytest.mark.parametrize(
    ("text", "good"),
    [("/lake", True), ("s3a://b", True), ("lake", False), ("file:lake", False), ("s3:", False)],
)
def test_a_root_is_absolute(text: str, good: bool) -> None:
    assert is_root(text) is good


@pytest.mark.parametrize(
    ("location", "host", "key"),
    [
        ("file:/ck/a/", "h1", "file://h1/ck/a"),
        ("/ck/a", "h1", "file://h1/ck/a"),
        ("/ck/a", "", ""),  # whose disk is unknown
        ("S3A://bucket/a/", "h1", "s3a://bucket/a"),
        ("hdfs://nn:9000/a", "", "hdfs://nn:9000/a"),
        ("", "h1", ""),
    ],
)
def test_a_local_checkpoint_is_another_one_on_each_host(location: str, host: str, key: str) -> None:
    assert checkpoint_key(location, host) == key
